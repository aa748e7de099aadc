"""ApiVersions (API key 18).

Source: Kafka's message definitions ApiVersionsRequest.json, ApiVersionsResponse.json.
"""

from __future__ import annotations

from collections.abc import Sequence

from sharegroup.wire.schema import Message, array, boolean, i16, i32, i64, message, string


@message
class ApiVersionsRequest(Message):
    """ApiVersionsRequest, versions 0-5.

    ``cluster_id`` and ``node_id`` say whom the client wants to reach (KIP-1242): both, or neither.
    """

    FLEXIBLE = 3

    client_software_name: str = string("3+")
    client_software_version: str = string("3+")
    cluster_id: str | None = string("5+", nullable="5+", default=None)
    node_id: int = i32("5+", default=-1)


@message
class ApiVersion(Message):
    """An API, and the versions of it that the broker serves."""

    api_key: int = i16()
    min_version: int = i16()
    max_version: int = i16()


@message
class SupportedFeatureKey(Message):
    """A feature, and the levels of it that the broker supports."""

    name: str = string("3+")
    min_version: int = i16("3+")
    max_version: int = i16("3+")


@message
class FinalizedFeatureKey(Message):
    """A feature, and its level in force in the cluster."""

    name: str = string("3+")
    max_version_level: int = i16("3+")
    min_version_level: int = i16("3+")


@message
class ApiVersionsResponse(Message):
    """ApiVersionsResponse, versions 0-5."""

    FLEXIBLE = 3

    error_code: int = i16()
    api_keys: Sequence[ApiVersion] = array(ApiVersion)
    throttle_time_ms: int = i32("1+")
    supported_features: Sequence[SupportedFeatureKey] = array(SupportedFeatureKey, "3+", tag=0)
    finalized_features_epoch: int = i64("3+", default=-1, tag=1)
    finalized_features: Sequence[FinalizedFeatureKey] = array(FinalizedFeatureKey, "3+", tag=2)
    zk_migration_ready: bool = boolean("3+", tag=3)
