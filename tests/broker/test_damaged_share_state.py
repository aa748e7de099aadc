"""A damaged batch in an internal topic: said, left out, and nothing else with it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sharegroup.broker.internal_topic import SHARE_GROUP_STATE
from sharegroup.broker.server import Broker
from sharegroup.wire.batch import HEADER_BYTES, BatchHeader, parse_headers
from tests.broker.test_share_state_log import accepted, batches, begin, run


@pytest.mark.parametrize("clean_end", [True, False])
def test_a_damaged_record_is_said_and_the_others_are_read(
    clean_end: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """After a clean end no recovery looks at the log before the replay does."""

    async def write(broker: Broker) -> None:
        await begin(broker.state, 1, 2)  # the batch at offset 0
        for first in (0, 10, 20):  # one batch each, at offsets 2, 3 and 4
            await broker.state.write([accepted(1, first, first + 4)])
        await broker.state.write([accepted(2, 0, 4)])

    async def look(broker: Broker) -> None:
        found = await batches(broker.state, 1)
        assert [batch.first for batch in found] == [0, 20]
        assert len(await batches(broker.state, 2)) == 1
        assert "offsets 3 to 3 are damaged" in caplog.text

    run(tmp_path, write)
    file = next(tmp_path.glob(f"**/{SHARE_GROUP_STATE}-0/*.log"))
    data = bytearray(file.read_bytes())
    start, _ = next(
        (at, header) for at, header in positions(bytes(data)) if header.base_offset == 3
    )
    data[start + HEADER_BYTES + 20] ^= 0x10
    file.write_bytes(data)
    if not clean_end:
        next(tmp_path.glob("**/.kafka_cleanshutdown")).unlink()
    run(tmp_path, look)


def positions(log: bytes) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of each batch of a log file."""
    at = 0
    for header in parse_headers(log):
        yield at, header
        at += header.length
