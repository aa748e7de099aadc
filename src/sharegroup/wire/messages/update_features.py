"""UpdateFeatures (API key 57).

Source: Kafka's message definitions UpdateFeaturesRequest.json, UpdateFeaturesResponse.json.
"""

from __future__ import annotations

from collections.abc import Sequence

from sharegroup.wire.schema import Message, array, boolean, i8, i16, i32, message, string


@message
class FeatureUpdateKey(Message):
    """A feature, and the level that it shall have."""

    feature: str = string()
    max_version_level: int = i16()
    allow_downgrade: bool = boolean("0")
    upgrade_type: int = i8("1+", default=1)


@message
class UpdateFeaturesRequest(Message):
    """UpdateFeaturesRequest, versions 0-2."""

    FLEXIBLE = 0

    timeout_ms: int = i32(default=60000)
    feature_updates: Sequence[FeatureUpdateKey] = array(FeatureUpdateKey)
    validate_only: bool = boolean("1+")


@message
class UpdatableFeatureResult(Message):
    """Whether one feature has got its level."""

    feature: str = string()
    error_code: int = i16()
    error_message: str | None = string(nullable="0+")


@message
class UpdateFeaturesResponse(Message):
    """UpdateFeaturesResponse, versions 0-2."""

    FLEXIBLE = 0

    throttle_time_ms: int = i32()
    error_code: int = i16()
    error_message: str | None = string(nullable="0+")
    results: Sequence[UpdatableFeatureResult] = array(UpdatableFeatureResult, "0-1")
