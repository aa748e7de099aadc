"""share.version: what ApiVersions announces, and share groups switched off."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sharegroup.broker.network.api_table import NEEDS_SHARE_VERSION
from sharegroup.broker.server import Broker
from sharegroup.model.errors import UnsupportedVersion
from sharegroup.wire import apis
from sharegroup.wire.messages import describe_share_group_offsets as offsets
from sharegroup.wire.messages.alter_share_group_offsets import AlterShareGroupOffsetsRequest
from sharegroup.wire.messages.api_versions import ApiVersionsRequest
from sharegroup.wire.messages.delete_share_group_offsets import DeleteShareGroupOffsetsRequest
from sharegroup.wire.messages.share_acknowledge import ShareAcknowledgeRequest
from sharegroup.wire.messages.share_fetch import ShareFetchRequest
from sharegroup.wire.messages.share_group_describe import ShareGroupDescribeRequest
from sharegroup.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.broker.by_hand import TIMEOUT_MS, connect
from tests.broker.running import run

GROUP_OFFSETS = offsets.DescribeShareGroupOffsetsRequestGroup("g", None)
REQUESTS: list[tuple[apis.Api, Any]] = [
    (apis.SHARE_GROUP_HEARTBEAT, ShareGroupHeartbeatRequest("g", "m", 0, None, ["jobs"])),
    (apis.SHARE_GROUP_DESCRIBE, ShareGroupDescribeRequest(["g"])),
    (apis.SHARE_FETCH, ShareFetchRequest("g", "m", 0, 0, 1, 1, 1, 1)),
    (apis.SHARE_ACKNOWLEDGE, ShareAcknowledgeRequest("g", "m", 1)),
    (apis.DESCRIBE_SHARE_GROUP_OFFSETS, offsets.DescribeShareGroupOffsetsRequest([GROUP_OFFSETS])),
    (apis.ALTER_SHARE_GROUP_OFFSETS, AlterShareGroupOffsetsRequest("g")),
    (apis.DELETE_SHARE_GROUP_OFFSETS, DeleteShareGroupOffsetsRequest("g")),
]


@pytest.mark.parametrize(
    ("level", "options"), [(2, []), (1, ["share.version=1"]), (0, ["share.version=0"])]
)
def test_the_level_is_announced(tmp_path: Path, level: int, options: list[str]) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        connection = await connect(port)
        response = await connection.send(
            apis.API_VERSIONS, ApiVersionsRequest("tests", "1"), timeout_ms=TIMEOUT_MS
        )
        (supported,) = [f for f in response.supported_features if f.name == "share.version"]
        assert (supported.min_version, supported.max_version) == (0, 2)
        finalized = {f.name: f.max_version_level for f in response.finalized_features}
        assert finalized.get("share.version", 0) == level

    run(tmp_path, scenario, *options)


def test_level_0_refuses_the_requests_of_share_groups(tmp_path: Path) -> None:
    assert {api.key for api, _ in REQUESTS} == NEEDS_SHARE_VERSION

    async def scenario(broker: Broker, port: int) -> None:
        connection = await connect(port)
        for api, request in REQUESTS:
            response = await connection.send(api, request, timeout_ms=TIMEOUT_MS)
            told = getattr(response, "error_code", 0) or response.groups[0].error_code
            assert told == UnsupportedVersion.code, api.name

    run(tmp_path, scenario, "share.version=0")
