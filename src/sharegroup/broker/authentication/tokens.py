"""Checks bearer tokens: JSON web tokens that a key of the JWKS document has signed.

Source: RFC 7519, RFC 8725; Kafka class BrokerJwtValidator. PyJWT checks signatures; times are
checked here, by the broker's clock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sharegroup.broker.authentication.signing_keys import SigningKey, SigningKeys
from sharegroup.model.limits import TOKEN_BYTES_MAX
from sharegroup.sasl.server import LoginRefused, shown

if TYPE_CHECKING:
    from jwt.types import Options

_ALGORITHMS: Final[Mapping[str, tuple[str, ...]]] = {
    "RSA": ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    "P-256": ("ES256",),
    "P-384": ("ES384",),
    "P-521": ("ES512",),
    "Ed25519": ("EdDSA",),
    "Ed448": ("EdDSA",),
}
"""The algorithms that each kind of public key may sign with. So no token can choose "none", or use
a public key as the secret of HS256."""


@dataclass(frozen=True, slots=True)
class Claims:
    """What a valid token says. ``expires_ms`` is wall time."""

    user: str
    expires_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What a token must say. An empty value: the token may say anything."""

    audiences: tuple[str, ...]
    issuer: str
    scopes: tuple[str, ...]
    scope_claim: str
    user_claim: str
    skew_ms: int


class ScopeMissing(LoginRefused):
    """The token is valid, but lacks a scope that is wanted."""


class Tokens:
    """Checks the tokens of one listener."""

    def __init__(
        self, keys: SigningKeys, expected: Callable[[], Expected], wall_ms: Callable[[], int]
    ) -> None:
        self._keys = keys
        self._expected = expected
        self._wall_ms = wall_ms

    async def check(self, token: str) -> Claims:
        """The claims of a token.

        Raises:
            Refused: the token is not signed by a known key, not for this broker, not valid now, or
                lacks a scope. The message says why, and shows nothing of the token itself.
        """
        import jwt

        if len(token) > TOKEN_BYTES_MAX:
            raise LoginRefused(f"a token of {len(token)} bytes; the limit is {TOKEN_BYTES_MAX}")
        try:
            header = jwt.get_unverified_header(token)
        except (jwt.PyJWTError, RecursionError):  # of JSON that is nested too deeply
            raise LoginRefused("a token that is no JWT") from None
        key = await self._keys.find(_text(header.get("kid")))
        if header.get("alg") not in (allowed := algorithms(key)):
            raise LoginRefused(
                f"a token whose algorithm is not one of its key: {', '.join(allowed)}"
            )
        try:
            claims: dict[str, Any] = jwt.decode(
                token, key.public, algorithms=list(allowed), options=_SIGNATURE_ONLY
            )
        except jwt.InvalidSignatureError:
            raise LoginRefused("a token whose signature is not that of its key") from None
        except jwt.PyJWTError as error:
            raise LoginRefused(f"a token that cannot be read: {type(error).__name__}") from None
        return self._checked(claims)

    def scope_for(self, error: LoginRefused) -> str:
        """The scopes to name in the refusal; empty if the token was refused for another reason."""
        return " ".join(self._expected().scopes) if isinstance(error, ScopeMissing) else ""

    def _checked(self, claims: Mapping[str, Any]) -> Claims:
        expected, now_ms = self._expected(), self._wall_ms()
        expires = _seconds(claims, "exp")
        if expires is None:
            raise LoginRefused("a token without exp")
        if expires * 1000 + expected.skew_ms <= now_ms:
            raise LoginRefused("a token that has expired")
        for claim in ("nbf", "iat"):
            begins = _seconds(claims, claim)
            if begins is not None and begins * 1000 - expected.skew_ms > now_ms:
                raise LoginRefused(f"a token that is not valid yet ({claim})")
        if expected.issuer and claims.get("iss") != expected.issuer:
            raise LoginRefused("a token of another issuer")
        if expected.audiences and not {*expected.audiences} & {*_words(claims.get("aud"))}:
            raise LoginRefused("a token for another audience")
        user = claims.get(expected.user_claim)
        if not isinstance(user, str) or not user.strip():
            raise LoginRefused(f"a token without {expected.user_claim}")
        scopes = claims.get(expected.scope_claim)
        held = scopes.split() if isinstance(scopes, str) else _words(scopes)
        if not {*expected.scopes} <= {*held}:
            raise ScopeMissing(f"a token of {shown(user)} without the scopes that are wanted")
        return Claims(user, int(expires * 1000))


_SIGNATURE_ONLY: Final[Options] = {
    "verify_signature": True,
    "verify_exp": False,
    "verify_nbf": False,
    "verify_iat": False,
    "verify_aud": False,
    "verify_iss": False,
    "verify_sub": False,
    "verify_jti": False,
}


def algorithms(key: SigningKey) -> tuple[str, ...]:
    """The algorithms that a public key signs with; empty for a secret."""
    found = _algorithms(key.public)
    if key.algorithm is not None:
        return tuple(name for name in found if name == key.algorithm)
    return found


def _algorithms(public: object) -> tuple[str, ...]:
    from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa

    if isinstance(public, rsa.RSAPublicKey):
        return _ALGORITHMS["RSA"] if public.key_size >= 2048 else ()
    if isinstance(public, ec.EllipticCurvePublicKey):
        curves = {"secp256r1": "P-256", "secp384r1": "P-384", "secp521r1": "P-521"}
        return _ALGORITHMS.get(curves.get(public.curve.name, ""), ())
    if isinstance(public, ed25519.Ed25519PublicKey | ed448.Ed448PublicKey):
        return _ALGORITHMS["Ed25519"]
    return ()


def _seconds(claims: Mapping[str, Any], claim: str) -> float | None:
    value = claims.get(claim)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e12:
        raise LoginRefused(f"a token whose {claim} is no time")
    return float(value)


def _words(value: object) -> list[str]:
    values = value if isinstance(value, list) else [value]
    return [word for word in values if isinstance(word, str)]


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
