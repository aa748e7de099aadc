"""What polls without an answer may have delivered, and what a group was never given."""

from __future__ import annotations

from tests.check.recorder import GROUP, Recorder


def test_what_members_wait_for_at_the_end_is_not_lost() -> None:
    """Their polls would hold what they had delivered, and the group would not be done."""
    history = Recorder(limit=1)
    history.produce(0)
    history.nothing("a")
    history.tell("calm")
    for member in ("a", "b"):
        history.tell("poll", n=history.n(), group=GROUP, member=member)
    history.end()
    assert history.found() == [f"S1 jobs:0@0 of {GROUP}: never delivered"]


def test_a_poll_of_a_member_that_died_may_have_been_the_last_delivery() -> None:
    history = Recorder(limit=1)
    history.produce(0)
    history.nothing("a")
    history.tell("calm")
    history.tell("poll", n=history.n(), group=GROUP, member="b")
    history.tell("leave", group=GROUP, member="b")
    history.end()
    assert history.found() == []


def test_a_topic_of_which_a_group_has_got_nothing() -> None:
    history = Recorder()
    history.produce(0)
    history.nothing("a")
    history.end()
    assert history.found() == [f"S1 jobs:0@0 of {GROUP}: never delivered"]
