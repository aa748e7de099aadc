"""A function that gives tokens, and does not return: whoever needs a token is told, and nothing
else waits for it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sharegroup.client.network.addresses import Address
from sharegroup.client.network.cluster import Cluster
from sharegroup.client.security.access import ConnectionAccess
from sharegroup.client.security.limited_calls import HUNG_MAX, THREAD_NAME
from sharegroup.client.security.settings import Security
from sharegroup.client.security.tokens import TokenSource
from sharegroup.model.errors import NetworkException
from sharegroup.spark.task.blocking import BlockingConnection
from sharegroup.wire.apis import METADATA
from sharegroup.wire.messages.metadata import MetadataRequest
from tests.secured.cells import Credentials
from tests.secured.server import SecuredServer
from tests.servers.sharegroup_server import SOURCE

SOON_S = 0.05
WAIT_S = 60


class Hanging:
    """Gives its tokens, then hangs until it is let go, and then gives ``late``."""

    def __init__(self, *tokens: object, late: object = "late") -> None:
        self._tokens = list(tokens)
        self._late = late
        self._let_go = threading.Event()
        self.calls = 0

    def __call__(self) -> Any:
        self.calls += 1
        if self._tokens:
            return self._tokens.pop(0)
        self._let_go.wait(WAIT_S)
        return self._late

    def let_go(self) -> None:
        self._let_go.set()


@pytest.fixture
def hanging() -> Iterator[Hanging]:
    made = Hanging()
    yield made
    made.let_go()


def by(provider: Callable[[], Any] | str) -> Security:
    return Security(protocol="SASL_PLAINTEXT", mechanism="OAUTHBEARER", token_provider=provider)


ended = threading.Event()


@pytest.fixture(autouse=True)
def threads_end() -> Iterator[None]:
    """The threads of hanging functions end with their test."""
    ended.clear()
    yield
    ended.set()
    join_threads()


def join_threads() -> None:
    for thread in threading.enumerate():
        if thread.name == THREAD_NAME:
            thread.join(WAIT_S)


def get_token() -> str:
    """Named in the errors."""
    ended.wait(WAIT_S)
    return ""


async def get_token_later() -> str:
    """The same, for asyncio."""
    await asyncio.Event().wait()
    return ""


async def give_token() -> tuple[str, float]:
    """An asynchronous function that does its work."""
    await asyncio.sleep(0)
    return "given", 2e9


@pytest.mark.parametrize("provider", [get_token, get_token_later])
@pytest.mark.parametrize("named", [False, True])
def test_the_error_names_the_function_and_the_limit(
    provider: Callable[[], Any], *, named: bool
) -> None:
    name = f"{__name__}.{provider.__name__}"
    source = TokenSource(by(f"{__name__}:{provider.__name__}" if named else provider))
    with pytest.raises(NetworkException) as caught:
        source.token(SOON_S)
    assert str(caught.value) == f"the token function {name} did not return within 0.05 s"


def test_an_asynchronous_function() -> None:
    assert TokenSource(by(give_token)).token() == "given"


def test_a_function_that_hangs_is_called_a_few_times_at_most(hanging: Hanging) -> None:
    source = TokenSource(by(hanging))
    for _ in range(HUNG_MAX + 2):
        with pytest.raises(NetworkException, match=r"Hanging did not return within 0\.05 s"):
            source.token(SOON_S)
    assert hanging.calls == HUNG_MAX


def test_callers_at_the_same_time_share_a_call() -> None:
    hanging = Hanging(late="one")
    source = TokenSource(by(hanging))

    async def scenario() -> list[str]:
        asking = [asyncio.create_task(asyncio.to_thread(source.token)) for _ in range(5)]
        await asyncio.to_thread(hanging.let_go)
        return await asyncio.gather(*asking)

    assert asyncio.run(scenario()) == ["one"] * 5


def test_a_token_that_comes_late_is_kept_for_who_asks_next() -> None:
    hanging = Hanging(late=("slow", 2e9))
    source = TokenSource(by(hanging))
    with pytest.raises(NetworkException, match="did not return"):
        source.token(SOON_S)
    hanging.let_go()
    join_threads()
    assert source.token() == "slow"
    assert hanging.calls == 1


def test_the_last_token_is_used_while_it_holds(caplog: pytest.LogCaptureFixture) -> None:
    clock = SimpleNamespace(now_ms=1_000_000)
    hanging = Hanging(("one", 1_100.0))
    source = TokenSource(by(hanging), lambda: clock.now_ms)
    assert source.token(SOON_S) == "one"
    clock.now_ms += 90_000
    assert source.token(SOON_S) == "one"
    assert "did not return within 0.05 s; the token from before is used" in caplog.text
    clock.now_ms += 10_000
    with pytest.raises(NetworkException, match="did not return"):
        source.token(SOON_S)
    hanging.let_go()


def test_a_task_of_spark_is_told(hanging: Hanging) -> None:
    with pytest.raises(NetworkException, match=r"Hanging did not return within 0\.05 s"):
        BlockingConnection(
            Address("127.0.0.1", 1),
            client_id="task",
            timeout_ms=int(SOON_S * 1000),
            access=ConnectionAccess(by(hanging)),
        )


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredServer]:
    folder = tmp_path_factory.mktemp("secured")
    with SecuredServer(folder, Credentials(folder), "connections.max.reauth.ms=2000") as running:
        yield running


@pytest.mark.process
def test_other_connections_go_on_and_a_login_anew_has_the_limit(server: SecuredServer) -> None:
    """A function hangs at the login anew, when the session's time is nearly over."""
    hanging = Hanging((server.credentials.token(), 0.0))
    request = MetadataRequest(topics=[])

    def cluster(provider: Callable[[], Any]) -> Cluster:
        address = server.at("SASL_PLAINTEXT")
        return Cluster(address, request_timeout_ms=500, security=by(provider))

    async def until_told(one: Cluster, other: Cluster) -> None:
        """Until a request of the one is told why. The other's are answered all the time."""
        while True:
            await other.send_to_any(METADATA, request)
            try:
                await one.send_to_any(METADATA, request)
            except NetworkException as error:
                if "Hanging did not return within 0.5 s" in str(error):
                    return

    async def scenario() -> None:
        good = server.credentials.token
        async with cluster(hanging) as one, cluster(good) as other:
            await until_told(one, other)

    try:
        asyncio.run(asyncio.wait_for(scenario(), WAIT_S))
    finally:
        hanging.let_go()
    assert hanging.calls > 1


