"""What a ShareFetch or ShareAcknowledge must not say: Kafka's error codes, and nothing changes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from sharegroup.broker.server import Broker
from sharegroup.model import errors
from sharegroup.model.offsets import OFFSET_MAX
from tests.broker.running import run
from tests.broker.share_wire import (
    ACCEPT,
    RELEASE,
    RENEW,
    Session,
    ack_codes,
    acquired,
    codes,
    connect,
    started,
)

INVALID_REQUEST = errors.InvalidRequest.code
INVALID_STATE = errors.InvalidRecordState.code
NO_SESSION = errors.ShareSessionNotFound.code
WRONG_EPOCH = errors.InvalidShareSessionEpoch.code
UNKNOWN_PARTITION = errors.UnknownTopicOrPartition.code

OTHER_TOPIC = UUID(int=999)


async def ten_acquired(broker: Broker, port: int) -> Session:
    """A session whose member holds records 0 to 9 of partition 0; the next epoch is 1."""
    session = await started(broker, port, records=10)
    assert acquired(await session.fetch(0)) == {0: [(0, 9, 1)]}
    return session


async def still_holds(session: Session) -> None:
    """Nothing that was refused has changed anything: all ten are the member's, and acceptable."""
    assert codes(await session.acknowledge({0: [(0, 9, [ACCEPT])]})) == {0: 0}


@pytest.mark.parametrize("api", ["fetch", "acknowledge"])
@pytest.mark.parametrize("epoch", [2, 5, 2**31 - 1, -2, -(2**31)])
def test_a_wrong_epoch(tmp_path: Path, api: str, epoch: int) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        session = await ten_acquired(broker, port)
        if api == "fetch":
            refused = await session.fetch(epoch=epoch)
        else:
            refused = await session.acknowledge({0: [(0, 9, [ACCEPT])]}, epoch=epoch)
        assert refused.error_code == WRONG_EPOCH
        assert refused.acquisition_lock_timeout_ms == 0
        assert list(refused.responses) == []
        await still_holds(session)

    run(tmp_path, scenario)


@pytest.mark.parametrize("api", ["fetch", "acknowledge"])
def test_an_epoch_that_was_used_already(tmp_path: Path, api: str) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        session = await ten_acquired(broker, port)
        assert acquired(await session.fetch()) == {}
        if api == "fetch":
            assert (await session.fetch(epoch=1)).error_code == WRONG_EPOCH
        else:
            refused = await session.acknowledge({0: [(0, 9, [ACCEPT])]}, epoch=1)
            assert refused.error_code == WRONG_EPOCH
        await still_holds(session)

    run(tmp_path, scenario)


