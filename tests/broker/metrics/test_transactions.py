"""What the metrics say of transactions, on virtual time."""

from __future__ import annotations

import asyncio
import re

from sharegroup.broker.metrics.reader import MetricsReader
from sharegroup.model.errors import InvalidProducerEpoch, ProducerFenced
from tests.broker.group_wire import World, simulate
from tests.broker.transaction_wire import TransactionalProducer, close_all

OK = 0


async def values(world: World) -> dict[str, float]:
    """The metrics of transactions that are not 0."""
    body, _ = await MetricsReader(world.broker.parts).text()
    found = re.findall(r"^sharegroup_(transaction\S+) (\S+)$", body.decode(), re.MULTILINE)
    return {name: float(value) for name, value in found if float(value) and "_log_" not in name}


def test_transactions_are_counted() -> None:
    async def scenario(world: World) -> None:
        assert await values(world) == {}
        first = await TransactionalProducer.start(world._port, "first")
        await first.new_topic(1)
        await TransactionalProducer.start(world._port, "idle")
        assert await first.write({0: b"x"}) == [OK]
        await asyncio.sleep(2)
        assert await values(world) == {
            'transactional_ids{state="Empty"}': 1,
            'transactional_ids{state="Ongoing"}': 1,
            "transaction_oldest_open_seconds": 2,
        }
        assert await first.end(commit=True) == OK
        assert await first.write({0: b"x"}) == [OK]
        assert await first.end(commit=False) == OK
        await asyncio.sleep(1)
        done = {
            'transactions_completed_total{outcome="commit"}': 1,
            'transactions_completed_total{outcome="abort"}': 1,
        }
        assert await values(world) == done | {
            'transactional_ids{state="Empty"}': 1,
            'transactional_ids{state="CompleteAbort"}': 1,
        }
        assert await first.initialize(timeout_ms=1000) == OK
        assert await first.write({0: b"x"}) == [OK]
        await asyncio.sleep(2)
        await TransactionalProducer.start(world._port, "first")
        assert await first.write({0: b"x"}) == [InvalidProducerEpoch.code]
        assert await first.end(commit=True) == ProducerFenced.code
        assert await values(world) == {
            'transactions_completed_total{outcome="commit"}': 1,
            'transactions_completed_total{outcome="abort"}': 2,
            "transaction_timeouts_total": 1,
            "transaction_fenced_requests_total": 2,
            'transactional_ids{state="Empty"}': 2,
        }
        body, _ = await MetricsReader(world.broker.parts).text()
        for what, times in (("write", r"[1-9]\d*"), ("load", "1")):
            line = (
                rf'^sharegroup_transaction_log_{what}_seconds_count{{partition="0"}} {times}(\.0)?$'
            )
            assert re.search(line, body.decode(), re.MULTILINE)
        await close_all()

    simulate(scenario)
