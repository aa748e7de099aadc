"""ApiVersions tells a client that it has reached another node or cluster than it wanted."""

from __future__ import annotations

from pathlib import Path

import pytest

from sharegroup.broker.server import Broker
from sharegroup.model.errors import InvalidRequest, RebootstrapRequired
from sharegroup.wire import apis
from sharegroup.wire.codec import decode
from sharegroup.wire.framing import response_body
from sharegroup.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tests.broker.greedy import Greedy, frame
from tests.broker.running import run

HERE = "this cluster"
NODE = 1


@pytest.mark.parametrize(
    ("cluster_id", "node_id", "error_code"),
    [
        pytest.param(None, -1, 0, id="nobody in particular"),
        pytest.param(HERE, NODE, 0, id="this node"),
        pytest.param("another", NODE, RebootstrapRequired.code, id="another cluster"),
        pytest.param(HERE, NODE + 1, RebootstrapRequired.code, id="another node"),
        pytest.param(HERE, -1, InvalidRequest.code, id="a cluster without a node"),
        pytest.param(None, NODE, InvalidRequest.code, id="a node without a cluster"),
    ],
)
def test_a_client_that_expects_another_node_gets_an_error(
    tmp_path: Path, cluster_id: str | None, node_id: int, error_code: int
) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        assert broker.parts.node_id == NODE
        wanted = broker.parts.topics.cluster_id if cluster_id == HERE else cluster_id
        response = await ask(port, 5, ApiVersionsRequest("tests", "1", wanted, node_id))
        assert response.error_code == error_code
        assert bool(response.api_keys) == (not error_code)

    run(tmp_path, scenario)


def test_before_version_5_no_node_is_expected(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        response = await ask(port, 4, ApiVersionsRequest("tests", "1", "another", NODE))
        assert response.error_code == 0

    run(tmp_path, scenario)


def test_java_before_3_8_is_told_of_no_feature_that_begins_at_0(tmp_path: Path) -> None:
    """Its ``SupportedVersionRange`` takes no level below 1, and the client ends."""

    async def scenario(broker: Broker, port: int) -> None:
        told = await ask(port, 3, ApiVersionsRequest("tests", "1"))
        assert not [one for one in told.supported_features if one.min_version < 1]
        assert all(one.min_version_level >= 1 for one in told.finalized_features)
        later = await ask(port, 4, ApiVersionsRequest("tests", "1"))
        assert [one for one in later.supported_features if one.min_version < 1]

    run(tmp_path, scenario)


async def ask(port: int, version: int, request: ApiVersionsRequest) -> ApiVersionsResponse:
    peer = await Greedy.connect(port)
    peer.send(frame(apis.API_VERSIONS, version, request))
    answer = await peer.answer()
    peer.close()
    _, position = response_body(apis.API_VERSIONS, version, answer)
    return decode(ApiVersionsResponse, version, answer, position)
