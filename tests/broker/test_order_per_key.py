"""Order per key (``share.ordering=key``) over real sockets, spoken by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

from sharegroup.broker.handlers.share.share_fetch import RECORD_LIMIT
from sharegroup.broker.metrics.reader import MetricsReader
from sharegroup.broker.server import Broker
from sharegroup.model.ids import SharePartitionKey
from sharegroup.share.partition import SharePartition
from sharegroup.wire import apis
from sharegroup.wire.batch import (
    HEADER_BYTES,
    TRANSACTIONAL,
    encode_batch,
    parse_header,
    with_records,
)
from sharegroup.wire.compression import compress
from sharegroup.wire.markers import MarkerType, encode_marker
from sharegroup.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.broker.running import run
from tests.broker.share_wire import (
    ACCEPT,
    GROUP,
    REJECT,
    RELEASE,
    TIMEOUT_MS,
    TOPIC,
    Range,
    Session,
    acquired,
    codes,
    connect,
    new_group,
    new_topic,
    parts,
)
from tests.share.keyed import key_order

INVALID_RECORD_STATE = 121
INVALID_CONFIG = 40
GROUP_RESOURCE = 32
GZIP = 1


def local_log(broker: Broker) -> Any:
    """The log of partition 0, which takes batches as a replica would."""
    return broker.parts.topics.log(TOPIC, 0)


async def append(broker: Broker, *keys: str, codec: int = 0) -> None:
    """A batch with a record for each letter of each of ``keys``; ``-`` has no key."""
    log = local_log(broker)
    for letters in keys:
        records = [(None if key == "-" else key.encode(), b"v") for key in letters]
        batch = encode_batch(records, timestamp_ms=0)
        if codec:
            header = parse_header(batch)._replace(attributes=codec)
            batch = with_records(header, compress(codec, batch[HEADER_BYTES:]))
        await log.wait_durable(log.append_trusted(batch).last_offset + 1)


async def alter(port: int, **configs: str) -> int:
    """The error code of an IncrementalAlterConfigs of the group."""
    entries = [AlterableConfig(name.replace("_", "."), 0, value) for name, value in configs.items()]
    resource = AlterConfigsResource(GROUP_RESOURCE, GROUP, entries)
    connection = await connect(port)
    answer = await connection.send(
        apis.INCREMENTAL_ALTER_CONFIGS,
        IncrementalAlterConfigsRequest([resource]),
        timeout_ms=TIMEOUT_MS,
    )
    connection.close()
    code: int = answer.responses[0].error_code
    return code


class Member:
    """A share session on partition 0."""

    def __init__(self, session: Session) -> None:
        self.session = session

    @classmethod
    async def join(cls, port: int, topic_id: UUID, name: str) -> Member:
        return cls(Session(await connect(port), topic_id, name))

    async def fetch(
        self, most: int = 500, wait_ms: int = 0, mode: int = RECORD_LIMIT
    ) -> list[Range]:
        new = [0] if self.session.epoch == 0 else []
        answer = await self.session.fetch(
            *new, max_records=most, max_wait_ms=wait_ms, share_acquire_mode=mode
        )
        return acquired(answer).get(0, [])

    async def answer(self, first: int, last: int, *kinds: int) -> int:
        answer = await self.session.acknowledge({0: [(first, last, list(kinds))]})
        return codes(answer)[0]

    async def leave(self) -> None:
        parts(await self.session.fetch(epoch=-1))


async def ordered(
    broker: Broker, port: int, *keys: str, codec: int = 0, **configs: str
) -> tuple[Member, Member]:
    """Records with these keys, and two members of a group with order per key."""
    topic_id = await new_topic(broker, port, partitions=1)
    await new_group(broker, port, **configs)
    assert await alter(port, share_ordering="key") == 0
    await append(broker, *keys, codec=codec)
    a, b = [await Member.join(port, topic_id, name) for name in "ab"]
    return a, b


def core_of(broker: Broker) -> SharePartition:
    (led,) = broker.parts.share_partitions.all()
    led.core.check_invariants()
    return led.core


def offsets(ranges: Sequence[Range]) -> list[int]:
    return [at for first, last, _ in ranges for at in range(first, last + 1)]


def test_a_key_stays_with_its_member_until_it_is_done(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        a, b = await ordered(broker, port, "xyxx", "yzx")
        answer = await a.session.fetch(0, max_records=2, share_acquire_mode=RECORD_LIMIT)
        assert acquired(answer) == {0: [(0, 0, 1), (2, 2, 1)]}
        assert parts(answer)[0].ordered, "so that the member's client knows"
        assert await b.fetch() == [(1, 1, 1), (4, 5, 1)], "x is with the other member"
        assert await a.fetch(2) == [(3, 3, 1), (6, 6, 1)], "it goes on there"
        assert await a.answer(0, 0, ACCEPT) == 0
        assert await a.answer(2, 3, ACCEPT) == 0
        assert await a.answer(6, 6, ACCEPT) == 0
        assert await b.answer(1, 1, ACCEPT) == 0
        assert await b.answer(4, 5, ACCEPT) == 0
        assert core_of(broker).start_offset == 7

    run(tmp_path, scenario)


def test_a_release_takes_back_what_comes_behind_it(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        a, b = await ordered(broker, port, "xyxxy")
        assert await a.fetch() == [(0, 4, 1)]
        assert await a.answer(0, 0, RELEASE) == 0
        assert await a.answer(2, 2, ACCEPT) == INVALID_RECORD_STATE, "a late answer"
        assert await a.answer(1, 3, ACCEPT) == INVALID_RECORD_STATE, "for 2 and 3, not for 1"
        assert await a.answer(4, 4, ACCEPT) == 0
        assert await b.fetch() == [(0, 0, 2)], "what waits behind it would be taken back again"
        assert await a.fetch() == []
        assert await b.answer(0, 0, ACCEPT) == 0
        assert await a.fetch() == [(2, 3, 1)], "only the first was charged"
        core = core_of(broker)
        assert (key_order(core).disorder.taken_back, key_order(core).disorder.late) == (2, 3)
        assert core.start_offset == 2

    run(tmp_path, scenario)


def test_a_key_that_fails_again_and_again_does_not_thrash(tmp_path: Path) -> None:
    """Behind a record that fails four times wait fifty: they come twice, not five times."""

    async def scenario(broker: Broker, port: int) -> None:
        a, _ = await ordered(broker, port, "x" * 51)
        deliveries = 0
        for count in range(1, 6):
            got = await a.fetch()
            assert got[0][2] == count
            deliveries += len(offsets(got))
            assert await a.answer(0, 0, ACCEPT if count == 5 else RELEASE) == 0
        while got := offsets(await a.fetch()):
            deliveries += len(got)
            assert await a.answer(got[0], got[-1], ACCEPT) == 0
        assert deliveries == 51 + 4 + 50
        assert core_of(broker).start_offset == 51

    run(tmp_path, scenario)


def test_an_accept_behind_a_release_of_its_request_goes_back_without_an_error(
    tmp_path: Path,
) -> None:
    """A partition has one answer: stock clients would take hundreds of accepts that hold for
    failed."""

    async def scenario(broker: Broker, port: int) -> None:
        a, b = await ordered(broker, port, "xyxyxz")
        assert await a.fetch() == [(0, 5, 1)]
        answer = await a.session.acknowledge({0: [(0, 5, [1, 1, RELEASE, 1, 1, 1])]})
        [part] = answer.responses[0].partitions
        assert part.error_code == 0
        assert [(one.first, one.last) for one in part.gone_back] == [(4, 4)], "for who asks"
        core = core_of(broker)
        assert (core.start_offset, core.delivery_complete_count) == (2, 2), "not 2 and 4"
        disorder = key_order(core).disorder
        assert (disorder.taken_back, disorder.out_of_order, disorder.late) == (1, 0, 0)
        assert await a.answer(4, 4, ACCEPT) == INVALID_RECORD_STATE, "it has lost its lock before"
        assert await b.fetch() == [(2, 2, 2)]
        assert await b.answer(2, 2, ACCEPT) == 0
        assert await b.fetch() == [(4, 4, 1)], "it is not charged"

    run(tmp_path, scenario)


def test_an_accept_behind_one_out_of_order_is_an_error(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        a, b = await ordered(broker, port, "xxxx")
        assert await a.fetch() == [(0, 3, 1)]
        assert await a.answer(1, 3, ACCEPT, RELEASE, ACCEPT) == INVALID_RECORD_STATE
        assert key_order(core_of(broker)).disorder.out_of_order == 2
        assert await a.answer(0, 0, ACCEPT) == 0
        assert await b.fetch() == [(1, 1, 1)]
        assert await b.answer(1, 1, ACCEPT) == 0
        assert await b.fetch() == [(2, 3, 1)], "the release went back with it, uncharged"

    run(tmp_path, scenario)


def test_an_accept_out_of_order_does_not_count(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        a, b = await ordered(broker, port, "xxyx")
        assert await a.fetch() == [(0, 3, 1)]
        assert await a.answer(1, 1, ACCEPT) == INVALID_RECORD_STATE
        assert await b.fetch() == [], "its key is still with the other member"
        assert await a.answer(0, 0, ACCEPT) == 0
        assert await b.fetch() == [(1, 1, 1)], "alone, as after a failure"
        assert await b.answer(1, 1, ACCEPT) == 0
        assert await b.fetch() == [(3, 3, 1)]
        assert key_order(core_of(broker)).disorder.out_of_order == 1

    run(tmp_path, scenario)


def test_a_key_goes_on_behind_a_record_that_is_given_up(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        a, b = await ordered(broker, port, "xxx", share_delivery_count_limit="2")
        assert await a.fetch() == [(0, 2, 1)]
        assert await a.answer(0, 0, RELEASE) == 0
        assert await a.fetch() == [(0, 0, 2)]
        assert await a.answer(0, 0, RELEASE) == 0
        assert core_of(broker).start_offset == 1
        assert await a.fetch() == [(1, 2, 1)], "what has failed is gone, and the key is free"
        assert await a.answer(1, 1, REJECT) == 0
        assert await b.fetch() == []
        assert await a.answer(2, 2, ACCEPT) == 0
        assert core_of(broker).start_offset == 3

    run(tmp_path, scenario)


def test_one_by_one(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        a, _ = await ordered(broker, port, "xxyx", share_ordering_key_max_in_flight="1")
        for expected in ([0, 2], [1], [3], []):
            got = offsets(await a.fetch())
            assert got == expected
            for at in got:
                assert await a.answer(at, at, ACCEPT) == 0

    run(tmp_path, scenario)


def test_the_end_of_a_session_gives_its_keys_to_others(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        a, b = await ordered(broker, port, "xxyx")
        assert await a.fetch() == [(0, 3, 1)]
        assert await b.fetch() == []
        await a.leave()
        assert await b.fetch() == [(0, 0, 2), (2, 2, 2)], "the first of each key has failed"
        assert await b.answer(2, 2, ACCEPT) == 0
        assert await b.fetch() == [], "x waits for its first"
        assert await b.answer(0, 0, ACCEPT) == 0
        assert await b.fetch() == [(1, 1, 1), (3, 3, 1)]

    run(tmp_path, scenario)


def test_a_stalled_key_does_not_fill_the_window(tmp_path: Path) -> None:
    """The lock limit is 100, and 400 records wait behind one that is held."""

    async def scenario(broker: Broker, port: int) -> None:
        a, b = await ordered(
            broker, port, "x", *["x" * 40] * 10, "y", share_partition_max_record_locks="100"
        )
        assert await a.fetch(1) == [(0, 0, 1)]
        assert await b.fetch(wait_ms=20_000) == [(401, 401, 1)]
        assert key_order(core_of(broker)).waiting == 400

    run(tmp_path, scenario)


def test_records_without_a_key_have_no_order(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        a, b = await ordered(broker, port, "----", codec=GZIP)
        assert await a.fetch(2) == [(0, 1, 1)]
        assert await b.fetch() == [(2, 3, 1)]
        assert await a.answer(1, 1, ACCEPT) == 0
        assert key_order(core_of(broker)).disorder.out_of_order == 0

    run(tmp_path, scenario)


def test_markers_and_aborted_records_hold_nothing_back(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        a, _ = await ordered(broker, port, "x", share_isolation_level="read_committed")
        log = local_log(broker)
        for kind, value in ((MarkerType.ABORT, b"void"), (MarkerType.COMMIT, b"good")):
            batch = encode_batch(
                [(b"x", value)],
                timestamp_ms=0,
                producer_id=kind,
                producer_epoch=0,
                base_sequence=0,
                attributes=TRANSACTIONAL,
            )
            log.append_trusted(batch)
            marker = encode_marker(kind, producer_id=kind, producer_epoch=0, timestamp_ms=0)
            await log.wait_durable(log.append_trusted(marker).last_offset + 1)
        await append(broker, "x")
        assert offsets(await a.fetch()) == [0, 3, 5]
        assert await a.answer(0, 0, ACCEPT) == 0
        assert await a.answer(3, 3, ACCEPT) == 0
        assert await a.answer(5, 5, ACCEPT) == 0
        assert core_of(broker).start_offset == 6

    run(tmp_path, scenario)


def test_order_holds_over_a_restart(tmp_path: Path) -> None:
    async def before(broker: Broker, port: int) -> None:
        a, _ = await ordered(broker, port, "xyxy", "xyx")
        assert await a.fetch() == [(0, 6, 1)]
        assert await a.answer(0, 0, RELEASE) == 0
        assert await a.answer(1, 1, ACCEPT) == 0
        assert await a.answer(3, 3, ACCEPT) == 0

    async def after(broker: Broker, port: int) -> None:
        found = broker.parts.topics.find(TOPIC)
        assert found is not None
        a, b = [await Member.join(port, found.topic_id, name) for name in "ab"]
        assert await a.fetch(2) == [(0, 0, 2), (2, 2, 1)]
        assert await b.fetch() == [(5, 5, 2)], "4 and 6 wait; 5 was held when the broker stopped"
        assert core_of(broker).start_offset == 0

    run(tmp_path, before)
    run(tmp_path, after)


def test_a_change_of_the_setting_takes_all_records_back(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        a, b = await ordered(broker, port, "xxyx")
        assert await a.fetch(2) == [(0, 1, 1)]
        assert await alter(port, share_ordering="none") == 0
        assert await a.answer(0, 1, ACCEPT) != 0
        assert await b.fetch(2, mode=0) == [(0, 3, 1)], "as Kafka does it: the whole batch"
        assert await alter(port, share_ordering="key") == 0
        assert await b.answer(0, 0, ACCEPT) != 0
        assert await a.fetch(1) == [(0, 0, 1)]
        assert await b.fetch() == [(2, 2, 1)]
        assert core_of(broker).start_offset == 0

    run(tmp_path, scenario)


def test_what_goes_against_the_order_is_counted(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        a, _ = await ordered(broker, port, "xxyxx")
        assert await a.fetch() == [(0, 4, 1)]
        assert await a.answer(4, 4, ACCEPT) == INVALID_RECORD_STATE, "out of order"
        assert await a.answer(1, 1, RELEASE) == 0, "takes 3 back"
        assert await a.answer(3, 3, ACCEPT) == INVALID_RECORD_STATE
        body, _ = await MetricsReader(broker.parts).text()
        shown = body.decode()
        at = f'group="{GROUP}",partition="0",topic="{TOPIC}"'
        for line in (
            f"sharegroup_share_ordering_waiting_records{{{at}}} 3.0",
            f'sharegroup_share_ordering_disorder_total{{event="out-of-order",{at}}} 1.0',
            f'sharegroup_share_ordering_disorder_total{{event="taken-back",{at}}} 1.0',
            f'sharegroup_share_ordering_disorder_total{{event="late",{at}}} 1.0',
        ):
            assert line in shown, line

    run(tmp_path, scenario)


def test_values_that_are_refused(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        for wrong in (
            {"share_ordering": "keys"},
            {"share_ordering_key_max_in_flight": "0"},
            {"share_ordering_on_failure": "stop"},
        ):
            assert await alter(port, **wrong) == INVALID_CONFIG

    run(tmp_path, scenario)


def test_without_order_nothing_is_hashed(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        a, _ = await ordered(broker, port, "xxyx")
        assert await alter(port, share_ordering="none") == 0
        answer = await a.session.fetch(0)
        assert acquired(answer) == {0: [(0, 3, 1)]}
        assert not parts(answer)[0].ordered
        (led,) = broker.parts.share_partitions.all()
        assert not led.core.order.needs_keys
        assert led.key == SharePartitionKey(GROUP, a.session.topic_id, 0)

    run(tmp_path, scenario)
