"""UpdateFeatures: confirms a level that is in force, and refuses every other level, because levels
are fixed or come from a setting (KIP-584, KIP-778; Kafka class FeatureControlManager)."""

from __future__ import annotations

from typing import Final

from sharegroup.broker.authorization.resources import CLUSTER, Operation
from sharegroup.broker.features import FEATURES, SHARE_VERSION, finalized
from sharegroup.broker.parts import BrokerParts
from sharegroup.broker.request_context import RequestContext
from sharegroup.broker.time_slices import sliced
from sharegroup.model.errors import InvalidUpdateVersion
from sharegroup.model.limits import FEATURE_NAME_SHOWN_MAX
from sharegroup.wire.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

UPGRADE: Final = 1
SAFE_DOWNGRADE: Final = 2
UNSAFE_DOWNGRADE: Final = 3

_NOTHING_SAID: Final = "NONE"
"""Kafka's message for a feature without an error."""


async def update_features(
    parts: BrokerParts, request: UpdateFeaturesRequest, context: RequestContext
) -> UpdateFeaturesResponse:
    """Succeeds if each feature has its level already. If a feature is named twice, the last level
    counts.

    Raises:
        InvalidUpdateVersion: a feature has another level. Where Kafka refuses too, the message is
            Kafka's.
    """
    context.access.require(Operation.ALTER, CLUSTER)
    levels = finalized(parts.share_version)
    updates = {update.feature: update async for update in sliced(request.feature_updates)}
    for update in updates.values():
        why = _why_not(update, levels.get(update.feature, 0), parts.node_id)
        if why:
            raise InvalidUpdateVersion(
                "The update failed for all features since the following feature had an error: "
                f"Invalid update version {update.max_version_level} for feature "
                f"{_shown(update.feature)}. "
                f"{why}"
            )
    results = [
        UpdatableFeatureResult(update.feature, error_message=_NOTHING_SAID)
        for update in request.feature_updates
    ]
    return UpdateFeaturesResponse(error_message=None, results=results)


def _why_not(update: FeatureUpdateKey, current: int, node_id: int) -> str:
    """Why a feature cannot have this level; empty if it has this level."""
    level, kind = update.max_version_level, update.upgrade_type
    if update.allow_downgrade:
        kind = SAFE_DOWNGRADE
    if kind not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        return "The controller does not support the given upgrade type."
    unknown = _unknown(update.feature, level, node_id)
    if unknown or level == current:
        return unknown
    if level < current and kind == UPGRADE:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to "
            "either safe or unsafe downgrade."
        )
    if level > current and kind != UPGRADE:
        return "Can't downgrade to a newer version."
    if update.feature == SHARE_VERSION:
        return f"It is a setting: start the broker with {SHARE_VERSION}={level}."
    return f"Its level is fixed here: {current}."


def _shown(feature: str) -> str:
    cut = feature[:FEATURE_NAME_SHOWN_MAX]
    return cut if cut == feature else f"{cut}…"


def _unknown(feature: str, level: int, node_id: int) -> str:
    """Why there is no such level; empty if the level exists."""
    if level < 0:
        return "A feature version cannot be less than 0."
    if feature not in FEATURES:
        if level == 0:
            return f"Feature {_shown(feature)} not found."
        return f"Local controller {node_id} does not support this feature."
    first, last = FEATURES[feature]
    if first <= level <= last:
        return ""
    return f"Local controller {node_id} only supports versions {first}-{last}"
