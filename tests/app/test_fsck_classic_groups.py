"""What a check says of classic consumer groups."""

from __future__ import annotations

from pathlib import Path

import pytest

from sharegroup.broker.internal_topics import CONSUMER_OFFSETS
from sharegroup.broker.server import Broker
from sharegroup.groups.classic.requests import Join, Protocol, Refused
from sharegroup.wire.batch import encode_batch
from tests.app.checked import check, kinds
from tests.broker import running

TWO_WITHOUT_PROTOCOL = b"\0\0\0\0\0\0\0\1\xff\xff\xff\xff\0\0\0\1\0\1m\0\0\0\0" + b"\0" * 12


@pytest.mark.parametrize("value", [None, b"\0\3no group", TWO_WITHOUT_PROTOCOL])
def test_a_group_is_sound_and_garbage_is_not(tmp_path: Path, value: bytes | None) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        joined = await broker.parts.classic_groups.join(
            Join(
                group_id="g",
                member_id="",
                new_member_id="m",
                protocol_type="consumer",
                protocols=(Protocol("range", b""),),
                session_timeout_ms=10_000,
                rebalance_timeout_ms=10_000,
            ),
            taken=lambda: None,
        )
        assert isinstance(joined, Refused)  # it has an id now
        log = broker.parts.topics.internal_log(CONSUMER_OFFSETS, 0)
        await log.wait_durable(log.log_end_offset)
        if value is not None:
            log.append_trusted(encode_batch([(b"\0\2\0\1h", value)], timestamp_ms=0))

    running.run(tmp_path, scenario)
    outcome = check(tmp_path / "data")
    assert kinds(outcome) == (set() if value is None else {"record-unreadable"})
