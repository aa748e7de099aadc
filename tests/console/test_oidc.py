"""Viewers log in at an OpenID provider, and see and do what the broker lets its users."""

from __future__ import annotations

import asyncio
import http.client
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from starlette.requests import Request

from sharegroup import Admin
from sharegroup.client.network.cluster import Cluster
from sharegroup.console.desk import Watched
from sharegroup.console.oidc_logins import OidcLogins
from sharegroup.console.oidc_provider import provider_of
from tests.console.oidc import CLIENT, SECRET, TokenServer, provider, settings
from tests.console.running import Console, console
from tests.servers.process import HOST

pytestmark = pytest.mark.process
GROUP, TOPIC = "workers", "jobs"
END_S = 60


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with provider(tmp_path_factory.mktemp("provider")) as address:
        yield address


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, issuer: str) -> Iterator[TokenServer]:
    async def prepare(bootstrap: str) -> None:
        async with Admin(bootstrap) as admin:
            await admin.create_topics(TOPIC)
            await admin.alter_configs("group", GROUP, {"share.auto.offset.reset": "earliest"})

    with TokenServer(tmp_path_factory.mktemp("tokens"), issuer) as running:
        asyncio.run(prepare(running.bootstrap))
        yield running


@pytest.fixture
def page(server: TokenServer, issuer: str, tmp_path: Path) -> Iterator[Console]:
    with console(server.secured, tmp_path, "--login-oidc", str(settings(tmp_path, issuer))) as page:
        yield page
    log = (tmp_path / "console.log").read_text()
    assert SECRET not in log
    assert "eyJ" not in log, "a token"
    assert "Traceback" not in log


class Answer(NamedTuple):
    status: int
    headers: list[tuple[str, str]]
    text: str

    def header(self, name: str) -> str:
        return next((text for one, text in self.headers if one.lower() == name), "")


