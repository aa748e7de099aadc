"""Rules of consumer groups whose members share partitions (S9, S10, S13), and of sinks (S14)."""

from __future__ import annotations

from typing import Any

import pytest

from sharegroup.check.reader_rules import HASH_MAX
from tests.check.recorder import GROUP, TOPIC, Recorder

HALF = HASH_MAX // 2


class Readers(Recorder):
    """A history of a consumer group."""

    def __init__(self, ordering: str = "key") -> None:
        super().__init__(ordering=ordering)

    def owns(self, member: str, *ranges: tuple[int, int], **said: int) -> None:
        parts = [[TOPIC, 0, *one] for one in ranges]
        self.tell("owns", group=GROUP, member=member, parts=parts, **said)

    def read(self, member: str, *offsets: int, key: str | None = None) -> None:
        of = [] if key is None else [key]
        records = [[TOPIC, 0, offset, f"r{offset}", *of] for offset in offsets]
        self.tell("read", group=GROUP, member=member, records=records)

    def commit(self, member: str, first: int, last: int, result: str = "ok") -> None:
        n = self.n()
        self.tell("commit", n=n, group=GROUP, member=member, offsets=[[TOPIC, 0, first, last]])
        self.tell("committed", n=n, result=result)

    def fetched(self, offset: int, *ranges: tuple[int, int], since: int | None = None) -> None:
        said: dict[str, Any] = {"ranges": [[*one] for one in ranges]}
        said["since"] = self.t + 1 if since is None else since
        self.tell("fetched", group=GROUP, topic=TOPIC, partition=0, offset=offset, **said)


def test_readers_that_are_right() -> None:
    history = Readers()
    history.produce(*range(6))
    history.owns("a", (0, HALF))
    history.owns("b", (HALF + 1, HASH_MAX))
    history.tell("calm")
    history.read("a", 0, 2, 4, key="k")
    history.read("b", 1, 3, 5, key="l")
    history.commit("a", 4, 4)
    history.commit("b", 1, 1)
    history.fetched(0, (1, 1), (4, 4))
    history.commit("a", 0, 2, "unknown")
    history.fetched(3, (4, 4))
    history.commit("b", 3, 5)
    history.fetched(6)
    history.end()
    assert history.found() == []


def test_what_was_committed_is_not() -> None:
    history = Readers()
    history.produce(*range(4))
    history.commit("a", 0, 3)
    history.fetched(0, since=0)  # asked for before
    history.fetched(1, (3, 3))
    said = "was committed, and is not committed any more"
    assert history.found() == [f"S13 jobs:0@1-2 of {GROUP}: {said}"]


def test_what_is_committed_was_not() -> None:
    history = Readers()
    history.produce(0, 1, 3)  # and something at 2 that nobody knows of
    history.commit("a", 0, 0)
    history.fetched(4)
    said = "is committed, and nobody has committed it"
    assert history.found() == [
        f"S13 jobs:0@1 of {GROUP}: {said}",
        f"S13 jobs:0@3 of {GROUP}: {said}",
    ]


def test_read_after_it_was_committed() -> None:
    history = Readers()
    history.produce(0, 1)
    history.owns("a", (0, HASH_MAX))
    history.read("a", 0, 1)
    history.owns("b", (0, HALF))
    history.commit("a", 0, 0)
    history.read("b", 0)  # it may have had the range, and the record, before
    history.commit("a", 1, 1)
    history.owns("b", (0, HASH_MAX))
    history.read("b", 1)
    said = "read by b, who got the partition after it was committed"
    assert history.found() == [f"S13 jobs:0@1 of {GROUP}: {said}"]


@pytest.mark.parametrize("before", [True, False])
def test_committed_while_the_next_member_gets_the_partition(before: bool) -> None:
    """Its poll may have looked up what is committed before that commit."""
    history = Readers()
    history.produce(0)
    history.owns("a", (0, HASH_MAX))
    history.read("a", 0)
    asked = history.t + 1
    history.commit("a", 0, 0)
    history.owns("b", (0, HASH_MAX), since=asked if before else history.t + 1)
    history.read("b", 0)
    said = "read by b, who got the partition after it was committed"
    assert history.found() == ([] if before else [f"S13 jobs:0@0 of {GROUP}: {said}"])


@pytest.mark.parametrize("moved", [True, False])
@pytest.mark.parametrize("calm", [True, False])
def test_a_record_that_comes_to_two(calm: bool, moved: bool) -> None:
    """It may, when partitions have moved, or not all was well."""
    history = Readers("none")
    history.produce(0)
    history.owns("a", ())
    history.owns("b", ())
    if calm:
        history.tell("calm")
    history.read("a", 0)
    if moved:
        history.owns("b", (0, HALF))
    history.read("b", 0)
    said = "read by b after a, and nothing has changed hands"
    found = [f"S10 jobs:0@0 of {GROUP}: {said}"] if calm and not moved else []
    assert history.found() == found


def test_a_key_in_the_wrong_order() -> None:
    history = Readers()
    history.owns("a", (0, HASH_MAX))
    history.read("a", 0, 2, key="k")
    history.read("a", 1, key="l")
    history.read("a", 1, key="k")
    history.owns("a", (0, HALF))  # begins where the group had committed
    history.read("a", 0, key="k")
    assert history.found() == [f"S9 jobs:0@1 of {GROUP}: read by a after 2 of its key"]


@pytest.mark.parametrize(
    ("ranges", "said"),
    [
        ([(0, HALF), (HALF + 1, HASH_MAX)], None),
        ([(0, HALF), (HALF, HASH_MAX)], f"a and b both have hash {HALF}"),
        ([(0, HALF), (HALF + 2, HASH_MAX)], f"nobody has hash {HALF + 1}"),
        ([(0, HALF), (HALF + 1, HASH_MAX - 1)], f"nobody has hash {HASH_MAX}"),
    ],
)
def test_each_hash_has_one_owner_at_the_end(ranges: list[tuple[int, int]], said: str) -> None:
    history = Readers()
    history.owns("c", (0, HASH_MAX))
    for member, one in zip("ab", ranges, strict=True):
        history.owns(member, one)
    history.tell("leave", group=GROUP, member="c")
    history.tell("calm")
    history.end()
    assert history.found() == ([] if said is None else [f"S10 jobs:0@0 of {GROUP}: {said}"])


def test_a_record_that_nobody_read() -> None:
    history = Readers("none")
    history.produce(0, 1)
    history.owns("a", (0, HASH_MAX))
    history.read("a", 0)
    history.end()
    assert history.found() == [f"S1 jobs:0@1 of {GROUP}: never read"]


def test_a_sink_that_is_right() -> None:
    history = Recorder()
    history.produce(0, 1)
    history.produce(2, result="aborted")
    for offset in (1, 0):
        history.tell("sunk", sink="table", topic=TOPIC, partition=0, offset=offset)
    history.end(drained=[], sinks={"table": [TOPIC]})
    assert history.found() == []


def test_a_sink_that_is_not() -> None:
    history = Recorder()
    history.produce(0, 1, 2)
    for offset in (1, 1):
        history.tell("sunk", sink="table", topic=TOPIC, partition=0, offset=offset)
    history.end(drained=[], sinks={"table": [TOPIC]})
    assert history.found() == [
        "S14 jobs:0@1: stands in table more than once",
        "S14 jobs:0@0: is not in table",
        "S14 jobs:0@2: is not in table",
    ]
