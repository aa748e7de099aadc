"""A change that one node of a fleet has confirmed is soon known by the others."""

from __future__ import annotations

import asyncio

from sharegroup.client.admin.admin import Admin
from sharegroup.sim.environment import SimulatedClock
from sharegroup.sim.fleet import FIRST_PORT, OPTIONS
from sharegroup.sim.loop import SimulatedLoop
from sharegroup.sim.process import BrokerProcess, Started
from sharegroup.sim.round import BROKER, PORT, STEP_S

SOON_S = 0.1


def test_quotas() -> None:
    """As users and ACLs: what is new was read behind a long poll, three times half a second."""
    crashes: list[str] = []
    loop = SimulatedLoop(STEP_S)

    async def scenario() -> None:
        clock = SimulatedClock()
        cluster = BrokerProcess(loop, BROKER, Started(PORT), 0, clock, crashes.append)
        nodes = [
            BrokerProcess(
                loop,
                f"node{number}",
                Started(FIRST_PORT + number, OPTIONS, cluster.address),
                0,
                clock,
                crashes.append,
            )
            for number in range(2)
        ]
        await cluster.start()
        await asyncio.gather(*(one.start() for one in nodes))
        brokers = [one.broker for one in nodes if one.broker is not None]
        async with Admin(nodes[0].address) as admin:
            for rate in (1_000.0, 2_000.0):
                await admin.alter_client_quotas({"client-id": "c"}, {"producer_byte_rate": rate})
                await asyncio.sleep(SOON_S)  # virtual
                known = [[*broker.parts.views.quotas().values()] for broker in brokers]
                assert known == [[rate]] * len(nodes)

    try:
        asyncio.set_event_loop(loop)
        loop.run_until_complete(scenario())
    finally:
        loop.kill_all()
        asyncio.set_event_loop(None)
        loop.close()
    assert crashes == []
