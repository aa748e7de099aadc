"""Tokens that must not be accepted."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm

from sharegroup.model.limits import TOKEN_BYTES_MAX
from tests.secured.cells import AUDIENCE, ISSUER, KEY_ID, USER, Credentials

_HOUR = 3_600


def message(token: str) -> bytes:
    """What a client of OAUTHBEARER sends."""
    return f"n,,\x01auth=Bearer {token}\x01\x01".encode()


def of_another_key(key_id: str) -> str:
    """Whose key nobody knows."""
    key = ec.generate_private_key(ec.SECP256R1())
    return jwt.encode(_claims(), key, "ES256", headers={"kid": key_id})


def bad_messages(credentials: Credentials) -> Iterator[tuple[str, bytes]]:
    """What is wrong, and the message."""
    good = credentials.token()
    header, body, signature = good.split(".")
    (described,) = json.loads(credentials.jwks_file.read_text())["keys"]
    public: Any = ECAlgorithm.from_jwk(json.dumps(described))
    pem = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    yield "no algorithm", message(f"{_part({'alg': 'none', 'kid': KEY_ID})}.{body}.")
    yield "no algorithm, signed", message(f"{_part({'alg': 'None'})}.{body}.{signature}")
    for secret in (pem, pem.strip(), json.dumps(described).encode()):
        yield "the public key as a secret", message(_by_secret(secret, body))
    yield (
        "another algorithm",
        message(f"{_part({'alg': 'RS256', 'kid': KEY_ID})}.{body}.{signature}"),
    )
    yield "another key", message(of_another_key(KEY_ID))
    yield "its own key", message(_with_own_key())
    other = _part(_claims() | {"sub": "root"})
    yield "another body", message(f"{header}.{other}.{signature}")
    yield "no signature", message(f"{header}.{body}.")
    yield "another audience", message(credentials.token(aud="elsewhere"))
    yield "another issuer", message(credentials.token(iss="https://elsewhere.example"))
    yield "no issuer", message(credentials.token(iss=""))
    yield "no expiry", message(credentials.token(exp=None))
    yield "expired", message(credentials.token(lifetime=timedelta(hours=-1)))
    yield "not yet", message(credentials.token(nbf=int(time.time()) + _HOUR))
    yield "no subject", message(credentials.token(sub=None))
    yield "an empty subject", message(credentials.token(sub=" "))
    yield "long", message(credentials.token(more="x" * TOKEN_BYTES_MAX))
    for odd in (b"[" * 40_000, b'{"a":' * 8_000, b'{"alg":"ES256","kid":' + b"9" * 9_000 + b"}"):
        yield "an odd header", message(f"{_encoded(odd)}.{body}.{signature}")
    yield "somebody else", f"n,a=root,\x01auth=Bearer {good}\x01\x01".encode()
    for form in (b"", b"\x01", b"n,,", b"n,,\x01auth=\x01\x01", b"\xff" * 100, b"\x01" * 500_000):
        yield "no message", form


def _claims() -> dict[str, Any]:
    now = int(time.time())
    return {"sub": USER, "iss": ISSUER, "aud": AUDIENCE, "iat": now, "exp": now + _HOUR}


def _with_own_key() -> str:
    key = ec.generate_private_key(ec.SECP256R1())
    own = json.loads(ECAlgorithm.to_jwk(key.public_key()))
    headers = {"kid": KEY_ID, "jwk": own, "jku": "http://127.0.0.1:1/keys"}
    return jwt.encode(_claims(), key, "ES256", headers=headers)


def _by_secret(secret: bytes, body: str) -> str:
    signed = f"{_part({'alg': 'HS256', 'kid': KEY_ID})}.{body}"
    return f"{signed}.{_encoded(hmac.digest(secret, signed.encode(), hashlib.sha256))}"


def _part(content: dict[str, Any]) -> str:
    return _encoded(json.dumps(content).encode())


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
