"""What is wrong only by what was told before, or comes to be told later."""

from __future__ import annotations

from typing import Any

import pytest

from sharegroup.check.delivery_rules import FORGET_AT, OLD_MS
from tests.check.recorder import GROUP, TOPIC, Recorder


def test_a_record_at_two_offsets_of_a_history_without_an_end() -> None:
    history = Recorder()
    history.produce(0, 1, ids={1: "r0"})
    assert history.found() == ["S12 jobs:0@1: the record of jobs:0@0 stands here, too"]
    history.end()
    history.end(drained=[])
    assert [one for one in history.found() if "S12" in one] == [
        "S12 jobs:0@1: the record of jobs:0@0 stands here, too"
    ]


@pytest.mark.parametrize("begun", [True, False])
def test_an_order_that_is_told_late(begun: bool) -> None:
    """What was held when a group's order began is given back."""
    history = Recorder()
    history.place("starts", 0)
    history.produce(0, 1, key="k")
    if begun:
        history.poll("a", 0, 0)
    history.tell("settings", group=GROUP, ordering="key")
    if not begun:
        history.poll("a", 0, 0)
    history.poll("b", 1, 1)
    said = f"S9 jobs:0@1 of {GROUP}: delivered to b while a holds 0 of its key"
    assert history.found() == ([] if begun else [said])


def test_an_order_that_ends() -> None:
    history = Recorder(ordering="key")
    history.produce(0, 1, key="k")
    history.poll("a", 0, 0)
    history.tell("settings", group=GROUP, ordering="none")
    history.poll("b", 1, 1)
    assert history.found() == []


@pytest.mark.parametrize("how", ["share group", "consumer group", "everything", "both"])
def test_a_transaction_that_is_aborted_later(how: str) -> None:
    committed = {"isolation": "read_committed"}
    history = Recorder(**({} if how in ("everything", "both") else committed))
    n = history.n()
    history.tell("produce", n=n, topic=TOPIC, id="r0")
    if how == "consumer group":
        history.tell("read", group=GROUP, member="a", records=[[TOPIC, 0, 0, "r0"]])
    else:
        history.poll("a", 0, 0)
        history.ack("a", 0, 0)
    if how == "both":
        history.tell("settings", group=GROUP, **committed)
    history.tell("produced", n=n, partition=0, offset=0, result="aborted")
    said = f"S11 jobs:0@0 of {GROUP}: its transaction was aborted"
    assert history.found() == ([said] if how.endswith("group") else [])


def test_a_partition_that_no_reader_has_read() -> None:
    history = Recorder(ordering="key")
    history.produce(0)
    n = history.n()
    history.tell("produce", n=n, topic=TOPIC, id="1/0")
    history.tell("produced", n=n, partition=1, offset=0)
    history.tell("calm")
    history.tell("read", group=GROUP, member="a", records=[[TOPIC, 0, 0, "r0", "k"]])
    history.end()
    assert history.found() == [f"S1 jobs:1@0 of {GROUP}: never read"]


@pytest.mark.parametrize("how", ["counted", "killed", "taken back"])
def test_a_delivery_after_a_release_counts(how: str) -> None:
    history = Recorder(ordering="key" if how == "taken back" else "none")
    history.produce(0)
    history.poll("a", 0, 0)
    history.ack("a", 0, 0, "release")
    if how == "killed":
        history.tell("kill")
    history.poll("b", 0, 0)
    said = f"S5 jobs:0@0 of {GROUP}: delivery count 1 after 1"
    assert history.found() == ([said] if how == "counted" else [])


