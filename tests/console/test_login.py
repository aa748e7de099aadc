"""Viewers log in with users of the broker's, and see and do what these may."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sharegroup import Admin, Producer, ShareConsumer
from sharegroup.client.network.cluster import Cluster
from sharegroup.client.security.settings import Security
from sharegroup.console import kept_sessions as module
from sharegroup.console.desk import Watched
from sharegroup.console.kept_sessions import LoginRefused
from sharegroup.console.limits import GUESSES_MAX
from sharegroup.console.password_logins import PasswordLogins
from sharegroup.console.sessions import NotLoggedIn
from tests.console.running import ACT, Console, console
from tests.console.secured import PASSWORDS, SecuredServer
from tests.servers.process import HOST

pytestmark = pytest.mark.process
GROUP, TOPIC = "workers", "jobs"
ADDRESSES = (
    "about", "queues", "queue?group=g", "topics", "record?topic=t&partition=0&offset=0",
    "dead?group=g", "events",
)  # fmt: skip
END_S = 60


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredServer]:
    with SecuredServer(tmp_path_factory.mktemp("login")) as running:
        asyncio.run(prepare(running.bootstrap))
        yield running


async def prepare(bootstrap: str) -> None:
    async with Admin(bootstrap) as admin, Producer(bootstrap) as producer:
        await admin.create_topics(TOPIC)
        await admin.alter_configs("group", GROUP, {"share.auto.offset.reset": "earliest"})
        await producer.send(TOPIC, b"secret value")
    async with ShareConsumer(TOPIC, group_id=GROUP, bootstrap_servers=bootstrap) as member:
        await member.poll(100)


@pytest.fixture
def page(server: SecuredServer, tmp_path: Path) -> Iterator[Console]:
    with console(server.secured, tmp_path, "--login") as running:
        yield running
    log = (tmp_path / "console.log").read_text()
    assert not any(word in log for word in PASSWORDS.values())
    assert "Traceback" not in log


class TestLogin:
    """``sharegroup console --login``."""

    def test_nothing_is_told_before_the_login(self, page: Console) -> None:
        for address in ADDRESSES:
            status, _, body = page.answer(f"/api/v1/{address}")
            assert (status, body) == (401, b'{"error":"log in first","login":true}')
        assert page.act("pause", status=401, group=GROUP) == "log in first"
        assert page.answer("/")[0] == 200

    def test_a_user_sees_and_does_what_it_may(self, page: Console, server: SecuredServer) -> None:
        headers = page.log_in("alice", PASSWORDS["alice"])
        assert "HttpOnly" in headers["set-cookie"]
        assert "SameSite=strict" in headers["set-cookie"]
        about = page.json("about")
        assert (about["user"], about["acts"]) == ("alice", True)
        assert [one["group"] for one in page.json("queues")["queues"]] == [GROUP]
        record = page.json("record", topic=TOPIC, partition=0, offset=0)
        assert record["value"]["text"] == "secret value"
        assert page.act("pause", group=GROUP, do=True) == f"{GROUP} is paused."
        assert page.act("resume", group=GROUP, do=True) == f"{GROUP} gets records again."
        assert "User:alice" in server.output()

        page.log_in("bob", PASSWORDS["bob"])
        assert page.json("queues")["queues"] == []
        assert page.json("topics")["topics"] == []
        page.json("queue", status=403, group=GROUP)
        _, _, body = page.answer(f"/api/v1/record?topic={TOPIC}&partition=0&offset=0")
        assert b"secret value" not in body
        page.act("pause", status=403, group=GROUP, do=True)

    def test_an_act_needs_the_token_of_its_session(self, page: Console) -> None:
        page.log_in("alice", PASSWORDS["alice"])
        alice = page.token
        for forged in ("1", "", "é", alice[:-1]):
            page.token = forged.encode().decode("latin-1")
            assert page.act("pause", status=403, group=GROUP) == (
                "this act does not come from the page"
            )
        page.log_in("alice", PASSWORDS["alice"])
        page.token = alice  # of another session of the same user
        page.act("pause", status=403, group=GROUP)

    def test_another_site_cannot_log_a_browser_in(self, page: Console) -> None:
        body = b'{"user": "alice", "password": "canary of alice"}'
        for headers in ({}, {ACT: "1", "sec-fetch-site": "cross-site"}):
            status, _, _ = page.answer("/api/v1/login", method="POST", headers=headers, body=body)
            assert status == 403

    @pytest.mark.parametrize(
        "given", [b"", b"[]", b"{}", b'{"user": "alice"}', b'{"user": 1, "password": ""}']
    )
    def test_a_login_needs_both(self, page: Console, given: bytes) -> None:
        headers = {ACT: "1"}
        assert page.answer("/api/v1/login", method="POST", headers=headers, body=given)[0] == 400

    def test_wrong_passwords_are_refused_and_soon_not_tried(self, page: Console) -> None:
        for _ in range(GUESSES_MAX):
            page.log_in("alice", "guess", status=401)
        page.log_in("alice", "guess", status=429)
        page.log_in("alice", PASSWORDS["alice"], status=429)

    def test_a_logout_ends_the_session_and_its_streams(self, page: Console) -> None:
        page.log_in("alice", PASSWORDS["alice"])
        with page.events() as events:
            next(events)
            headers = {ACT: page.token}
            answer = page.answer("/api/v1/logout", method="POST", headers=headers, body=b"{}")
            assert answer[0] == 200
            assert list(events) is not None  # it ends
        page.json("queues", status=401)


def test_who_is_a_user_no_more_is_asked_to_log_in(tmp_path: Path) -> None:
    with SecuredServer(tmp_path) as server, console(server.secured, tmp_path, "--login") as page:
        page.log_in("bob", PASSWORDS["bob"])
        server.stop()
        server.write_users("alice")
        server.start()
        assert page.json("queues", status=401) == {"error": "log in first", "login": True}
        page.log_in("bob", PASSWORDS["bob"], status=401)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["0.0.0.0:0"], "the console has no login: say --login"),
        (["0.0.0.0:0", "--login"], "would send their passwords in the clear"),
        (["--login", "--without-login"], "contradict each other"),
        (["--tls-key", "key.pem"], "--tls-key needs --tls-certificate"),
        (["--login", "--tls-certificate", "none.pem"], "cannot be read from none.pem"),
        (["--login", "--command-config", "user.properties"], "take sasl.jaas.config out"),
        (["--login", "--command-config", "token.properties"], "sasl.mechanism=OAUTHBEARER knows"),
    ],
)
def test_what_would_be_unsafe_is_refused(tmp_path: Path, options: list[str], said: str) -> None:
    (tmp_path / "token.properties").write_text("sasl.mechanism=OAUTHBEARER\n")
    (tmp_path / "user.properties").write_text("sasl.jaas.config=x\n")
    done = subprocess.run(
        [sys.executable, "-m", "sharegroup", "console", *options],
        cwd=tmp_path, capture_output=True, text=True, timeout=END_S, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert said in " ".join(done.stderr.split())


def connections(server: SecuredServer) -> PasswordLogins:
    def log_in(user: str, password: str) -> Watched:
        security = Security(
            protocol="SASL_PLAINTEXT", mechanism="PLAIN", username=user, password=password
        )
        # A broker that many guesses keep busy is waited for: each is to have its answer.
        asking, reading = (
            Cluster(server.secured, security=security, bootstrap_timeout_ms=END_S * 1_000)
            for _ in range(2)
        )
        return Watched(asking, reading, server.secured)

    return PasswordLogins(log_in, https=False)


@pytest.mark.parametrize("limit", ["SESSION_S", "SESSION_IDLE_S"])
def test_sessions_end(server: SecuredServer, monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    monkeypatch.setattr(module, limit, 0)

    async def scenario() -> None:
        logins = connections(server)
        key = await logins.enter("alice", PASSWORDS["alice"], HOST)
        async with asyncio.timeout(END_S):
            while True:  # the loop calls what is due first
                try:
                    logins.sessions.of_key(key)
                except NotLoggedIn:
                    break
                await asyncio.sleep(0)
        await logins.close()

    asyncio.run(scenario())


def test_sessions_are_bounded(server: SecuredServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SESSIONS_MAX", 1)

    async def scenario() -> None:
        logins = connections(server)
        key = await logins.enter("alice", PASSWORDS["alice"], HOST)
        with pytest.raises(LoginRefused, match="log out somewhere"):
            await logins.enter("bob", PASSWORDS["bob"], HOST)
        logins.sessions.leave(key)
        await logins.enter("bob", PASSWORDS["bob"], HOST)
        await logins.close()

    asyncio.run(scenario())


def test_guesses_at_one_time_count(server: SecuredServer) -> None:
    async def scenario() -> None:
        logins = connections(server)
        guesses = [logins.enter("alice", "guess", HOST) for _ in range(3 * GUESSES_MAX)]
        found = await asyncio.gather(*guesses, return_exceptions=True)
        refused = [getattr(one, "status", one) for one in found]
        assert sorted(refused, key=str) == [401] * GUESSES_MAX + [429] * 2 * GUESSES_MAX
        await logins.enter("alice", PASSWORDS["alice"], "192.0.2.1")
        await logins.close()

    asyncio.run(scenario())


def test_behind_a_proxy_with_https_the_cookie_is_for_https(
    server: SecuredServer, tmp_path: Path
) -> None:
    with console(server.secured, tmp_path, "--login", "--behind-tls") as page:
        cookie = page.log_in("alice", PASSWORDS["alice"])["set-cookie"]
        assert cookie.startswith("__Host-sharegroup=")
        assert "Secure" in cookie
        assert "Path=/" in cookie
        assert page.json("about")["user"] == "alice"
