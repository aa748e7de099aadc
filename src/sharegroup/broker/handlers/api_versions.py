"""ApiVersions: the APIs served here, and the features (KIP-511, KIP-584)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sharegroup.broker.network.context import RequestContext
from sharegroup.broker.network.dispatch import api_versions as served_versions
from sharegroup.broker.network.features import FEATURES, finalized
from sharegroup.model.errors import InvalidRequest
from sharegroup.wire.messages.api_versions import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

if TYPE_CHECKING:
    from sharegroup.broker.server import Broker

SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


async def api_versions(
    broker: Broker, request: ApiVersionsRequest, context: RequestContext
) -> ApiVersionsResponse:
    """Answer with the API table and the feature levels."""
    if context.version >= 3:
        for text in (request.client_software_name, request.client_software_version):
            if not SOFTWARE.fullmatch(text):
                raise InvalidRequest(f"{text!r} is no client software name or version")
    return ApiVersionsResponse(
        api_keys=served_versions(),
        supported_features=[
            SupportedFeatureKey(name, first, last) for name, (first, last) in FEATURES.items()
        ],
        finalized_features_epoch=0,
        finalized_features=[
            FinalizedFeatureKey(name, max_version_level=level, min_version_level=level)
            for name, level in finalized(broker.share_version).items()
        ],
    )
