"""The exchanges between a client and a broker before the program's first request.

A handshake is a generator: it yields one exchange, is sent the response, and so on; it returns what
the broker serves. Today it agrees on versions (ApiVersions, KIP-35 and KIP-511). A login by SASL is
more exchanges of the same kind, after ApiVersions and before :func:`handshake` returns. TLS lies
below all of it, at the socket.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import NamedTuple, cast

from sharegroup import __version__
from sharegroup.model.errors import UnsupportedVersion, error_from_code
from sharegroup.wire.apis import API_VERSIONS, Api
from sharegroup.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from sharegroup.wire.schema import Message

Versions = tuple[int, int]
"""The lowest and the highest version of an API."""


class Exchange(NamedTuple):
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
    """

    versions: Mapping[int, Versions]
    features: dict[str, tuple[int, int]]
    finalized: Mapping[str, int]


Handshake = Generator[Exchange, Message, Served]


def handshake(address: str, ours: Versions) -> Handshake:
    """All exchanges before the first request.

    Args:
        address: the broker's ``host:port``, for messages.
        ours: the versions of ApiVersions that we speak.

    Raises:
        UnsupportedVersion: broker and client have no version of ApiVersions in common.
        KafkaError: the broker refuses.
    """
    return (yield from _agree_on_versions(address, ours))


def common_version(address: str, api: Api, ours: Versions, theirs: Versions | None) -> int:
    """The highest version that both sides have.

    Args:
        theirs: None when the broker does not serve ``api``.

    Raises:
        UnsupportedVersion: there is none.
    """
    if theirs is None:
        raise UnsupportedVersion(f"the broker at {address} does not serve {api.name}")
    version = min(ours[1], theirs[1])
    if version < max(ours[0], theirs[0]):
        raise UnsupportedVersion(
            f"the broker at {address} serves {api.name} {theirs[0]}-{theirs[1]}, this client "
            f"speaks {ours[0]}-{ours[1]}"
        )
    return version


def _agree_on_versions(address: str, ours: Versions) -> Handshake:
    response = yield from _ask_versions(ours[1])
    if response.error_code == UnsupportedVersion.code:
        # The refusal says what the broker has instead. One from before Kafka 2.4 says nothing, and
        # has version 0 (KIP-511).
        theirs = _served(response).versions.get(API_VERSIONS.key, (0, 0))
        response = yield from _ask_versions(common_version(address, API_VERSIONS, ours, theirs))
    if response.error_code:
        why = error_from_code(response.error_code).message
        raise error_from_code(response.error_code, f"{address} refused {API_VERSIONS.name}: {why}")
    return _served(response)


def _ask_versions(version: int) -> Generator[Exchange, Message, ApiVersionsResponse]:
    request = ApiVersionsRequest(
        client_software_name="sharegroup", client_software_version=__version__
    )
    return cast(ApiVersionsResponse, (yield Exchange(API_VERSIONS, version, request)))


def _served(response: ApiVersionsResponse) -> Served:
    return Served(
        {key.api_key: (key.min_version, key.max_version) for key in response.api_keys},
        {
            feature.name: (feature.min_version, feature.max_version)
            for feature in response.supported_features
        },
        {one.name: one.max_version_level for one in response.finalized_features},
    )
