"""Scenarios of delivery written down: one line a step, in the files of ``scenarios/``.

::

    == testName            a scenario begins; ``#`` begins a comment
    load 10 15-18:available*2        durable state: start offset, then state batches
    limit 5 | locks 20 | lock_ms 100 | renew off        group settings, from now on
    read 10-14 15-19 [by m] [max 500] [size 500] [strict] [from 10] [aborted 10-14]
        -> 10-19*1                   log batches read, ranges acquired with delivery counts
    ack 10-14 accept*3 gap*2, 15-19 release [by m]      ``refused not-acquired`` or
        ``refused bad-request`` at the end when it must be
    expire | wait 50 | release m | log_start 10 | restart
    expect start=10 end=20 next=10 complete=0 room=yes deadline=100 expired=5
    shape 10-14:acquired*1 15-19:available*1

A long step goes on in an indented line. ``read`` is from the next fetch offset. After every step
the partition's invariants hold. ``restart`` loads what was written, through the share coordinator.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from uuid import UUID

import pytest

from sharegroup.model.errors import InvalidRecordState, InvalidRequest
from sharegroup.model.ids import SharePartitionKey
from sharegroup.model.share_state import StateBatch
from sharegroup.share.acknowledge import AckBatch
from sharegroup.share.partition import SharePartition
from sharegroup.share.record_state import AckType, RecordState
from sharegroup.share.settings import DeliverySettings
from sharegroup.share.state_changes import StateChange
from sharegroup.share_state.coordinator import ShareCoordinator

FOLDER = Path(__file__).with_name("scenarios")
KEY = SharePartitionKey("g", UUID(int=1), 0)
REFUSALS = {"not-acquired": InvalidRecordState, "bad-request": InvalidRequest}


def scenarios() -> dict[str, list[str]]:
    """The steps of every scenario by ``file-name``."""
    found: dict[str, list[str]] = {}
    steps: list[str] = []
    for path in sorted(FOLDER.glob("*.txt")):
        for line in path.read_text().splitlines():
            text = line.split("#")[0].rstrip()
            if text.startswith("== "):
                name = f"{path.stem}-{text[3:]}"
                assert name not in found, f"{name} is there twice"
                steps = found[name] = []
            elif text.startswith(" "):
                steps[-1] += " " + text.strip()
            elif text:
                steps.append(text)
    return found


def pair(text: str) -> tuple[int, int]:
    first, _, last = text.partition("-")
    return int(first), int(last or first)


def state_batch(text: str) -> StateBatch:
    offsets, _, rest = text.partition(":")
    state, _, count = rest.partition("*")
    return StateBatch(*pair(offsets), RecordState[state.upper()], int(count))


class Script:
    """Plays one scenario."""

    def __init__(self) -> None:
        self.settings = DeliverySettings(
            lock_ms=100, delivery_count_limit=5, record_locks_max=2_000
        )
        self.now_ms = 0
        self.expired = 0
        self._begin(0, ())

    def play(self, steps: list[str]) -> None:
        for step in steps:
            verb, *words = step.split()
            try:
                getattr(self, f"do_{verb}")(words)
                self.partition.check_invariants()
            except AssertionError as error:
                raise AssertionError(f"{step}: {error}") from error

    def do_load(self, words: list[str]) -> None:
        self._begin(int(words[0]), tuple(state_batch(word) for word in words[1:]))

    def do_limit(self, words: list[str]) -> None:
        self.settings = replace(self.settings, delivery_count_limit=int(words[0]))

    def do_locks(self, words: list[str]) -> None:
        self.settings = replace(self.settings, record_locks_max=int(words[0]))

    def do_lock_ms(self, words: list[str]) -> None:
        self.settings = replace(self.settings, lock_ms=int(words[0]))

    def do_renew(self, words: list[str]) -> None:
        self.settings = replace(self.settings, renew_enabled=words == ["on"])

    def do_read(self, words: list[str]) -> None:
        arrow = words.index("->")
        options = _options(words[:arrow], "by", "max", "size", "from", "aborted")
        strict = "strict" in words
        acquisition = self.partition.acquire(
            options.get("by", "m"),
            [pair(word) for word in takewhile(lambda word: word[0].isdigit(), words)],
            fetch_offset=int(options.get("from", self.partition.next_fetch_offset())),
            records_max=int(options.get("max", 500)),
            batch_size=int(options.get("size", 500)),
            strict=strict,
            aborted=[pair(options["aborted"])] if "aborted" in options else [],
            now_ms=self.now_ms,
            settings=self.settings,
        )
        given = [f"{r.first}-{r.last}*{r.delivery_count}" for r in acquisition.ranges]
        assert given == [w for w in words[arrow + 1 :] if w != "nothing"]

    def do_ack(self, words: list[str]) -> None:
        refusal = REFUSALS[words.pop()] if words[-2:-1] == ["refused"] else None
        if refusal:
            words.pop()
        member = words[words.index("by") + 1] if "by" in words else "m"
        text = " ".join(words).split(" by ")[0]
        batches = [_ack_batch(part.split()) for part in text.split(",")]
        before = list(self.partition.spans())
        if refusal:
            with pytest.raises(refusal):
                self._acknowledge(member, batches)
            assert list(self.partition.spans()) == before, "all or nothing"
        else:
            self._write(self._acknowledge(member, batches))

    def _acknowledge(self, member: str, batches: list[AckBatch]) -> StateChange | None:
        return self.partition.acknowledge(
            member, batches, now_ms=self.now_ms, settings=self.settings
        )

    def do_expire(self, words: list[str]) -> None:
        self.do_wait([str(self.settings.lock_ms)])

    def do_wait(self, words: list[str]) -> None:
        self.now_ms += int(words[0])
        change = self.partition.tick(self.now_ms, self.settings)
        self.expired = change.expired if change else 0
        self._write(change)

    def do_release(self, words: list[str]) -> None:
        change = self.partition.release_member(words[0], now_ms=self.now_ms, settings=self.settings)
        self._write(change)

    def do_log_start(self, words: list[str]) -> None:
        self._write(self.partition.log_start_moved(int(words[0])))

    def do_restart(self, words: list[str]) -> None:
        state, _ = self.coordinator.read(KEY, 1, self.now_ms)
        self._load(state.start_offset, state.batches)

    def do_expect(self, words: list[str]) -> None:
        partition = self.partition
        deadline = partition.next_deadline_ms()
        seen = {
            "start": partition.start_offset,
            "end": partition.end_offset,
            "next": partition.next_fetch_offset(),
            "complete": partition.delivery_complete_count,
            "room": "yes" if partition.can_acquire(self.settings) else "no",
            "deadline": "none" if deadline is None else deadline,
            "expired": self.expired,
        }
        expected = dict(word.split("=") for word in words)
        assert expected == {name: str(seen[name]) for name in expected}

    def do_shape(self, words: list[str]) -> None:
        shape = [
            f"{s.first}-{s.last}:{s.state.name.lower()}"
            + (f"*{s.delivery_count}" if s.state < RecordState.ACKNOWLEDGED else "")
            for s in self.partition.spans()
        ]
        assert shape == words

    def _begin(self, start_offset: int, batches: tuple[StateBatch, ...]) -> None:
        self.coordinator = ShareCoordinator(updates_per_snapshot=4)
        self.coordinator.initialize(KEY, 1, start_offset, self.now_ms)
        self.coordinator.write(KEY, 1, 1, start_offset, 0, batches, self.now_ms)
        self._load(start_offset, batches)

    def _load(self, start_offset: int, batches: tuple[StateBatch, ...]) -> None:
        self.partition = SharePartition(
            start_offset=start_offset, state_epoch=1, leader_epoch=1, batches=batches
        )

    def _write(self, change: StateChange | None) -> None:
        if change is not None:
            count = change.delivery_complete_count
            self.coordinator.write(
                KEY, 1, 1, change.start_offset, count, change.batches, self.now_ms
            )


def _options(words: list[str], *names: str) -> dict[str, str]:
    return {name: words[words.index(name) + 1] for name in names if name in words}


def _ack_batch(words: list[str]) -> AckBatch:
    return (*pair(words[0]), list(_types(words[1:])))


def _types(words: list[str]) -> Iterator[int]:
    for word in words:
        name, _, times = word.partition("*")
        kind = int(name) if name.isdigit() else AckType[name.upper()]
        yield from [kind] * int(times or 1)
