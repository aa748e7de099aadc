"""The journals of a round as a history that ``sharegroup check`` reads (docs/correctness.md).

The members' clients may have asked for a record at any time since their process began.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from sharegroup.sim.recorder import Recorder
from tests.kills.journal import Line
from tests.kills.ordering.keyed import GROUP, GROUP_SETTINGS, LOCK_MS, TOPIC
from tests.kills.ordering.rules import Keys

NS: Final = 1_000_000_000


class _Member:
    """One life of a member."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.begun_ms = 0.0
        """When it had not asked for anything yet; 0: nobody knows."""
        self.took: list[list[int]] = []
        self.call: int | None = None
        """The number of the call that has no answer yet."""
        self.acks: list[list[Any]] = []


class _Writer:
    """Turns lines into events."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.now_s = 0.0
        self._history = Recorder(lambda: self.now_s, self.lines.append)
        self._members: dict[tuple[str, int], _Member] = {}

    def begin(self, keys: Keys, at_s: float) -> None:
        """What holds, and all records: they are in the log in the end."""
        self.now_s = at_s
        limit = int(GROUP_SETTINGS["share.delivery.count.limit"])
        how = {"limit": limit, "lock_ms": LOCK_MS, "ordering": "key"}
        # The clients fetch ahead, so members that are killed had records that nobody saw.
        self._history.tell("settings", group=GROUP, unseen=True, **how)
        for partition, of_offset in keys.items():
            for offset, key in enumerate(of_offset):
                record = {"topic": TOPIC, "id": f"{partition}/{offset}", "key": key.decode()}
                n = self._history.call("produce", **record)
                self._history.tell("produced", n=n, partition=partition, offset=offset)

    def take(self, line: Line) -> None:
        """The next line."""
        self.now_s = line.at_ns / NS
        if line.what == "broker killed":
            self._history.tell("kill")
        elif line.what == "killed":
            self._left(line.more["victim"], line.more["life"])
        elif line.what in ("ends", "gave up"):
            self._left(line.who, line.life)
        elif line.what == "begins":
            self._member(line).begun_ms = line.at_ns / 1_000_000
        elif line.what in ("took", "accepting", "answered"):
            getattr(self, "_" + line.what)(self._member(line), line.more)

    def end(self) -> None:
        """Everything was read."""
        self._history.tell("end", drained=[GROUP])

    def _member(self, line: Line) -> _Member:
        life = line.who, line.life
        if life not in self._members:
            self._members[life] = _Member(f"{line.who}.{line.life}")
        return self._members[life]

    def _left(self, who: str, life: int) -> None:
        for (name, of), member in self._members.items():
            if of == life and name.partition(".")[0] == who.partition(".")[0]:
                self._history.tell("leave", group=GROUP, member=member.name)

    def _took(self, member: _Member, more: dict[str, Any]) -> None:
        member.took = more["records"]
        n = self._history.call("poll", group=GROUP, member=member.name)
        acquired = [[TOPIC, at, offset, offset, count] for at, offset, count in member.took]
        records = [[TOPIC, at, offset, f"{at}/{offset}"] for at, offset, _ in member.took]
        said = {"acquired": acquired, "records": records, "since": member.begun_ms}
        self._history.tell("polled", n=n, **said)

    def _accepting(self, member: _Member, more: dict[str, Any]) -> None:
        accepted = {(at, offset) for at, offset in more["records"]}
        member.acks = [
            [TOPIC, at, offset, offset, "accept" if (at, offset) in accepted else "release"]
            for at, offset, _ in member.took
        ]
        member.call = self._history.call("ack", group=GROUP, member=member.name, acks=member.acks)

    def _answered(self, member: _Member, more: dict[str, Any]) -> None:
        done = set(more["done"])
        results = ["ok" if ack[1] in done else "unknown" for ack in member.acks]
        self._history.tell("acked", n=member.call, results=results)


def history(lines: Sequence[Line], keys: Keys) -> Iterator[str]:
    """The events. ``lines``: by time."""
    writer = _Writer()
    writer.begin(keys, lines[0].at_ns / NS if lines else 0)
    for line in lines:
        writer.take(line)
    writer.end()
    yield from writer.lines
