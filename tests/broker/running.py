"""The broker in this process, on the real loop, with real sockets and files."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from sharegroup.app.environment import local_environment
from sharegroup.broker.configs.broker import load
from sharegroup.broker.server import Broker
from sharegroup.model.environment import Disk

Scenario = Callable[[Broker, int], Coroutine[Any, Any, None]]


@asynccontextmanager
async def running(
    folder: Path, *options: str, disk: Disk | None = None
) -> AsyncIterator[tuple[Broker, int]]:
    """(broker, port), closed at the end."""
    environment = local_environment()
    if disk is not None:
        environment = replace(environment, disk=disk)
    broker = await Broker.open(load("", options), environment, str(folder / "data"))
    try:
        _, port = await broker.listen("127.0.0.1", 0)
        yield broker, port
    finally:
        await broker.close()


def run(folder: Path, scenario: Scenario, *options: str, disk: Disk | None = None) -> None:
    """Run ``scenario`` against a broker, within minutes."""

    async def main() -> None:
        async with asyncio.timeout(240), running(folder, *options, disk=disk) as (broker, port):
            await scenario(broker, port)

    asyncio.run(main())