JOBS = """
import threading

def get_token():
    print("asked", flush=True)
    threading.Event().wait()
"""
PROGRAMS = {
    "asyncio": """
import asyncio
from sharegroup import Admin

async def main():
    async with Admin({server!r}, security={security!r}):
        pass

asyncio.run(main())
""",
    "blocking": """
from sharegroup.sync import Producer

with Producer({server!r}, security={security!r}) as producer:
    producer.send_and_wait("t", b"x")
""",
    "command": """
from sharegroup.cli import main

main(["topics", "list", "--bootstrap-server", {server!r}])
""",
}
SECURITY = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.token.provider": "jobs:get_token",
}


def started(name: str, server: SecuredServer, folder: Path) -> subprocess.Popen[str]:
    """A program whose token function hangs, in a folder of its own."""
    folder = folder / name
    folder.mkdir()
    (folder / "jobs.py").write_text(JOBS)
    address = server.at("SASL_PLAINTEXT")
    text = PROGRAMS[name].format(server=address, security=SECURITY)
    (folder / "program.py").write_text(text)
    variables = {f"SHAREGROUP_{key.upper().replace('.', '_')}": SECURITY[key] for key in SECURITY}
    return subprocess.Popen(
        [sys.executable, "program.py"],
        cwd=folder,
        env=os.environ | variables | {"PYTHONPATH": str(SOURCE)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.process
def test_programs_say_it_and_end(server: SecuredServer, tmp_path: Path) -> None:
    running = {name: started(name, server, tmp_path) for name in PROGRAMS}
    for name, program in running.items():
        with program:
            try:
                _, said = program.communicate(timeout=WAIT_S)
            finally:
                program.kill()
        assert program.returncode == (3 if name == "command" else 1), said
        assert "the token function jobs.get_token did not return within 6 s" in said, name


@pytest.mark.process
def test_ctrl_c_ends_them(server: SecuredServer, tmp_path: Path) -> None:
    running = {name: started(name, server, tmp_path) for name in PROGRAMS}
    for name, program in running.items():
        with program:
            assert program.stdout is not None
            try:
                assert program.stdout.readline() == "asked\n"
                program.send_signal(signal.SIGINT)
                _, said = program.communicate(timeout=WAIT_S)
            finally:
                program.kill()
        assert program.returncode == (130 if name == "command" else -signal.SIGINT), said
        assert "did not return" not in said