def test_epochs_wrap_to_one(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        session = await ten_acquired(broker, port)
        kept = broker.parts.sessions.get(session.group, session.member)
        assert kept is not None
        kept.epoch = 2**31 - 2
        assert codes(await session.fetch(epoch=2**31 - 1)) == {}
        assert (await session.acknowledge({0: []}, epoch=0)).error_code == WRONG_EPOCH
        assert codes(await session.fetch(epoch=1)) == {}
        session.epoch = 2
        await still_holds(session)

    run(tmp_path, scenario)


@pytest.mark.parametrize("epoch", [1, 7, -1])
@pytest.mark.parametrize("api", ["fetch", "acknowledge"])
@pytest.mark.parametrize("who", ["member", "group"])
def test_a_session_that_is_not_there(tmp_path: Path, api: str, epoch: int, who: str) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        session = await ten_acquired(broker, port)
        names = {"member": "nobody"} if who == "member" else {"group": "nobodies"}
        stranger = Session(session.connection, session.topic_id, **names)
        if api == "fetch":
            refused = await stranger.fetch(epoch=epoch)
        else:
            refused = await stranger.acknowledge({0: [(0, 9, [ACCEPT])]}, epoch=epoch)
        assert refused.error_code == NO_SESSION
        await still_holds(session)

    run(tmp_path, scenario)


def test_a_session_cannot_begin_with_acknowledgements(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        session = await ten_acquired(broker, port)
        refused = await session.fetch(acks={0: [(0, 9, [ACCEPT])]}, epoch=0)
        assert (refused.error_code, refused.acquisition_lock_timeout_ms) == (INVALID_REQUEST, 0)
        refused = await session.acknowledge({0: [(0, 9, [ACCEPT])]}, epoch=0)
        assert (refused.error_code, refused.acquisition_lock_timeout_ms) == (WRONG_EPOCH, 0)
        await still_holds(session)

    run(tmp_path, scenario)


@pytest.mark.parametrize(
    ("member", "group"),
    [("", "g"), ("m" * 37, "g"), (None, "g"), ("m", ""), ("m", None)],
    ids=["no member", "member over 36", "null member", "no group", "null group"],
)
def test_group_and_member_ids_are_required(tmp_path: Path, member: Any, group: Any) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        session = await ten_acquired(broker, port)
        nobody = Session(session.connection, session.topic_id, member, group)
        assert (await nobody.fetch(0)).error_code == INVALID_REQUEST
        assert (await nobody.acknowledge({0: []}, epoch=1)).error_code == INVALID_REQUEST
        await still_holds(session)

    run(tmp_path, scenario)


# (batches of one partition's acknowledgement, the error)
Batches = Sequence[tuple[int, int, Sequence[int]]]
BAD_BATCHES: dict[str, tuple[Batches, int]] = {
    "last below first": ([(5, 4, [ACCEPT])], INVALID_REQUEST),
    "overlapping": ([(0, 5, [ACCEPT]), (4, 9, [ACCEPT])], INVALID_REQUEST),
    "sharing an offset": ([(0, 5, [ACCEPT]), (5, 9, [ACCEPT])], INVALID_STATE),
    "unsorted": ([(5, 9, [ACCEPT]), (0, 4, [ACCEPT])], INVALID_REQUEST),
    "no types": ([(0, 9, [])], INVALID_REQUEST),
    "too few types": ([(0, 9, [ACCEPT] * 9)], INVALID_REQUEST),
    "too many types": ([(0, 9, [ACCEPT] * 11)], INVALID_REQUEST),
    "negative type": ([(0, 9, [-1])], INVALID_REQUEST),
    "unknown type": ([(0, 9, [5])], INVALID_REQUEST),
    "unknown type among others": ([(0, 9, [ACCEPT] * 9 + [100])], INVALID_REQUEST),
    "renewing without saying so": ([(0, 9, [RENEW])], INVALID_REQUEST),
    "past what was acquired": ([(0, 10, [ACCEPT])], INVALID_REQUEST),
    "wholly past the window": ([(10, 12, [ACCEPT])], INVALID_REQUEST),
    "at the end of all offsets": ([(2**63 - 1, 2**63 - 1, [ACCEPT])], INVALID_REQUEST),
    "good ones before a bad one": ([(0, 4, [ACCEPT]), (20, 29, [ACCEPT])], INVALID_REQUEST),
}


@pytest.mark.parametrize("kind", BAD_BATCHES)
@pytest.mark.parametrize("api", ["fetch", "acknowledge"])
def test_bad_acknowledgements(tmp_path: Path, api: str, kind: str) -> None:
    batches, error = BAD_BATCHES[kind]

    async def scenario(broker: Broker, port: int) -> None:
        session = await ten_acquired(broker, port)
        if api == "fetch":
            response = await session.fetch(acks={0: batches})
            assert ack_codes(response) == {0: error}
            assert codes(response) == {0: 0}
        else:
            assert codes(await session.acknowledge({0: batches})) == {0: error}
        await still_holds(session)

    run(tmp_path, scenario)


def test_finished_records_may_be_acknowledged_again(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        session = await ten_acquired(broker, port)
        await still_holds(session)
        await still_holds(session)  # below the start offset: ignored with success

    run(tmp_path, scenario)


def test_records_held_by_another_member_or_by_none(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        session = await ten_acquired(broker, port)
        other = Session(await connect(port), session.topic_id, "m-2")
        await other.fetch(0)
        assert codes(await other.acknowledge({0: [(0, 9, [ACCEPT])]})) == {0: INVALID_STATE}
        assert codes(await session.acknowledge({0: [(3, 3, [RELEASE])]})) == {0: 0}
        assert codes(await session.acknowledge({0: [(0, 9, [ACCEPT])]})) == {0: INVALID_STATE}
        assert codes(await session.acknowledge({0: [(0, 2, [ACCEPT]), (4, 9, [ACCEPT])]})) == {0: 0}

    run(tmp_path, scenario)


def test_partitions_are_refused_on_their_own(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        session = await ten_acquired(broker, port)
        response = await session.acknowledge(
            {
                0: [(0, 9, [ACCEPT])],
                1: [(0, 0, [ACCEPT]), (0, 0, [ACCEPT]), (OFFSET_MAX, OFFSET_MAX, [ACCEPT])],
                2: [(1, 0, [ACCEPT])],
                9: [(0, 0, [ACCEPT])],
            }
        )
        # Nobody fetched 1 and 2, so they have no share partition; there is no partition 9.
        expected = {0: 0, 1: UNKNOWN_PARTITION, 2: INVALID_REQUEST, 9: UNKNOWN_PARTITION}
        assert codes(response) == expected

    run(tmp_path, scenario)


def test_an_unknown_partition_without_acknowledgements(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        session = await ten_acquired(broker, port)
        assert codes(await session.acknowledge({0: []})) == {}
        unknown = {9: UNKNOWN_PARTITION, -1: UNKNOWN_PARTITION}
        assert codes(await session.acknowledge({0: [], 9: [], -1: []})) == unknown
        response = await session.acknowledge({0: [(0, 0, [ACCEPT])], 1: [], 9: [], -1: []})
        assert codes(response) == {0: 0, 1: 0, **unknown}
        response = await session.fetch(acks={0: [(1, 1, [ACCEPT])], 1: [], 9: []})
        assert ack_codes(response) == {0: 0, 1: 0, 9: UNKNOWN_PARTITION}

    run(tmp_path, scenario)


def test_an_unknown_topic(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        session = await ten_acquired(broker, port)
        topic_id, session.topic_id = session.topic_id, OTHER_TOPIC
        unknown = errors.UnknownTopicId.code
        assert codes(await session.fetch(0)) == {0: unknown}
        response = await session.fetch(acks={0: [(0, 9, [ACCEPT])]})
        assert (codes(response), ack_codes(response)) == ({0: unknown}, {0: unknown})
        assert codes(await session.acknowledge({0: [(0, 9, [ACCEPT])], 1: []})) == {
            0: unknown,
            1: unknown,
        }
        assert codes(await session.fetch(forget=[0])) == {}
        session.topic_id = topic_id
        await still_holds(session)

    run(tmp_path, scenario)


def test_a_group_without_delivery_state(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        session = await ten_acquired(broker, port)
        stranger = Session(session.connection, session.topic_id, group="nobodies")
        assert codes(await stranger.fetch(0)) == {0: errors.OffsetNotAvailable.code}
        await still_holds(session)

    run(tmp_path, scenario)


@pytest.mark.parametrize("limit", ["max_wait_ms", "min_bytes", "max_bytes", "max_records"])
def test_a_renewing_fetch_with_a_limit(tmp_path: Path, limit: str) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        session = await ten_acquired(broker, port)
        limits = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 0, "max_records": 0, limit: 1}
        acks = {0: [(0, 9, [RENEW])]}
        refused = await session.fetch(acks=acks, is_renew_ack=True, epoch=1, **limits)
        assert refused.error_code == INVALID_REQUEST
        await session.fetch()  # the refused request has not used its epoch
        await still_holds(session)

    run(tmp_path, scenario)


def test_renewing_where_the_group_does_not_allow_it(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        session = await ten_acquired(broker, port)
        settings = {"share.renew.acknowledge.enable": "false"}
        broker.parts.configs.set_group(session.group, settings, validate_only=False)
        response = await session.acknowledge({0: [(0, 9, [RENEW])]}, is_renew_ack=True)
        assert codes(response) == {0: INVALID_STATE}
        await still_holds(session)

    run(tmp_path, scenario)


def test_extreme_limits_are_handled(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        session = await started(broker, port, records=10)
        most = 2**31 - 1
        limits = {"max_wait_ms": most, "max_bytes": most, "max_records": most, "batch_size": most}
        assert acquired(await session.fetch(0, **limits)) == {0: [(0, 9, 1)]}
        waiting = asyncio.ensure_future(session.fetch(**{**limits, "min_bytes": most}))
        least = {"max_wait_ms": -1, "min_bytes": -1, "max_bytes": -1, "max_records": -1}
        other = Session(await connect(port), session.topic_id, "m-2")
        assert acquired(await other.fetch(0, **least)) == {}
        session.connection.close()
        with pytest.raises(errors.NetworkException):
            await waiting

    run(tmp_path, scenario)


def test_a_partition_named_twice_counts_once(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        session = await started(broker, port, records=10)
        assert acquired(await session.fetch(0, 0, 0)) == {0: [(0, 9, 1)]}
        kept = broker.parts.sessions.get(session.group, session.member)
        assert kept is not None
        assert len(kept.partitions) == 1

    run(tmp_path, scenario)
