"""Bearer tokens, good and forged."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from sharegroup.app.environment import local_environment
from sharegroup.broker.authentication import signing_keys
from sharegroup.broker.authentication.signing_keys import SigningKeys, parse_keys
from sharegroup.broker.authentication.tokens import Expected, Tokens
from sharegroup.broker.event_counters import Counters
from sharegroup.model.limits import JWKS_BYTES_MAX, TOKEN_BYTES_MAX
from sharegroup.sasl.server import LoginRefused

NOW_S = 1_800_000_000
RSA = rsa.generate_private_key(65537, 2048)
EC = ec.generate_private_key(ec.SECP256R1())
ANY = Expected(
    audiences=(), issuer="", scopes=(), scope_claim="scope", user_claim="sub", skew_ms=30_000
)
GOOD = {"sub": "alice", "exp": NOW_S + 60}


def document(**keys: Any) -> bytes:
    """A JWKS document of public keys by their id."""
    made = []
    for key_id, key in keys.items():
        public = key.public_key()
        kind = jwt.algorithms.RSAAlgorithm if key is RSA else jwt.algorithms.ECAlgorithm
        made.append({**kind.to_jwk(public, as_dict=True), "kid": key_id})
    return json.dumps({"keys": made}).encode()


class Fixture:
    """A listener's tokens, at a fixed time; keys in a file."""

    def __init__(self, folder: Path, expected: Expected = ANY) -> None:
        self.path = folder / "jwks.json"
        self.path.write_bytes(document(r=RSA, e=EC))
        environment = local_environment()
        self.counters = Counters(environment.clock.monotonic_ms)
        self.url = self.path.as_uri()
        self.keys = SigningKeys(
            lambda: self.url,
            lambda: 3_600_000,
            environment.clock,
            environment.disk,
            self.counters,
        )
        self.tokens = Tokens(self.keys, lambda: expected, lambda: NOW_S * 1000)

    def user(self, token: str) -> str:
        return asyncio.run(self.tokens.check(token)).user

    def refused(self, token: str) -> str:
        with pytest.raises(LoginRefused) as refused:
            self.user(token)
        return str(refused.value)


@pytest.fixture
def fixture(tmp_path: Path) -> Fixture:
    return Fixture(tmp_path)


def signed(claims: Mapping[str, Any], key_id: str | None = "r", algorithm: str = "RS256") -> str:
    key = EC if algorithm.startswith("ES") else RSA
    return jwt.encode(dict(claims), key, algorithm, headers={"kid": key_id} if key_id else {})


def part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


@pytest.mark.parametrize(("key_id", "algorithm"), [("r", "RS256"), ("r", "PS512"), ("e", "ES256")])
def test_signed_tokens(fixture: Fixture, key_id: str, algorithm: str) -> None:
    token = signed(GOOD, key_id, algorithm)
    claims = asyncio.run(fixture.tokens.check(token))
    assert (claims.user, claims.expires_ms) == ("alice", (NOW_S + 60) * 1000)


def test_a_token_without_signature(fixture: Fixture) -> None:
    for algorithm in ("none", "None", "nOnE"):
        token = f"{part({'alg': algorithm, 'kid': 'r'})}.{part(GOOD)}."
        assert "algorithm is not one of its key" in fixture.refused(token)


def test_the_public_key_is_no_secret(fixture: Fixture) -> None:
    """HS256 with the text of the RSA key as the secret (RFC 8725, section 2.1)."""
    public = RSA.public_key()
    for secret in (
        public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
    ):
        signing = f"{part({'alg': 'HS256', 'kid': 'r'})}.{part(GOOD)}"
        digest = hmac.digest(secret, signing.encode(), hashlib.sha256)
        token = f"{signing}.{base64.urlsafe_b64encode(digest).decode().rstrip('=')}"
        assert "algorithm is not one of its key" in fixture.refused(token)


def test_the_algorithm_of_another_kind_of_key(fixture: Fixture) -> None:
    assert "algorithm is not one of its key" in fixture.refused(signed(GOOD, "e", "RS256"))
    other = jwt.encode(GOOD, ec.generate_private_key(ec.SECP256R1()), "ES256", {"kid": "e"})
    assert fixture.refused(other) == "a token whose signature is not that of its key"
    assert "no key of the JWKS document" in fixture.refused(signed(GOOD, "unknown"))
    assert "no key of the JWKS document" in fixture.refused(signed(GOOD, None))


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"sub": "a"}, "without exp"),
        ({"sub": "a", "exp": NOW_S - 31}, "has expired"),
        ({"sub": "a", "exp": NOW_S - 30}, "has expired"),
        ({"sub": "a", "exp": "x"}, "exp is no time"),
        ({"sub": "a", "exp": True}, "exp is no time"),
        ({"sub": "a", "exp": 1e300}, "exp is no time"),
        ({"sub": "a", "exp": NOW_S + 60, "nbf": NOW_S + 31}, "not valid yet"),
        ({"sub": "a", "exp": NOW_S + 60, "iat": NOW_S + 31}, "not valid yet"),
        ({"exp": NOW_S + 60}, "without sub"),
        ({"sub": " ", "exp": NOW_S + 60}, "without sub"),
        ({"sub": 7, "exp": NOW_S + 60}, "without sub"),
    ],
)
def test_claims_that_are_refused(fixture: Fixture, claims: Mapping[str, Any], reason: str) -> None:
    token = f"{part({'alg': 'RS256', 'kid': 'r'})}.{part(claims)}"
    signature = jwt.algorithms.RSAAlgorithm(jwt.algorithms.RSAAlgorithm.SHA256).sign(
        token.encode(), RSA
    )
    token = f"{token}.{base64.urlsafe_b64encode(signature).decode().rstrip('=')}"
    assert reason in fixture.refused(token)