@pytest.mark.parametrize("how", ["wrong", "killed", "polls", "late", "left"])
def test_an_accept_after_a_release(how: str) -> None:
    history = Recorder()
    history.produce(0)
    history.poll("a", 0, 0)
    if how == "left":
        history.tell("leave", group=GROUP, member="a")
    if how == "late":  # the release and the accept may come in either order
        both = [history.n(), history.n()]
        for n, kind in zip(both, ("release", "accept"), strict=True):
            acks = [[TOPIC, 0, 0, 0, kind]]
            history.tell("ack", n=n, group=GROUP, member="a", acks=acks)
        for n in both:
            history.tell("acked", n=n, results=["ok"])
    else:
        if how != "left":
            history.ack("a", 0, 0, "release")
        if how == "killed":
            history.tell("kill")
        if how == "polls":
            history.tell("poll", n=history.n(), group=GROUP, member="a")
        history.ack("a", 0, 0)
    said = f"S4 jobs:0@0 of {GROUP}: accept of a was taken after it had released the record"
    assert history.found() == ([said] if how == "wrong" else [])


@pytest.mark.parametrize("how", ["twice", "counted", "killed", "left", "lock", "by key"])
def test_one_delivery_for_two_whose_polls_overlap(how: str) -> None:
    history = Recorder(ordering="key" if how == "by key" else "none")
    history.produce(0)
    polls = [history.n(), history.n()]
    for n, member in zip(polls, "ab", strict=True):
        history.tell("poll", n=n, group=GROUP, member=member)
    history.tell("polled", n=polls[0], acquired=[[TOPIC, 0, 0, 0, 1]])
    if how == "killed":
        history.tell("kill")
    if how == "left":
        history.tell("leave", group=GROUP, member="a")
    if how == "lock":
        history.t += 1_000
    count = 2 if how == "counted" else 1
    history.tell("polled", n=polls[1], acquired=[[TOPIC, 0, 0, 0, count]])
    said = f"S5 jobs:0@0 of {GROUP}: delivery count 1 for b and for a"
    assert history.found() == ([said] if how == "twice" else [])


def test_a_reject_without_a_letter_long_ago() -> None:
    history = Recorder(letters=True)
    history.produce(*range(FORGET_AT))
    history.poll("a", 0, 0)
    history.ack("a", 0, 0, "reject")
    for offset in range(1, FORGET_AT):
        history.t += OLD_MS // 500
        history.poll("a", offset, offset)
        history.ack("a", offset, offset)
    history.end()
    assert history.found() == [f"S6 jobs:0@0 of {GROUP}: given up without a dead letter"]


@pytest.mark.parametrize("how", ["wrong", "order of the rows", "no answer", "unseen"])
def test_an_accept_before_an_earlier_record_that_is_held(how: str) -> None:
    history = Recorder(ordering="key", unseen=how == "unseen")
    history.produce(0, 1, key="k")
    history.poll("a", 0, 1)
    if how == "order of the rows":
        n, acks = history.n(), [[TOPIC, 0, offset, offset, "accept"] for offset in (1, 0)]
        history.tell("ack", n=n, group=GROUP, member="a", acks=acks)
        history.tell("acked", n=n, results=["ok", "ok"])
    else:
        if how == "no answer":
            acks = [[TOPIC, 0, 0, 0, "accept"]]
            history.tell("ack", n=history.n(), group=GROUP, member="a", acks=acks)
        history.ack("a", 1, 1)
        history.ack("a", 0, 0)
    said = f"S9 jobs:0@1 of {GROUP}: accepted by a before 0 of its key is done"
    assert history.found() == ([said] if how == "wrong" else [])


@pytest.mark.parametrize("how", ["held", "released", "done", "killed", "gone", "asked", "limit"])
def test_a_start_offset_that_passes_a_record(how: str) -> None:
    history = Recorder(limit=1 if how == "limit" else 5)
    history.produce(0)
    history.poll("a", 0, 0)
    if how in ("released", "done"):
        history.ack("a", 0, 0, "release" if how == "released" else "accept")
    if how == "killed":
        history.tell("kill")
    if how == "gone":
        history.tell("gone", topic=TOPIC, partition=0, first=0, last=0)
    if how == "asked":
        acks: list[list[Any]] = [[TOPIC, 0, 0, 0, "accept"]]
        history.tell("ack", n=history.n(), group=GROUP, member="a", acks=acks)
    history.place("starts", 1)
    history.place("starts", 1)
    said = f"S7 jobs:0@0 of {GROUP}: the start offset 1 has passed it, and it is not done"
    assert history.found() == ([said] if how in ("held", "released") else [])
