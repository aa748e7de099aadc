"""ApiVersions: the APIs and versions that we serve, and the features (KIP-511, KIP-584).

A client that wants another node or cluster is sent back to its bootstrap servers (KIP-1242).
"""

from __future__ import annotations

import re
from typing import Final

from sharegroup.broker.features import finalized, supported
from sharegroup.broker.parts import BrokerParts
from sharegroup.broker.request_context import RequestContext
from sharegroup.model.errors import InvalidRequest, RebootstrapRequired
from sharegroup.wire.messages.api_versions import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

ZERO_FROM: Final = 4
"""From this version on clients take a feature whose lowest level is 0. Java's of 3.3 to 3.7 fail
for good, and Kafka leaves such features out (KIP-1022, KAFKA-17011)."""
SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


async def api_versions(
    parts: BrokerParts, request: ApiVersionsRequest, context: RequestContext
) -> ApiVersionsResponse:
    """Answer with the API table and the feature levels.

    Raises:
        InvalidRequest: the name or version of the client's software is no word, or the client names
            a cluster without a node or a node without a cluster.
        RebootstrapRequired: the client names another node or another cluster.
    """
    if context.version >= 3:
        for text in (request.client_software_name, request.client_software_version):
            if not SOFTWARE.fullmatch(text):
                raise InvalidRequest(f"{text!r} is no client software name or version")
    _check_destination(parts, request)
    levels = finalized(parts.share_version)
    possible = {name: last for name, (_, last) in supported(parts.share_version).items()}
    if parts.passing is not None:
        levels, possible = parts.passing.levels(levels), parts.passing.levels(possible)
    return ApiVersionsResponse(
        api_keys=list(parts.served_apis),
        supported_features=[
            SupportedFeatureKey(name, first, possible[name])
            for name, (first, _) in supported(parts.share_version).items()
            if name in possible and (first or context.version >= ZERO_FROM)
        ],
        finalized_features_epoch=0,
        finalized_features=[
            FinalizedFeatureKey(name, max_version_level=level, min_version_level=level)
            for name, level in levels.items()
            if level
        ],
    )


def _check_destination(parts: BrokerParts, request: ApiVersionsRequest) -> None:
    wanted = request.cluster_id, request.node_id
    if (wanted[0] is None) != (wanted[1] == -1):
        raise InvalidRequest("cluster and node id are named both or not at all")
    if wanted[0] is not None and wanted != (parts.topics.cluster_id, parts.node_id):
        raise RebootstrapRequired
