"""Where tokens come from, and how long one is used."""

from __future__ import annotations

import base64
import json
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.parse import parse_qs

import pytest

from sharegroup.client.security.aws import msk_token
from sharegroup.client.security.settings import Security
from sharegroup.client.security.tokens import TokenSource
from sharegroup.model.errors import ConfigError, NetworkException, SaslAuthenticationFailed
from tests.servers.process import free_port

SECRET = "s3cr3t-c4n4ry/+ é"


class Clock:
    def __init__(self) -> None:
        self.now_ms = 1_000_000

    def __call__(self) -> int:
        return self.now_ms


class Endpoint(HTTPServer):
    """A token endpoint; `answer` is its next (status, body, headers)."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[tuple[str, dict[str, list[str]]]] = []
        self.answer: tuple[int, object, dict[str, str]] = (200, {}, {})

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/token?tenant={SECRET[:6]}"


class Handler(BaseHTTPRequestHandler):
    server: Endpoint

    def do_POST(self) -> None:
        size = int(self.headers["Content-Length"])
        form = parse_qs(self.rfile.read(size).decode())
        self.server.asked.append((self.headers["Authorization"], form))
        status, body, headers = self.server.answer
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body if isinstance(body, bytes) else json.dumps(body).encode())

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
        """Nothing on stderr."""


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with Endpoint() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def by_endpoint(url: str) -> Security:
    return Security(
        protocol="SASL_SSL",
        mechanism="OAUTHBEARER",
        token_endpoint_url=url,
        client_id="id",
        client_secret=SECRET,
        scope="kafka",
    )


def test_client_and_secret_are_encoded_if_that_is_asked_for(endpoint: Endpoint) -> None:
    endpoint.answer = (200, {"access_token": "one", "expires_in": 100}, {})
    TokenSource(replace(by_endpoint(endpoint.url), urlencode_client=True)).token()
    pair = base64.b64decode(endpoint.asked[0][0].removeprefix("Basic ")).decode()
    assert pair == "id:s3cr3t-c4n4ry%2F%2B+%C3%A9"


def by_provider(provider: object) -> Security:
    return Security(protocol="SASL_SSL", mechanism="OAUTHBEARER", token_provider=provider)  # type: ignore[arg-type]


def jwt_until(expires_s: float) -> str:
    payload = base64.urlsafe_b64encode(json.dumps({"exp": expires_s}).encode()).rstrip(b"=")
    return f"e30.{payload.decode()}.sig"


def test_a_token_is_asked_for_as_the_rfc_says_and_used_for_most_of_its_life(
    endpoint: Endpoint,
) -> None:
    clock = Clock()
    source = TokenSource(by_endpoint(endpoint.url), clock)
    endpoint.answer = (200, {"access_token": "one", "expires_in": 100}, {})
    assert source.token() == "one"
    authorization, form = endpoint.asked[0]
    assert base64.b64decode(authorization.removeprefix("Basic ")).decode() == f"id:{SECRET}"
    assert form == {"grant_type": ["client_credentials"], "scope": ["kafka"]}
    endpoint.answer = (200, {"access_token": "two", "expires_in": 100}, {})
    clock.now_ms += 79_999
    assert source.token() == "one"
    clock.now_ms += 1
    assert source.token() == "two"


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (
            (401, {"error": "invalid_client", "error_description": "no\x1b"}, {}),
            r"refused the client credentials: HTTP status 401: invalid_client, no\\x1b",
        ),
        ((501, b"<html>", {}), "HTTP status 501$"),
        ((200, b"<html>", {}), "answered without a token"),
        ((200, {"access_token": ""}, {}), "answered without a token"),
        ((200, [], {}), "answered without a token"),
        ((302, b"", {"Location": "http://127.0.0.1:1/"}), "HTTP status 302, which leads elsewhere"),
    ],
)
def test_an_endpoint_that_gives_no_token_is_a_sentence(
    endpoint: Endpoint, answer: tuple[int, object, dict[str, str]], why: str
) -> None:
    endpoint.answer = answer
    with pytest.raises(SaslAuthenticationFailed, match=why) as caught:
        TokenSource(by_endpoint(endpoint.url)).token()
    assert "s3cr3t" not in str(caught.value)


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_an_endpoint_that_has_no_token_now_is_asked_again(endpoint: Endpoint, status: int) -> None:
    endpoint.answer = (status, b"<html>", {})
    source = TokenSource(by_endpoint(endpoint.url))
    with pytest.raises(NetworkException, match=f"no token now: HTTP status {status}$"):
        source.token()
    endpoint.answer = (200, {"access_token": "one", "expires_in": 100}, {})
    assert source.token() == "one"


def test_without_a_new_token_the_last_one_is_used_until_it_expires(
    endpoint: Endpoint, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    source = TokenSource(by_endpoint(endpoint.url), clock)
    endpoint.answer = (200, {"access_token": "one", "expires_in": 100}, {})
    assert source.token() == "one"
    endpoint.answer = (503, b"", {})
    clock.now_ms += 99_999
    assert [source.token(), source.token()] == ["one", "one"]
    assert caplog.text.count("HTTP status 503; the token from before is used") == 1
    clock.now_ms += 1
    with pytest.raises(NetworkException, match="HTTP status 503"):
        source.token()


def test_a_function_that_gave_a_token_is_asked_again_whatever_it_raises() -> None:
    given: Iterator[str | Exception] = iter(
        ["one", ValueError(SECRET), ConnectionError(SECRET), "two"]
    )

    def provider() -> str:
        one = next(given)
        if isinstance(one, Exception):
            raise one
        return one

    source = TokenSource(by_provider(provider))
    assert source.token() == "one"
    for name in ("ValueError", "ConnectionError"):
        with pytest.raises(NetworkException, match=f"the token provider raised {name}$"):
            source.token()
    assert source.token() == "two"


def test_an_endpoint_that_is_not_there_is_a_matter_of_the_network() -> None:
    url = f"http://127.0.0.1:{free_port()}/token"
    with pytest.raises(NetworkException, match=r"token endpoint .* cannot be reached"):
        TokenSource(by_endpoint(url)).token()


def test_a_function_is_called_when_its_last_token_is_about_to_expire() -> None:
    clock, given = Clock(), iter(range(9))

    def provider() -> tuple[str, float]:
        return f"token-{next(given)}", clock.now_ms / 1000 + 10

    source = TokenSource(by_provider(provider), clock)
    assert [source.token(), source.token()] == ["token-0", "token-0"]
    clock.now_ms += 8_000
    assert source.token() == "token-1"


def test_a_token_that_says_when_it_expires_is_kept_and_another_is_not() -> None:
    clock = Clock()
    tokens = iter([jwt_until(clock.now_ms / 1000 + 10), "opaque-1", "opaque-2", "a.b.c", "d"])
    source = TokenSource(by_provider(lambda: next(tokens)), clock)
    assert source.token() == source.token()
    clock.now_ms += 8_000
    assert [source.token() for _ in range(4)] == ["opaque-1", "opaque-2", "a.b.c", "d"]


def test_a_function_that_fails_is_named_by_its_error_without_the_text() -> None:
    def provider() -> str:
        raise ValueError(SECRET)

    with pytest.raises(SaslAuthenticationFailed, match="raised ValueError") as caught:
        TokenSource(by_provider(provider)).token()
    assert SECRET not in str(caught.value)
    assert caught.value.__suppress_context__
    with pytest.raises(SaslAuthenticationFailed, match="returned NoneType"):
        TokenSource(by_provider(lambda: None)).token()


def test_a_file_is_read_anew_for_each_login(tmp_path: Path) -> None:
    file = tmp_path / "token"
    security = Security(protocol="SASL_SSL", mechanism="OAUTHBEARER", token_location=str(file))
    source = TokenSource(security)
    with pytest.raises(SaslAuthenticationFailed, match="cannot be read"):
        source.token()
    for text in ("one\n", "two"):
        file.write_text(text)
        assert source.token() == text.strip()
    file.write_text("")  # as while it is being replaced
    assert source.token() == "two"
    file.write_text(jwt_until(1))
    assert source.token() == jwt_until(1)
    file.unlink()
    with pytest.raises(SaslAuthenticationFailed, match="cannot be read"):
        source.token()


def test_msk_tokens_come_from_amazons_signer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (
        "boto3",
        "aws_msk_iam_sasl_signer",
        "aws_msk_iam_sasl_signer.MSKAuthTokenProvider",
    ):
        monkeypatch.delitem(sys.modules, name, raising=False)
    with pytest.raises(ConfigError, match=r"install 'sharegroup\[aws\]"):
        msk_token()
    package = tmp_path / "aws_msk_iam_sasl_signer"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "MSKAuthTokenProvider.py").write_text(
        "def generate_auth_token(region):\n    return f'signed-for-{region}', 5_000\n"
    )
    (tmp_path / "boto3.py").write_text(
        "class session:\n    class Session:\n        region_name = 'eu-central-1'\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert msk_token() == ("signed-for-eu-central-1", 5.0)
