"""An answer that comes again is known by its bytes, but only one that was taken in."""

from __future__ import annotations

from sharegroup.client.core.known_answer import KnownAnswer


def test_an_answer_is_known_once_it_was_kept() -> None:
    known = KnownAnswer()
    assert not known.came(b"one")
    assert not known.came(b"one"), "it was not taken in"
    known.keep()
    assert known.came(b"one")
    assert not known.came(b"two")
    known.keep()
    assert known.came(b"two")
    known.forget()
    assert not known.came(b"two")


def test_of_several_requests_the_answer_that_counts_is_kept() -> None:
    known = KnownAnswer()
    first, second = known.attempt(), known.attempt()
    assert not first.came(b"old")
    known.answered(first)
    assert not second.came(b"new"), "it comes late, and nobody takes it in"
    known.keep()
    assert known.attempt().came(b"old")
    assert not known.attempt().came(b"new")
