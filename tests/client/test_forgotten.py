"""Clients that nobody closed, in programs of their own: one warning that names the client, and
nothing else on standard error.
"""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from sharegroup.client.producer.producer import Producer
from sharegroup.model.errors import RequestTimedOut
from tests.servers.running import RunningServer

WAIT_S = 240
TOPIC = "forgotten"

USES = {
    "Admin": "one = Admin(S); await one.list_topics()",
    "Producer": f"one = Producer(S); await one.send({TOPIC!r}, b'x')",
    "Consumer": (
        # a group of its own: the members of another program have the partition for a while
        f"one = Consumer({TOPIC!r}, group_id=f'c{{os.getpid()}}', bootstrap_servers=S,"
        " auto_offset_reset='earliest', enable_auto_commit=False)\n"
        "    while not await one.poll(): pass"
    ),
    "ShareConsumer": (
        f"one = ShareConsumer({TOPIC!r}, group_id='s', bootstrap_servers=S); await one.start()"
    ),
}
"""Class → how a program uses it."""

IN_THE_LOOP = """
import asyncio
import os
from sharegroup import Admin, Consumer, Producer, ShareConsumer

S = {server!r}

async def use():
    {use}

async def main():
    await use()
    for _ in range(100):
        await asyncio.sleep(0)

asyncio.run(main())
print("done")
"""

AFTER_THE_LOOP = """
import asyncio
import os
from sharegroup import Admin, Consumer, Producer, ShareConsumer

S = {server!r}

async def use():
    {use}
    return one

kept = asyncio.run(use())
del kept
print("done")
"""


def said_by(program: str, use: str, options: tuple[str, ...], server: str, folder: Path) -> str:
    """What a program that forgets a client writes to standard error."""

    async def topic() -> None:
        async with Producer(server) as producer:
            await producer.send(TOPIC, b"x")

    asyncio.run(topic())
    path = folder / "forgetful.py"
    path.write_text(program.format(server=server, use=use))
    ended = subprocess.run(
        [sys.executable, *options, path],
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (0, "done\n"), ended.stderr
    return ended.stderr


def warnings_in(said: str) -> list[str]:
    """The warnings, each in one line, without Python's hint how to find where they come from."""
    lines = [line for line in said.splitlines() if "ResourceWarning: " in line]
    return [line for line in lines if "Enable tracemalloc" not in line]


@pytest.mark.parametrize("program", [IN_THE_LOOP, AFTER_THE_LOOP], ids=["in", "after"])
@pytest.mark.parametrize("name", USES)
def test_a_forgotten_client_is_silent_without_an_option(
    name: str, program: str, broker: RunningServer, tmp_path: Path
) -> None:
    assert said_by(program, USES[name], (), broker.bootstrap, tmp_path) == ""


@pytest.mark.parametrize("name", USES)
def test_a_forgotten_client_warns_once(name: str, broker: RunningServer, tmp_path: Path) -> None:
    said = said_by(IN_THE_LOOP, USES[name], ("-X", "dev"), broker.bootstrap, tmp_path)
    warned = warnings_in(said)
    assert len(warned) == 1, said
    assert f"write `async with {name}(...)`" in warned[0]
    assert "destroyed" not in said
    assert "Traceback" not in said


@pytest.mark.parametrize("name", USES)
def test_a_client_that_outlives_its_loop_warns_once(
    name: str, broker: RunningServer, tmp_path: Path
) -> None:
    said = said_by(AFTER_THE_LOOP, USES[name], ("-X", "dev"), broker.bootstrap, tmp_path)
    # Only an event loop that runs can close its connections: asyncio names those that it has left.
    warned = [line for line in warnings_in(said) if "unclosed " not in line]
    assert len(warned) == 1, said
    assert f"write `async with {name}(...)`" in warned[0]
    assert "destroyed" not in said
    assert "Traceback" not in said


BLOCKING = """
from sharegroup.sync import Admin, Consumer, Producer, ShareConsumer

def use():
    {use}

use()
print("done")
"""
BLOCKING_USES = {
    "Admin": "one = Admin({server!r}); one.list_topics()",
    "Producer": f"one = Producer({{server!r}}); one.send({TOPIC!r}, b'x')",
    "Consumer": (
        f"one = Consumer({TOPIC!r}, group_id='c', bootstrap_servers={{server!r}}); one.start()"
    ),
    "ShareConsumer": (
        f"one = ShareConsumer({TOPIC!r}, group_id='s', bootstrap_servers={{server!r}}); one.start()"
    ),
}


@pytest.mark.parametrize("name", BLOCKING_USES)
def test_a_forgotten_blocking_client_warns_once(
    name: str, broker: RunningServer, tmp_path: Path
) -> None:
    use = BLOCKING_USES[name].format(server=broker.bootstrap)
    said = said_by(BLOCKING, use, ("-X", "dev"), broker.bootstrap, tmp_path)
    warned = [line for line in warnings_in(said) if "unclosed " not in line]
    assert len(warned) == 1, said
    assert f"write `with {name}(...)`" in warned[0]
    assert "destroyed" not in said
    assert "Traceback" not in said


def test_records_of_a_producer_that_was_given_up_fail(broker: RunningServer) -> None:
    async def scenario() -> None:
        with pytest.warns(ResourceWarning, match=r"async with Producer\(\.\.\.\)"):
            delivery = Producer(broker.bootstrap).send(TOPIC, b"x")
        with pytest.raises(RequestTimedOut, match="was given up"):
            async with asyncio.timeout(WAIT_S):
                await delivery

    asyncio.run(scenario())
