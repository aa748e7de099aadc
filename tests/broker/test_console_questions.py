"""What consoles and tools ask when they start: configs of which resources, ACLs, quotas."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sharegroup.broker.network.api_table import API_TABLE
from sharegroup.broker.server import Broker
from sharegroup.model import errors
from sharegroup.wire import apis
from sharegroup.wire.codec import decode
from sharegroup.wire.framing import request_frame, response_body
from sharegroup.wire.messages.describe_acls import DescribeAclsRequest
from sharegroup.wire.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
)
from sharegroup.wire.messages.list_config_resources import ListConfigResourcesRequest
from tests.broker.authorization.clients import Clients, with_acls
from tests.broker.greedy import Greedy
from tests.broker.running import run
from tests.broker.share_wire import TOPIC, new_topic

TOPICS, BROKERS, LOGGERS, CLIENT_METRICS, GROUPS = 2, 4, 8, 16, 32
NAMED, DEFAULT, ANY_NAMED = 0, 1, 2


async def ask(port: int, api: apis.Api, request: Any, version: int | None = None) -> Any:
    """The response, by the newest version served or the given one."""
    spoken = API_TABLE[api.key].versions.last if version is None else version
    peer = await Greedy.connect(port)
    peer.send(b"".join(request_frame(api, spoken, 1, "console", request)))
    frame = await peer.answer()
    peer.close()
    return decode(api.response, spoken, frame, response_body(api, spoken, frame)[1])


@pytest.mark.parametrize(
    ("version", "kinds", "found"),
    [
        (
            1,
            [],
            [(GROUPS, "g"), (LOGGERS, "1"), (BROKERS, "1"), (TOPICS, "another"), (TOPICS, TOPIC)],
        ),
        (1, [TOPICS], [(TOPICS, "another"), (TOPICS, TOPIC)]),
        (1, [GROUPS, BROKERS], [(GROUPS, "g"), (BROKERS, "1")]),
        (1, [CLIENT_METRICS], []),
        (0, [], []),
    ],
)
def test_the_resources_with_configs(
    version: int, kinds: list[int], found: list[tuple[int, str]], tmp_path: Path
) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        await new_topic(broker, port, 1)
        await new_topic(broker, port, 1, "another")
        live = broker.parts.configs
        live.set_group("g", {"share.auto.offset.reset": "earliest"}, validate_only=False)
        live.set_group("reset", {"share.auto.offset.reset": "earliest"}, validate_only=False)
        live.set_group("reset", {}, validate_only=False)
        answer = await ask(
            port, apis.LIST_CONFIG_RESOURCES, ListConfigResourcesRequest(kinds), version
        )
        assert answer.error_code == 0
        assert [(one.resource_type, one.resource_name) for one in answer.config_resources] == found

    run(tmp_path, scenario)


def test_resources_of_an_unknown_type(tmp_path: Path) -> None:
    async def scenario(_: Broker, port: int) -> None:
        request = ListConfigResourcesRequest([TOPICS, 1])
        answer = await ask(port, apis.LIST_CONFIG_RESOURCES, request)
        assert (answer.error_code, answer.config_resources) == (errors.UnsupportedVersion.code, [])

    run(tmp_path, scenario)


def test_without_an_acl_file_security_is_disabled(tmp_path: Path) -> None:
    async def scenario(_: Broker, port: int) -> None:
        for version in (1, 2, 3):
            everything = DescribeAclsRequest(1, None, 1, None, None, 1, 1)
            answer = await ask(port, apis.DESCRIBE_ACLS, everything, version)
            assert answer.error_code == errors.SecurityDisabled.code
            assert answer.error_message == "No Authorizer is configured on the broker"

    run(tmp_path, scenario)


ACLS = [
    "ALLOW,User:ANONYMOUS,*,DESCRIBE,CLUSTER,kafka-cluster,LITERAL",
    "ALLOW,User:worker,10.0.0.7,READ,TOPIC,jobs-,PREFIXED",
    "DENY,User:*,*,ALL,TOPIC,jobs-secret,LITERAL",
    "ALLOW,User:worker,*,READ,TOPIC,*,LITERAL",
    "ALLOW,User:other,*,READ,GROUP,jobs-secret,LITERAL",
]
EVERYTHING = (1, None, 1, None, None, 1, 1)
CLUSTERS, PREFIX, SECRET, STAR, A_GROUP = range(5)


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        (EVERYTHING, {CLUSTERS, PREFIX, SECRET, STAR, A_GROUP}),
        ((2, None, 1, None, None, 1, 1), {PREFIX, SECRET, STAR}),
        ((1, None, 4, None, None, 1, 1), {PREFIX}),
        ((1, "jobs-secret", 1, None, None, 1, 1), {SECRET, A_GROUP}),
        ((2, "jobs-secret", 2, None, None, 1, 1), {PREFIX, SECRET, STAR}),
        ((2, "jobs-", 3, None, None, 1, 1), set()),
        ((1, None, 1, "User:worker", None, 1, 1), {PREFIX, STAR}),
        ((1, None, 1, None, "10.0.0.7", 1, 1), {PREFIX}),
        ((1, None, 1, None, None, 2, 1), {SECRET}),
        ((1, None, 1, None, None, 1, 3), {CLUSTERS, PREFIX, STAR, A_GROUP}),
    ],
)
def test_acls_by_filter(asked: tuple[Any, ...], found: set[int], tmp_path: Path) -> None:
    words = {2: "TOPIC", 3: "GROUP", 4: "CLUSTER"}
    operations = {2: "ALL", 3: "READ", 8: "DESCRIBE"}

    async def scenario(clients: Clients) -> None:
        answer = await clients.ask(apis.DESCRIBE_ACLS, DescribeAclsRequest(*asked))
        assert answer.error_code == 0
        lines = {
            ",".join(
                (
                    "ALLOW" if acl.permission_type == 3 else "DENY",
                    acl.principal,
                    acl.host,
                    operations[acl.operation],
                    words[of.resource_type],
                    of.resource_name,
                    "PREFIXED" if of.pattern_type == 4 else "LITERAL",
                )
            )
            for of in answer.resources
            for acl in of.acls
        }
        assert lines == {ACLS[at] for at in found}

    with_acls(tmp_path, ACLS, scenario)


@pytest.mark.parametrize("at", [0, 2, 5, 6])
def test_a_filter_with_an_unknown_element(at: int, tmp_path: Path) -> None:
    async def scenario(clients: Clients) -> None:
        asked = [*EVERYTHING]
        asked[at] = 0
        answer = await clients.ask(apis.DESCRIBE_ACLS, DescribeAclsRequest(*asked))
        assert answer.error_code == errors.InvalidRequest.code

    with_acls(tmp_path, ACLS, scenario)


INVALID, UNSUPPORTED = errors.InvalidRequest.code, errors.UnsupportedVersion.code


@pytest.mark.parametrize(
    ("components", "code"),
    [
        ([], 0),
        ([("user", ANY_NAMED, None)], 0),
        ([("user", NAMED, "u"), ("client-id", DEFAULT, None)], 0),
        ([("", NAMED, "u")], INVALID),
        ([("user", NAMED, "u"), ("user", NAMED, "v")], INVALID),
        ([("group", NAMED, "g")], UNSUPPORTED),
        ([("user", NAMED, None)], INVALID),
        ([("user", DEFAULT, "u")], INVALID),
        ([("user", ANY_NAMED, "u")], INVALID),
        ([("user", 3, None)], INVALID),
        ([("ip", ANY_NAMED, None), ("user", ANY_NAMED, None)], INVALID),
    ],
)
def test_there_are_no_quotas(
    components: list[tuple[str, int, str | None]], code: int, tmp_path: Path
) -> None:
    async def scenario(_: Broker, port: int) -> None:
        request = DescribeClientQuotasRequest([ComponentData(*one) for one in components])
        for version in (0, 1):
            answer = await ask(port, apis.DESCRIBE_CLIENT_QUOTAS, request, version)
            assert answer.error_code == code
            assert answer.entries == (None if code else [])

    run(tmp_path, scenario)
