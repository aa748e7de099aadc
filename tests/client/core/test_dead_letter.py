"""What is read from the headers of dead letters, whoever has written them."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharegroup.client.core.dead_letter import DeadLetter, LetterReader, redriven_headers
from sharegroup.client.core.record import Headers
from sharegroup.client.worker.dead_letters import headers_of
from sharegroup.model.ids import TopicPartition
from tests.client.dead_letters import PREFIX, said

PLACE = TopicPartition("dead", 2)


class LogLetter(NamedTuple):
    """A record as it is in the log."""

    headers: Headers
    key: bytes | None = None
    value: bytes | None = None
    topic_partition: TopicPartition = PLACE
    offset: int = 17
    timestamp: int = 5_000


def letter(headers: Headers, value: bytes | None = None) -> DeadLetter | None:
    return LetterReader("billing").letter_in(LogLetter(headers, None, value))


def test_apache_kafkas() -> None:
    found = letter(said("billing", "orders", 1, 7))
    assert found is not None
    assert (found.source, found.offset) == (TopicPartition("orders", 1), 7)
    assert (found.place, found.place_offset) == (PLACE, 17)
    assert (found.cause, found.member, found.deliveries) == (None, None, 5)
    assert (found.message, found.failed_ms) == ("Offset rejected by client.", 5_000)
    assert not found.has_copy
    assert found.failure is None
    copied = letter(said("billing", "orders", 1, 7), b"value")
    assert copied is not None
    assert (copied.has_copy, copied.is_whole) == (True, False), "it copies no headers"


def test_a_copy_of_a_record_without_key_and_value() -> None:
    found = letter(said("billing", "orders", 1, 7, timestamp=3, failed_ms=9, cause="rejected"))
    assert found is not None
    assert found.has_copy
    assert (found.cause, found.failed_ms) == ("rejected", 9)


@pytest.mark.parametrize(
    "headers",
    [
        [],
        said("others", "orders", 1, 7),
        [(f"{PREFIX}group", b"billing")],
        said("billing", "", 1, 7),
        said("billing", "orders", -1, 7),
        [*said("billing", "orders", 1, 7), (f"{PREFIX}offset", b"1e3")],
        [*said("billing", "orders", 1, 7), (f"{PREFIX}partition", None)],
        [*said("billing", "orders", 1, 7), (f"{PREFIX}offset", b"9" * 5_000)],
    ],
)
def test_what_is_no_letter_of_the_group(headers: Headers) -> None:
    assert letter(headers, b"value") is None


def test_a_workers_own() -> None:
    source = TopicPartition("orders", 1)
    for headers in list(headers_of(_delivered(source), "billing", KeyError("address")))[:3]:
        found = letter(headers, b"value")
        assert found is not None
        assert (found.source, found.offset, found.cause) == (source, 7, "KeyError")
        assert found.headers == [("own", b"1")]


class _Delivered(NamedTuple):
    """A record as a share consumer gives it to a handler."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    headers: Headers
    delivery_count: int


def _delivered(source: TopicPartition) -> _Delivered:
    return _Delivered(*source, 7, 3, [("own", b"1"), (f"{PREFIX}group", b"earlier")], 2)


@given(st.lists(st.tuples(st.text(max_size=3), st.binary() | st.none()), max_size=4))
def test_own_headers_are_kept_and_redrives_counted(own: Headers) -> None:
    found = letter([*own, *said("billing", "orders", 1, 7), (f"{PREFIX}new", b"1")])
    assert found is not None
    assert found.headers == own
    once = redriven_headers(found.headers)
    assert once == [*own, ("sharegroup.redriven", b"1")]
    assert redriven_headers(once) == [*own, ("sharegroup.redriven", b"2")]
    assert redriven_headers([("sharegroup.redriven", b"x"), *own])[-1][1] == b"1"
    assert redriven_headers([("sharegroup.expires.at", b"1"), *own]) == once, "it does not expire"
    assert redriven_headers([("sharegroup.deliver.at", b"1"), *own]) == once, "it does not wait"
