"""The steps of a release: each is said with its time, and what it runs is bounded and logged."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path


class ReleaseError(Exception):
    """The release cannot go on; the text is one sentence."""


@contextmanager
def step(name: str) -> Iterator[None]:
    """Say what is done, and how long it took."""
    print(f"  {name} …", end="", flush=True)
    began = time.monotonic()
    try:
        yield
    except BaseException:
        print(flush=True)
        raise
    print(f" {time.monotonic() - began:.1f} s", flush=True)


class Commands:
    """Runs commands, with all that they print in one file."""

    def __init__(self, log: Path) -> None:
        self._log = log
        log.write_text("")

    def run(
        self,
        command: Sequence[str | Path],
        *,
        within_s: float,
        cwd: Path,
        env: Mapping[str, str],
    ) -> str:
        """What the command printed. Raises ReleaseError if it fails or takes longer."""
        said = " ".join(Path(word).name for word in map(str, command[:4]))
        with self._log.open("a+") as log:
            log.write(f"\n$ {' '.join(map(str, command))}\n")
            log.flush()
            start = log.tell()
            try:
                subprocess.run(
                    command, cwd=cwd, env=env, timeout=within_s, stdout=log, stderr=log,
                    stdin=subprocess.DEVNULL, check=True,
                )  # fmt: skip
            except subprocess.TimeoutExpired as error:
                raise ReleaseError(f"`{said} …` took over {within_s:.0f} s") from error
            except (subprocess.CalledProcessError, OSError) as error:
                raise ReleaseError(f"`{said} …` failed: see {self._log}") from error
            log.seek(start)
            return log.read()
