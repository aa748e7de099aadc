"""One point: a broker dies there and starts again without it; what its clients saw is judged."""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from sharegroup.check.judge import judged
from sharegroup.sim.recorder import Recorder
from tests.failpoints.clients import OPTIONS, PLAN, work
from tests.servers.process import ServerFailed
from tests.servers.sharegroup_server import SharegroupServer

SOURCE: Final = Path(__file__).with_name("failpoint.c")
KINDS: Final = "write", "sync", "change"


class Point(NamedTuple):
    """Where the broker dies: at the ``number``-th operation of a kind.

    Attributes:
        moment: ``before`` it, ``after`` it, or ``torn`` (a write: after a half of it).
        power: as a power loss: what was not synced is gone.
    """

    kind: str
    number: int
    moment: str = "before"
    power: bool = False

    def __str__(self) -> str:
        return f"{self.kind} {self.moment} {self.number}" + " power" * self.power


def compiled(folder: Path, source: Path = SOURCE) -> Path:
    """A library for LD_PRELOAD; by default the one that kills a process."""
    library = folder / f"{source.stem}.so"
    words = ["gcc", "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"]
    subprocess.run(words, check=True)
    return library


class Died(NamedTuple):
    """What came of a point.

    Attributes:
        there: whether the broker has died at all.
        wrong: what does not hold.
    """

    there: bool
    wrong: list[str]


class PointRound:
    """See the module.

    Args:
        transactional: the producer uses transactions.
    """

    def __init__(self, folder: Path, library: Path, *, transactional: bool = False) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._server = SharegroupServer(folder, *OPTIONS)
        self._plan = replace(PLAN, transactional=int(transactional))
        self._data = (folder / "data").absolute()
        self._library = library
        self._lines: list[str] = []
        self._history = Recorder(time.monotonic, self._lines.append)
        self._over = False
        self._deaths = 0

    def count(self) -> dict[str, int]:
        """How many operations of each kind there are, if nobody dies."""
        file = (self._folder / "count").absolute()
        self._play({"FAILPOINT_COUNT": str(file)})
        return {kind: int(many) for kind, many in map(str.split, file.read_text().splitlines())}

    def die(self, point: Point) -> Died:
        """Let the broker die there."""
        said = {"FAILPOINT": f"{point.kind} {point.moment} {point.number}"}
        if point.power:
            said["FAILPOINT_POWER"] = "1"
        self._play(said)
        (self._folder / "history.jsonl").write_text("".join(f"{one}\n" for one in self._lines))
        wrong = [str(one) for one in judged(self._lines).violations]
        log = self._server.output()
        wrong += ["a traceback in the broker's log"] * ("Traceback" in log)
        return Died(self._deaths > 0, wrong)

    def _play(self, said: Mapping[str, str]) -> None:
        preload = {"LD_PRELOAD": str(self._library), "FAILPOINT_FOLDER": str(self._data)}
        self._server.process.environment |= preload | said
        try:
            self._start()
            asyncio.run(self._work())
            self._server.stop()
        finally:
            if self._server.process.running:
                self._server.kill()

    def _start(self) -> None:
        try:
            self._server.start()
        except ServerFailed:
            self._died()
            self._server.start()

    def _died(self) -> None:
        """From now on it lives."""
        self._deaths += 1
        self._history.tell("kill")
        for name in [*self._server.process.environment]:
            if name.startswith("FAILPOINT") or name == "LD_PRELOAD":
                del self._server.process.environment[name]

    async def _watch(self) -> None:
        while not self._over:
            await asyncio.sleep(0.02)
            if not self._server.process.running:
                self._died()
                self._server.kill()
                await asyncio.to_thread(self._server.start)

    async def _work(self) -> None:
        watching = asyncio.create_task(self._watch())
        calm = asyncio.Event()
        calm.set()
        await work(self._plan, self._history, self._server.bootstrap, calm)
        self._over = True
        await watching
