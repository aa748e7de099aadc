"""The next batch is acquired while Spark works on one, within bounds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from tests.servers.running import RunningServer
from tests.spark.readers import Stream, produce_singly, until

pytestmark = pytest.mark.process

Open = Callable[..., Stream]


@pytest.fixture
def open_stream(server: RunningServer, topic: str) -> Iterator[Open]:
    made: list[Stream] = []

    def make(**options: str) -> Stream:
        made.append(Stream(server, topic, **options))
        return made[-1]

    yield make
    for one in made:
        one.stop()


def values(count: int) -> list[bytes]:
    return [b"%d" % n for n in range(count)]


def test_the_next_batch_is_ready_before_spark_asks(
    open_stream: Open, server: RunningServer, topic: str
) -> None:
    produce_singly(server, topic, values(60))
    stream = open_stream()
    seen = stream.batch(20)
    assert stream.report()["prefetched"] == 0  # nothing was seen through yet
    seen += stream.batch(20)
    until(lambda: stream.report()["prefetched"] == 20)
    seen += stream.batch(20)
    assert seen == Counter(values(60))


def test_batch_and_prefetched_records_together_are_bounded(
    open_stream: Open, server: RunningServer, topic: str
) -> None:
    produce_singly(server, topic, values(100))
    stream = open_stream(maxAcquiredRecords="30")
    seen = stream.batch(20)
    while seen.total() < 80:
        seen += stream.batch(20)
        until(lambda: stream.report()["prefetched"] == 10)
    assert stream.report()["inFlight"] == 20
    assert seen + stream.values(20) == Counter(values(100))


def test_bytes_bound_what_is_acquired(open_stream: Open, server: RunningServer, topic: str) -> None:
    produce_singly(server, topic, [b"%0100000d" % n for n in range(40)])
    stream = open_stream(maxAcquiredBytes="1000000")
    stream.batch()  # the first one tells how large records are
    sizes = [stream.batch().total() for _ in range(2)]
    assert max(sizes) <= 10
    assert stream.report()["prefetched"] + stream.report()["inFlight"] <= 11


def test_nothing_is_prefetched_when_it_is_not_wanted_or_locks_are_not_renewed(
    open_stream: Open, server: RunningServer, topic: str
) -> None:
    produce_singly(server, topic, values(60))
    for options in ({"prefetch": "false"}, {"lockRenew": "false"}):
        stream = open_stream(**options)
        assert (stream.batch(10) + stream.batch(10)).total() == 20
        assert stream.next(10) is not None  # had there been any, they would have come by now
        assert stream.report()["prefetched"] == 0
        stream.stop()


def test_what_was_prefetched_goes_back_when_the_query_stops(
    open_stream: Open, server: RunningServer, topic: str
) -> None:
    produce_singly(server, topic, values(50))
    one = open_stream()
    seen = one.batch(10) + one.batch(10)
    until(lambda: one.report()["prefetched"] == 10)
    one.reader.commit(one.offset)
    one.stop()
    assert seen + open_stream().values(30) == Counter(values(50))
