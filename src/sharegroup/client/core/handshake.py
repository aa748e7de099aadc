"""The exchanges between a client and a broker before the program's first request.

A handshake is a generator: it yields one exchange, is sent the response, and so on; it returns what
the broker serves. It agrees on versions (ApiVersions, KIP-35 and KIP-511), then it logs in by SASL
(SaslHandshake and SaslAuthenticate, KIP-43 and KIP-152), where there is a login. :func:`log_in` is
the second part alone: a login anew on the open connection (KIP-368). TLS lies below all of it, at
the socket.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Final, NamedTuple, cast

from sharegroup import __version__
from sharegroup.model import errors
from sharegroup.model.limits import SASL_ROUNDS_MAX
from sharegroup.model.printable import printable
from sharegroup.sasl.client import Login
from sharegroup.wire.apis import API_VERSIONS, SASL_AUTHENTICATE, SASL_HANDSHAKE, Api
from sharegroup.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from sharegroup.wire.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from sharegroup.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from sharegroup.wire.schema import Message

Versions = tuple[int, int]
"""The lowest and the highest version of an API."""

_HANDSHAKE_VERSIONS: Final = (1, 1)  # after version 0, the login's bytes are not framed as requests
_AUTHENTICATE_VERSIONS: Final = (0, 2)


class HandshakeRequest(NamedTuple):
    """A request of the handshake; the next step needs its response."""

    api: Api
    version: int
    request: Message


class Served(NamedTuple):
    """What a broker serves.

    Attributes:
        versions: API key → versions.
        features: supported features, name → (lowest, highest level).
        finalized: features in use in the cluster, name → level.
        session_lifetime_ms: within this time, a login anew must have begun; 0: never.
    """

    versions: Mapping[int, Versions]
    features: dict[str, tuple[int, int]]
    finalized: Mapping[str, int]
    session_lifetime_ms: int = 0


Handshake = Generator[HandshakeRequest, Message, Served]


def handshake(address: str, ours: Versions, login: Login | None = None) -> Handshake:
    """All exchanges before the first request.

    Args:
        address: the broker's ``host:port``, for messages.
        ours: the versions of ApiVersions that we speak.
        login: None: the broker lets everybody in.

    Raises:
        UnsupportedVersion: broker and client have no version of ApiVersions in common, or the
            broker has no login by SASL.
        KafkaError: the broker refuses; of a login: AuthenticationFailed.
    """
    served = yield from _agree_on_versions(address, ours)
    return served if login is None else (yield from log_in(address, served, login))


def log_in(address: str, served: Served, login: Login) -> Handshake:
    """The exchanges of a login. Returns ``served`` with how long the login holds.

    Raises:
        AuthenticationFailed: the broker does not offer the mechanism, or refuses; or it is not the
            server that it says it is.
    """
    yield from _choose_mechanism(address, served, login.mechanism)
    version = common_version(
        address,
        SASL_AUTHENTICATE,
        _AUTHENTICATE_VERSIONS,
        served.versions.get(SASL_AUTHENTICATE.key),
    )
    message = login.first()
    for _ in range(SASL_ROUNDS_MAX):
        request = SaslAuthenticateRequest(auth_bytes=message)
        response = cast(
            SaslAuthenticateResponse, (yield HandshakeRequest(SASL_AUTHENTICATE, version, request))
        )
        if response.error_code:
            raise _refused(address, login, response)
        try:
            message = login.next(bytes(response.auth_bytes))
        except errors.SaslAuthenticationFailed as error:
            raise errors.SaslAuthenticationFailed(f"{address}: {error}") from None
        if login.done:
            return served._replace(session_lifetime_ms=response.session_lifetime_ms)
    raise errors.SaslAuthenticationFailed(f"{address}: the login by {login.mechanism} does not end")


def _choose_mechanism(
    address: str, served: Served, mechanism: str
) -> Generator[HandshakeRequest, Message, None]:
    theirs = served.versions.get(SASL_HANDSHAKE.key)
    if theirs is None:
        raise errors.IllegalSaslState(
            f"{address} takes no login by SASL: is security.protocol right?"
        )
    version = common_version(address, SASL_HANDSHAKE, _HANDSHAKE_VERSIONS, theirs)
    exchange = HandshakeRequest(SASL_HANDSHAKE, version, SaslHandshakeRequest(mechanism=mechanism))
    response = cast(SaslHandshakeResponse, (yield exchange))
    if response.error_code == errors.UnsupportedSaslMechanism.code:
        offered = printable(", ".join(sorted(response.mechanisms))) or "none"
        raise errors.error_from_code(
            response.error_code,
            f"{address} does not offer the SASL mechanism {mechanism}: it offers {offered}",
        )
    if response.error_code:
        raise _not_a_sasl_listener(address, response.error_code)


def _not_a_sasl_listener(address: str, code: int) -> errors.KafkaError:
    error = errors.error_from_code(code)
    if isinstance(error, errors.AuthenticationFailed):
        why = f"{address} takes no login by SASL: is security.protocol right? ({error.message})"
        return errors.error_from_code(code, why)
    return errors.error_from_code(code, f"{address} refused {SASL_HANDSHAKE.name}: {error.message}")


def _refused(address: str, login: Login, response: SaslAuthenticateResponse) -> errors.KafkaError:
    why = (
        login.refusal
        or response.error_message
        or errors.error_from_code(response.error_code).message
    )
    return errors.error_from_code(
        response.error_code,
        f"{address} refused the credentials for {login.mechanism}: {printable(why)}",
    )


def common_version(address: str, api: Api, ours: Versions, theirs: Versions | None) -> int:
    """The highest version that both sides have.

    Args:
        theirs: None when the broker does not serve ``api``.

    Raises:
        UnsupportedVersion: they have none in common.
    """
    if theirs is None:
        raise errors.UnsupportedVersion(f"the broker at {address} does not serve {api.name}")
    version = min(ours[1], theirs[1])
    if version < max(ours[0], theirs[0]):
        raise errors.UnsupportedVersion(
            f"the broker at {address} serves {api.name} {theirs[0]}-{theirs[1]}, this client "
            f"speaks {ours[0]}-{ours[1]}"
        )
    return version


def _agree_on_versions(address: str, ours: Versions) -> Handshake:
    response = yield from _ask_versions(ours[1])
    if response.error_code == errors.UnsupportedVersion.code:
        # The refusal lists the versions that the broker has. A broker from before Kafka 2.4 lists
        # none, and has version 0 (KIP-511).
        theirs = _served(response).versions.get(API_VERSIONS.key, (0, 0))
        response = yield from _ask_versions(common_version(address, API_VERSIONS, ours, theirs))
    if response.error_code:
        why = errors.error_from_code(response.error_code).message
        raise errors.error_from_code(
            response.error_code, f"{address} refused {API_VERSIONS.name}: {why}"
        )
    return _served(response)


def _ask_versions(version: int) -> Generator[HandshakeRequest, Message, ApiVersionsResponse]:
    request = ApiVersionsRequest(
        client_software_name="sharegroup", client_software_version=__version__
    )
    return cast(ApiVersionsResponse, (yield HandshakeRequest(API_VERSIONS, version, request)))


def _served(response: ApiVersionsResponse) -> Served:
    return Served(
        {key.api_key: (key.min_version, key.max_version) for key in response.api_keys},
        {
            feature.name: (feature.min_version, feature.max_version)
            for feature in response.supported_features
        },
        {one.name: one.max_version_level for one in response.finalized_features},
    )