def test_clocks_may_differ_a_little(fixture: Fixture) -> None:
    assert fixture.user(signed({"sub": "alice", "exp": NOW_S - 29, "nbf": NOW_S + 30})) == "alice"


def test_what_a_token_must_say(tmp_path: Path) -> None:
    expected = replace(
        ANY,
        audiences=("kafka", "other"),
        issuer="https://issuer",
        scopes=("read", "write"),
        scope_claim="scp",
        user_claim="client_id",
    )
    fixture = Fixture(tmp_path, expected)
    good = {
        "client_id": "spark",
        "exp": NOW_S + 60,
        "aud": ["x", "kafka"],
        "iss": "https://issuer",
        "scp": "write read more",
    }
    assert fixture.user(signed(good)) == "spark"
    assert fixture.user(signed({**good, "aud": "other", "scp": ["read", "write"]})) == "spark"
    for wrong, reason in (
        ({"aud": "x"}, "another audience"),
        ({"aud": None}, "another audience"),
        ({"iss": "https://issuer/"}, "another issuer"),
        ({"scp": "read"}, "without the scopes"),
        ({"client_id": None}, "without client_id"),
    ):
        assert reason in fixture.refused(signed({**good, **wrong}))


@pytest.mark.parametrize("token", ["", "x", "a.b.c", "..", "a" * TOKEN_BYTES_MAX])
def test_what_is_no_token(fixture: Fixture, token: str) -> None:
    assert fixture.refused(token) == "a token that is no JWT"


def test_the_longest_token(fixture: Fixture) -> None:
    assert "the limit is" in fixture.refused("a" * (TOKEN_BYTES_MAX + 1))


def test_new_keys_are_found_at_once_and_old_ones_stay_while_there_are_none(
    fixture: Fixture,
) -> None:
    fixture.path.write_bytes(document(r=RSA))
    assert fixture.user(signed(GOOD)) == "alice"
    fixture.path.write_text("rubbish")
    fixture.keys.forget()
    assert fixture.user(signed(GOOD)) == "alice"
    assert fixture.counters.statistics()["token_keys_failures", ""] == 1
    fixture.path.write_bytes(document(e=EC))
    fixture.keys.forget()
    assert fixture.user(signed(GOOD, "e", "ES256")) == "alice"
    assert "no key of the JWKS document" in fixture.refused(signed(GOOD))


def test_a_known_key_does_not_wait_for_a_server_that_stands_still(
    fixture: Fixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = signed(GOOD)

    async def scenario() -> None:
        assert (await fixture.tokens.check(token)).user == "alice"
        fixture.keys.forget()
        answers = asyncio.Event()

        async def later(_url: str) -> bytes:
            await answers.wait()
            return document(n=RSA)

        monkeypatch.setattr(fixture.keys, "_read", later)
        monkeypatch.setattr(signing_keys, "KNOWN_S", 0.01)
        for _ in range(3):
            assert (await fixture.tokens.check(token)).user == "alice"
        answers.set()
        assert (await fixture.tokens.check(signed(GOOD, "n"))).user == "alice"
        with pytest.raises(LoginRefused, match="no key of the JWKS document"):
            await fixture.tokens.check(token)

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"keys": 1}', '{"keys": [1]}', '{"keys": []}', '{"keys": [{}]}']
)
def test_what_is_no_document_of_keys(text: str) -> None:
    with pytest.raises(ValueError, match=r"^it "):
        parse_keys(text.encode() or b"null")


def test_secrets_and_keys_for_encryption_are_passed_over() -> None:
    secret = {"kty": "oct", "k": "c2VjcmV0", "kid": "s"}
    (public,) = json.loads(document(r=RSA))["keys"]
    keys = parse_keys(
        json.dumps({"keys": [secret, {**public, "use": "enc", "kid": "x"}, public]}).encode()
    )
    assert [key.key_id for key in keys] == ["r"]


def test_keys_over_http(tmp_path: Path) -> None:
    documents = {"/good": document(r=RSA), "/long": b" " * (JWKS_BYTES_MAX + 1), "/no": b"x"}

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = documents.get(self.path)
            self.send_response(200 if found is not None else 404)
            self.end_headers()
            self.wfile.write(found or b"")

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Nothing."""

    fixture = Fixture(tmp_path)
    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        for path in ("/missing", "/long", "/no", "/good"):
            fixture.url = f"http://127.0.0.1:{server.server_port}{path}"
            fixture.keys.forget()
            if path == "/good":
                assert fixture.user(signed(GOOD)) == "alice"
            else:
                assert "no key of the JWKS document" in fixture.refused(signed(GOOD))
        server.shutdown()
    assert fixture.counters.statistics()["token_keys_failures", ""] == 3