def ask(address: str, cookie: str = "", form: dict[str, str] | None = None) -> Answer:
    """The answer of any address, which another site's page has led to."""
    parts = urlsplit(address)
    connection = http.client.HTTPConnection(str(parts.netloc), timeout=END_S)
    headers = {"cookie": cookie, "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    if form is not None:
        headers["content-type"] = "application/x-www-form-urlencoded"
    try:
        body = None if form is None else urlencode(form)
        method = "GET" if form is None else "POST"
        connection.request(method, f"{parts.path}?{parts.query}", body, headers)
        answered = connection.getresponse()
        return Answer(answered.status, answered.getheaders(), answered.read().decode())
    finally:
        connection.close()


def begun(page: Console, then: str = "/") -> tuple[str, str]:
    """The address at the provider, and the cookie of this login."""
    sent = ask(f"http://{HOST}:{page.port}/login?{urlencode({'then': then})}")
    assert sent.status == 302, sent.text
    cookie = sent.header("set-cookie")
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    return sent.header("location"), cookie.partition(";")[0]


def came_back(page: Console, user: str, then: str = "/") -> Answer:
    """What the console answers when the provider has logged this user in."""
    there, cookie = begun(page, then)
    back = ask(there, form={"sub": user})
    assert back.status == 302, back.text
    return ask(back.header("location"), cookie)


def log_in(page: Console, user: str) -> None:
    answered = came_back(page, user)
    assert answered.status == 200, answered.text
    cookies = [text for name, text in answered.headers if name.lower() == "set-cookie"]
    (kept,) = (text for text in cookies if text.startswith("sharegroup="))
    assert "HttpOnly" in kept
    assert "SameSite=strict" in kept
    page.cookie = kept.partition(";")[0]
    page.token = page.json("about")["token"]


class TestLogin:
    """``sharegroup console --login-oidc``."""

    def test_nothing_is_told_before_the_login(self, page: Console) -> None:
        status, _, body = page.answer("/api/v1/queues")
        assert (status, body) == (401, b'{"error":"log in first","login":"/login"}')

    def test_a_user_sees_and_does_what_it_may(self, page: Console, server: TokenServer) -> None:
        log_in(page, "alice")
        about = page.json("about")
        assert (about["user"], about["acts"], about["may_leave"]) == ("alice", True, True)
        assert page.json("topics")["topics"][0]["topic"] == TOPIC
        page.act("create-topic", do=True, topic="made", partitions=1)
        log_in(page, "bob")
        assert page.json("topics")["topics"] == []
        page.act("create-topic", status=403, do=True, topic="mine", partitions=1)

    def test_the_provider_is_asked_as_it_should_be(self, page: Console, issuer: str) -> None:
        there, _ = begun(page)
        assert there.startswith(f"{issuer}/")
        query = {name: one[0] for name, one in parse_qs(urlsplit(there).query).items()}
        assert query["redirect_uri"] == f"http://{HOST}:{page.port}/login/back"
        assert query["code_challenge_method"] == "S256"
        assert query["response_type"] == "code"
        assert len(query["nonce"]) > 10
        assert len(query["state"]) > 10

    def test_a_code_of_another_browser_is_refused(self, page: Console) -> None:
        there, _ = begun(page)
        back = ask(there, form={"sub": "alice"}).header("location")
        assert ask(back).status == 400
        _, other = begun(page)
        refused = ask(back, other)
        assert refused.status == 401
        assert not refused.header("set-cookie")

    def test_a_login_is_used_once(self, page: Console) -> None:
        there, cookie = begun(page)
        back = ask(there, form={"sub": "alice"}).header("location")
        assert ask(back, cookie).status == 200
        assert ask(back, cookie).status == 400

    def test_who_says_no_is_told_so(self, page: Console) -> None:
        there, cookie = begun(page)
        back = ask(there, form={"action": "deny"}).header("location")
        refused = ask(back, cookie)
        assert refused.status == 401
        assert "has not logged you in: access_denied" in refused.text

    @pytest.mark.parametrize(
        ("then", "kept"),
        [
            ("/?queue=workers", "/?queue=workers"),
            ("//evil.example", "/"),
            ("https://evil.example", "/"),
            ("/\\evil.example", "/"),
            ('/"><script>', "/&quot;&gt;&lt;script&gt;"),
        ],
    )
    def test_the_browser_comes_back_to_where_it_was(
        self, page: Console, then: str, kept: str
    ) -> None:
        assert f'content="0;url={kept}"' in came_back(page, "alice", then).text

    def test_a_logout_ends_the_session(self, page: Console) -> None:
        log_in(page, "alice")
        headers = {"x-sharegroup-act": page.token}
        assert page.answer("/api/v1/logout", method="POST", headers=headers, body=b"{}")[0] == 200
        assert page.json("queues", status=401)["login"] == "/login"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"issuer": "http://login.example.com"}, "would send tokens in the clear"),
        ({"issuer": "login.example.com"}, "write https://…"),
        ({"issuer": "https://login.example.com", "client.id": ""}, "lacks client.id"),
        ({"scope": "profile"}, "lacks openid"),
        ({"broker.token": "refresh_token"}, "write access_token or id_token"),
        ({"secret": "x"}, "secret in oidc.properties means nothing here"),
        ({"ca.location": "none.pem"}, "none.pem"),
    ],
)
def test_a_wrong_setting_is_said_at_the_start(
    tmp_path: Path, given: dict[str, str], said: str
) -> None:
    found = {"issuer": "https://login.example.com", "client.id": CLIENT} | given
    (tmp_path / "oidc.properties").write_text("".join(f"{n}={t}\n" for n, t in found.items()))
    done = subprocess.run(
        [sys.executable, "-m", "sharegroup", "console", "--login-oidc", "oidc.properties"],
        cwd=tmp_path, capture_output=True, text=True, timeout=END_S, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert said in " ".join(done.stderr.split())


def test_a_provider_that_is_away_is_said_in_the_browser(
    server: TokenServer, tmp_path: Path
) -> None:
    file = settings(tmp_path, f"http://{HOST}:1")
    with console(server.secured, tmp_path, "--login-oidc", str(file)) as page:
        answered = ask(f"http://{HOST}:{page.port}/login")
        assert answered.status == 502
        assert "does not answer as it should" in answered.text


def test_a_token_that_expires_is_renewed(server: TokenServer, tmp_path: Path) -> None:
    """The provider's access tokens live five seconds: each is as good as expired."""
    sources: list[Any] = []

    def connections(newest: Any) -> Watched:
        sources.append(newest)
        asking, reading = (Cluster(server.bootstrap) for _ in range(2))
        return Watched(asking, reading, server.bootstrap)

    def request(path: str, query: str, cookie: str = "") -> Request:
        headers = [(b"host", b"127.0.0.1:8088"), (b"cookie", cookie.encode())]
        return Request(
            {"type": "http", "method": "GET", "path": path, "headers": headers,
             "query_string": query.encode()}
        )  # fmt: skip

    async def scenario(issuer: str) -> None:
        given = {"issuer": issuer, "client.id": CLIENT, "client.secret": SECRET}
        found = provider_of(given, "oidc.properties")
        logins = OidcLogins(found, connections, https=False)
        sent = await logins._login(request("/login", ""))
        cookie = sent.headers["set-cookie"].partition(";")[0]
        there = sent.headers["location"]
        back = await asyncio.to_thread(ask, there, form={"sub": "alice"})
        query = urlsplit(back.header("location")).query
        assert (await logins._back(request("/login/back", query, cookie))).status_code == 200
        (newest,) = sources
        renewed = await asyncio.to_thread(newest)
        assert renewed[1] > time.time() + 60, "the provider's renewed tokens live long"
        assert await asyncio.to_thread(newest) == renewed
        await logins.close()

    with provider(tmp_path, "--token-max-age", "5") as issuer:
        asyncio.run(scenario(issuer))
