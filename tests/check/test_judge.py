"""Each rule holds for a history that is right, and shows in one that is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sharegroup.check.history import FIELDS, BadHistory
from sharegroup.check.judge import judged
from sharegroup.check.states import Settings
from tests.check.recorder import GROUP, TOPIC, Recorder


def test_a_history_that_is_right() -> None:
    history = Recorder()
    history.produce(*range(10))
    history.poll("a", 0, 4)
    history.poll("b", 5, 9)
    history.ack("a", 0, 2)
    history.ack("a", 3, 4, "release")
    history.poll("b", 3, 4, 2)
    history.ack("b", 3, 9)
    history.end()
    assert history.found() == []


def test_a_record_that_is_lost() -> None:
    history = Recorder()
    history.produce(*range(4))
    history.poll("a", 0, 1)
    history.ack("a", 0, 0)
    history.end()
    assert history.found() == [
        f"S1 jobs:0@1 of {GROUP}: delivered, not done, and gone",
        f"S1 jobs:0@2-3 of {GROUP}: never delivered",
    ]


def test_a_record_at_the_limit_is_not_lost() -> None:
    history = Recorder(limit=1)
    history.produce(0)
    history.poll("a", 0, 0)
    history.tell("leave", group=GROUP, member="a")
    history.end()
    assert history.found() == []


def test_a_poll_without_an_answer_may_have_been_the_last_delivery() -> None:
    history = Recorder(limit=1)
    history.produce(0)
    history.tell("poll", n=history.n(), group=GROUP, member="a")
    history.end()
    assert history.found() == []


def test_what_is_accepted_comes_again() -> None:
    history = Recorder()
    history.produce(0, 1)
    history.poll("a", 0, 1)
    history.ack("a", 0, 1)
    history.poll("b", 1, 1, 2)
    assert history.found() == [f"S2 jobs:0@1 of {GROUP}: delivered to b after it was done (accept)"]


def test_two_hold_one_record() -> None:
    history = Recorder()
    history.produce(0)
    history.poll("a", 0, 0)
    history.poll("b", 0, 0, 2)
    assert history.found() == [f"S3 jobs:0@0 of {GROUP}: delivered to b while a holds it"]


@pytest.mark.parametrize("ends", ["lock", "leave", "ack", "kill"])
def test_a_hold_may_have_ended(ends: str) -> None:
    history = Recorder()
    history.produce(0)
    history.poll("a", 0, 0)
    if ends == "lock":
        history.t += 1_000
    elif ends == "leave":
        history.tell("leave", group=GROUP, member="a")
    elif ends == "kill":
        history.tell("kill")
    else:
        acks = [[TOPIC, 0, 0, 0, "release"]]
        history.tell("ack", n=history.n(), group=GROUP, member="a", acks=acks)
    history.poll("b", 0, 0, 2)
    assert history.found() == []


def test_a_renewal_holds_on() -> None:
    history = Recorder()
    history.produce(0)
    history.poll("a", 0, 0)
    history.t += 900
    history.ack("a", 0, 0, "renew")
    history.t += 900
    history.poll("b", 0, 0, 2)
    assert history.found() == [f"S3 jobs:0@0 of {GROUP}: delivered to b while a holds it"]


def test_who_holds_it_no_more_is_not_heard() -> None:
    history = Recorder()
    history.produce(0)
    history.poll("a", 0, 0)
    history.t += 1_000
    history.poll("b", 0, 0, 2)
    history.ack("a", 0, 0)
    assert history.found() == [
        f"S4 jobs:0@0 of {GROUP}: accept of a was taken while b held the record"
    ]


def test_who_never_got_it_is_not_heard() -> None:
    history = Recorder()
    history.produce(0)
    history.ack("a", 0, 0)
    assert history.found() == [
        f"S4 jobs:0@0 of {GROUP}: accept of a was taken, who never got the record"
    ]


def test_an_answer_that_is_refused_changes_nothing() -> None:
    history = Recorder()
    history.produce(0)
    history.poll("a", 0, 0)
    history.t += 1_000
    history.poll("b", 0, 0, 2)
    history.ack("a", 0, 0, result="INVALID_RECORD_STATE")
    history.ack("b", 0, 0)
    history.end()
    assert history.found() == []


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ((0,), "delivery count 0: it begins at 1"),
        ((1, 1), "delivery count 1 after 1"),
        ((1, 6), "delivery count 6, over the limit 5"),
    ],
)
def test_counts_of_deliveries(counts: tuple[int, ...], said: str) -> None:
    history = Recorder()
    history.produce(0)
    for count in counts:
        history.poll("a", 0, 0, count)
        history.t += 1_000
    assert history.found() == [f"S5 jobs:0@0 of {GROUP}: {said}"]


def test_counts_may_begin_lower_after_a_kill() -> None:
    history = Recorder()
    history.produce(0)
    history.poll("a", 0, 0, 2)
    history.tell("kill")
    history.poll("a", 0, 0, 1)
    assert history.found() == []


def test_an_offset_with_two_records() -> None:
    history = Recorder()
    history.produce(0)
    history.produce(0, ids={0: "another"})
    assert history.found() == ["S12 jobs:0@0: is another, and was another record before"]


def test_a_record_at_two_offsets() -> None:
    history = Recorder()
    history.produce(0, 1, ids={1: "r0"})
    history.poll("a", 0, 0)
    history.ack("a", 0, 0)
    history.poll("a", 1, 1)
    found = history.found()
    assert found[:1] == ["S12 jobs:0@1: is r1, and was another record before"]
    history = Recorder()
    history.produce(0, 1, ids={1: "r0"})
    history.tell("end", drained=[])
    assert history.found() == ["S12 jobs:0@1: the record of jobs:0@0 stands here, too"]


def test_after_a_reset_records_come_again() -> None:
    history = Recorder()
    history.produce(0)
    history.poll("a", 0, 0)
    history.ack("a", 0, 0)
    history.tell("reset", group=GROUP, topic=TOPIC, partition=0, offset=0)
    history.poll("a", 0, 0)
    history.ack("a", 0, 0)
    history.end()
    assert history.found() == []


def test_a_renewed_record_comes_again_from_the_next_poll() -> None:
    history = Recorder()
    history.produce(0)
    history.poll("a", 0, 0)
    history.ack("a", 0, 0, "renew")
    history.poll("a", 0, 0)
    history.ack("a", 0, 0)
    history.end()
    assert history.found() == []


def test_a_record_that_was_fetched_ahead_may_be_held_for_less() -> None:
    history = Recorder()
    history.produce(0)
    history.t += 1_000
    history.poll("a", 0, 0, since=3)
    history.t += 500
    history.poll("b", 0, 0, 2)
    assert history.found() == []


def test_a_late_answer_for_a_record_that_was_given_up() -> None:
    """The broker takes it, as Kafka does, and it changes nothing."""
    history = Recorder(limit=1, letters=True)
    history.produce(0)
    history.poll("a", 0, 0)
    history.t += 1_000
    history.ack("a", 0, 0)
    history.place("letter", 0)
    history.end()
    assert history.found() == []


def test_an_answer_after_a_release() -> None:
    history = Recorder()
    history.produce(0)
    history.poll("a", 0, 0)
    history.t += 1_000
    history.poll("b", 0, 0, 2)
    history.ack("b", 0, 0, "release")
    history.ack("a", 0, 0)
    assert history.found() == [
        f"S4 jobs:0@0 of {GROUP}: accept of a was taken after b had released the record"
    ]


def test_dead_letters() -> None:
    history = Recorder(limit=1, letters=True)
    history.produce(*range(4))
    history.poll("a", 0, 3)
    history.ack("a", 0, 1)
    history.ack("a", 2, 2, "reject")
    history.ack("a", 3, 3, "release")
    history.place("letter", 1)
    history.place("letter", 2)
    history.end()
    assert history.found() == [
        f"S6 jobs:0@1 of {GROUP}: accepted, and has a dead letter",
        f"S6 jobs:0@3 of {GROUP}: given up without a dead letter",
    ]


@pytest.mark.parametrize("leaves", [True, False])
def test_an_answer_that_nobody_hears(leaves: bool) -> None:
    history = Recorder(letters=True)
    history.produce(0)
    history.poll("a", 0, 0)
    acks = [[TOPIC, 0, 0, 0, "accept"]]
    history.tell("ack", n=history.n(), group=GROUP, member="a", acks=acks)
    if leaves:
        history.tell("leave", group=GROUP, member="a")
    history.end()
    assert history.found() == []


def test_more_in_flight_than_the_settings_allow() -> None:
    history = Recorder(locks=5)
    history.produce(*range(8))
    history.poll("a", 0, 3)
    history.ack("a", 0, 0)
    history.poll("b", 4, 5)
    history.poll("b", 6, 7)
    assert history.found() == [
        f"S8 jobs:0@6-7 of {GROUP}: 7 records are in flight, over the limit 5"
    ]


def test_a_start_offset_that_goes_back() -> None:
    history = Recorder()
    for offset in (3, 5, 4):
        history.place("starts", offset)
    assert history.found() == [f"S7 jobs:0@4 of {GROUP}: the start offset was 5 before"]
    history.place("reset", 0)
    history.place("starts", 0)
    assert len(history.found()) == 1


def test_a_key_with_two_members() -> None:
    history = Recorder(ordering="key")
    history.produce(0, 1, 2, key="k")
    history.poll("a", 0, 0)
    history.poll("b", 1, 1)
    assert history.found() == [f"S9 jobs:0@1 of {GROUP}: delivered to b while a holds 0 of its key"]


def test_a_key_out_of_order() -> None:
    history = Recorder(ordering="key")
    history.produce(0, 1, key="k")
    history.produce(2, key="another")
    history.poll("a", 0, 2)
    history.ack("a", 0, 0, "release")
    history.poll("b", 1, 2)
    history.ack("b", 1, 2)
    assert history.found() == [
        f"S9 jobs:0@1 of {GROUP}: delivered to b before 0 of its key",
        f"S9 jobs:0@1 of {GROUP}: accepted by b before 0 of its key is done",
    ]


def test_a_key_in_order() -> None:
    history = Recorder(ordering="key")
    history.produce(0, 1, key="k")
    history.poll("a", 0, 1)
    history.ack("a", 0, 1, "release")
    history.poll("b", 0, 0, 2)
    history.ack("b", 0, 0)
    history.poll("a", 1, 1)  # what was taken back does not count
    history.ack("a", 1, 1)
    history.end()
    assert history.found() == []


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_an_aborted_record(isolation: str) -> None:
    history = Recorder(isolation=isolation)
    history.produce(0, result="aborted")
    history.poll("a", 0, 0)
    history.ack("a", 0, 0)
    history.end()
    said = [f"S11 jobs:0@0 of {GROUP}: its transaction was aborted"]
    assert history.found() == (said if isolation == "read_committed" else [])


def test_a_group_that_does_not_get_through() -> None:
    history = Recorder()
    history.produce(0)
    history.end(drained=[], left={GROUP: 1})
    assert history.found() == [f"L3 {GROUP}: 1 record is left, and nothing hinders the group"]


@pytest.mark.parametrize("while_shaky", [True, False])
def test_locks_are_lost_where_the_state_cannot_be_written(while_shaky: bool) -> None:
    history = Recorder()
    history.produce(0)
    history.poll("a", 0, 0)
    if while_shaky:
        history.tell("shaky", on=True)
    history.poll("b", 0, 0, 2)
    assert bool(history.found()) != while_shaky


def test_a_limit_that_changes() -> None:
    """When it takes effect is not known, so both count."""
    history = Recorder(limit=2)
    history.produce(0, 1)
    history.poll("a", 0, 1, 2)
    history.tell("settings", group=GROUP, limit=3)
    history.t += 1_000
    history.poll("a", 0, 0, 3)
    history.ack("a", 0, 0)
    history.end()
    assert history.found() == []


def test_a_late_renewal_of_a_record_that_was_given_up() -> None:
    """It is taken, as a late accept is, and has no effect: the record has its dead letter."""
    history = Recorder(limit=1, letters=True)
    history.produce(0)
    history.poll("a", 0, 0)
    history.t += 1_500
    history.ack("a", 0, 0, "renew")
    history.poll("a", 0, 0)
    history.ack("a", 0, 0)
    history.place("letter", 0)
    history.end()
    assert history.found() == []


DERIVED = "lowest_limit", "longest_ms"


def test_the_page_has_every_event_and_its_fields() -> None:
    page = (Path(__file__).parents[2] / "docs" / "correctness.md").read_text()
    for op, fields in FIELDS.items():
        (row,) = [line for line in page.splitlines() if line.startswith(f"| `{op}` |")]
        assert [name for name in fields if f"`{name}`" not in row] == [], row
    settings = [name for name in Settings._fields if name not in DERIVED]
    assert [name for name in settings if f"`{name}`" not in page] == []


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "line 1 is no JSON"),
        ("[]", "line 1 is no JSON object"),
        ('{"op": "go", "t": 1}', "line 1: op is 'go', not settings"),
        ('{"op": "kill"}', "line 1: t is not a number below"),
        ('{"op": "poll", "t": 1, "n": 1, "group": "g"}', "line 1: poll needs member"),
        ('{"op": [], "t": 0}', r"line 1: op is \[\], not settings"),
        ('{"op": "kill", "t": NaN}', "line 1: t is not a number below"),
        (f'{{"op": "kill", "t": {10**400}}}', "line 1: t is not a number below"),
    ],
)
def test_a_line_that_is_no_event(line: str, said: str) -> None:
    with pytest.raises(BadHistory, match=said):
        judged([line])


WHO = {"group": GROUP, "member": "a"}
PLACE = {"group": GROUP, "topic": TOPIC, "partition": 0}


@pytest.mark.parametrize(
    ("op", "fields", "said"),
    [
        ("settings", {"group": GROUP, "limit": "5"}, "limit of settings is not a number"),
        ("produced", {"n": 1, "partition": 0, "offset": 10**15}, "offset of produced is not"),
        ("produced", {"n": 1, "partition": 0, "offset": 10**30}, "offset of produced is not"),
        ("produced", {"n": 1, "partition": 0, "offset": -1}, "offset of produced is not"),
        ("produced", {"n": 1, "partition": "x", "offset": 0}, "partition of produced is not"),
        ("produced", {"n": 1, "offset": 0}, "produced needs partition"),
        ("produce", {"n": 1, "topic": TOPIC, "id": "a", "key": [1]}, "key of produce is not text"),
        ("polled", {"n": 1, "acquired": [[TOPIC, 0, 5, 3, 1]]}, "acquired of polled is not a list"),
        ("polled", {"n": 1, "acquired": [[[], 0, 0, 0, 1]]}, "acquired of polled is not a list"),
        ("polled", {"n": 1, "acquired": [[TOPIC, 0, 0.5, 1, 1]]}, "acquired of polled is not"),
        ("polled", {"n": 1, "acquired": [[TOPIC, 0, 0, 2**62, 1]]}, "acquired of polled is not"),
        ("polled", {"n": 1, "acquired": [], "records": [[TOPIC, 0, 0, 5]]}, "records of polled"),
        ("polled", {"n": 1, "acquired": [], "since": "x"}, "since of polled is not a number"),
        ("polled", {"n": 1, "acquired": [], "of": [[TOPIC]]}, "of of polled is not a list"),
        (
            "ack",
            {"n": 1, "group": GROUP, "member": "a", "acks": [[TOPIC, 0, 0, 0, "take"]]},
            "acks",
        ),
        ("owns", {**WHO, "parts": [[TOPIC, 0, 5, 3]]}, "parts of owns"),
        ("owns", {**WHO, "parts": [], "since": []}, "since of owns"),
        ("sunk", {"sink": "s", "topic": TOPIC, "partition": 0, "offset": -1}, "offset of sunk"),
        ("gone", {"topic": TOPIC, "partition": 0, "first": 3, "last": 2}, "gone ends before"),
        ("fetched", {**PLACE, "offset": 0, "ranges": [[2, 1]], "since": 0}, "ranges of fetched"),
        ("end", {"drained": [], "left": ["g"]}, "left of end is not numbers of records by group"),
        ("end", {"drained": [], "sinks": ["g"]}, "sinks of end is not lists of topics by sink"),
        ("end", {"drained": [[]]}, "drained of end is not a list of text"),
    ],
)
def test_a_field_that_is_not_what_it_should_be(op: str, fields: dict[str, Any], said: str) -> None:
    history = Recorder()
    history.tell(op, **fields)
    with pytest.raises(BadHistory, match=f"line 2: {said}"):
        judged(history.lines)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (None, "acked answers call 7, which nobody has made, or which has its answer"),
        ("poll", "acked answers call 7, which is a poll and no ack"),
        ("ack", "acked answers 1 acks with 2 results"),
    ],
)
def test_an_answer_without_its_call(call: str | None, said: str) -> None:
    history = Recorder()
    if call is not None:
        acks = {"acks": [[TOPIC, 0, 0, 0, "accept"]]} if call == "ack" else {}
        history.tell(call, n=7, **WHO, **acks)
    history.tell("acked", n=7, results=["ok", "ok"])
    with pytest.raises(BadHistory, match=said):
        judged(history.lines)
