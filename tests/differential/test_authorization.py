"""Every API under many lists of ACLs, and ACLs as they may and may not be: our broker and Apache
Kafka with its StandardAuthorizer answer with the same error codes, and leave out the same."""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest

from sharegroup.broker.network.api_table import API_TABLE
from sharegroup.wire import apis
from tests.apache_kafka.broker import KafkaBroker
from tests.differential.authorization.acl_requests import differences, said
from tests.differential.authorization.asked import ASKED
from tests.differential.authorization.servers_asked import (
    NOT_YET,
    Server,
    lists_of_acls,
    outline,
)
from tests.servers.sharegroup_server import SharegroupServer

T = TypeVar("T")
OPTIONS = (
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found=true",  # until the administrator has made the first ACLs
    "auto.create.topics.enable=false",
    "log.retention.ms=-1",  # the records are from 1970, and Kafka looks after thirty seconds
)
OPEN = {apis.API_VERSIONS, apis.SASL_HANDSHAKE, apis.SASL_AUTHENTICATE}
"""Asked by everybody, and so not asked about here."""
SERVED = [asked for asked in ASKED if asked.api.key in API_TABLE]


@contextmanager
def both(folder: Path) -> Iterator[tuple[list[int], list[int]]]:
    """The ports of our broker, and of Kafka's broker and controller."""
    with (
        SharegroupServer(folder / "ours", "group.initial.rebalance.delay.ms=0", *OPTIONS) as ours,
        KafkaBroker(folder / "kafka", *OPTIONS) as kafka,
    ):
        settings = (folder / "kafka" / "server.properties").read_text()
        found = re.search(r"CONTROLLER://127\.0\.0\.1:(\d+)", settings)
        assert found is not None
        yield [int(ours.bootstrap.rpartition(":")[2])], [kafka.port, int(found[1])]


async def matrix(server: Server) -> dict[tuple[str, str], Any]:
    """(list of ACLs, request) → what is seen by everybody."""
    await server.prepare()
    seen = {}
    for name, acls in lists_of_acls():
        await server.renew()
        await server.set_acls(acls)
        for asked in SERVED:
            while True:
                request = asked.of(server.ids)
                answer = await server.everybody.ask(asked.api, asked.version, request)
                if getattr(answer, "error_code", 0) not in NOT_YET:
                    break
                await asyncio.sleep(0.1)
            seen[name, asked.name] = outline(answer)
            if (
                asked.api is apis.DELETE_TOPICS
            ):  # Kafka's controller answers before its broker knows
                await server.settle()
    return seen


async def of_both(ports: tuple[list[int], list[int]], ask: Any) -> tuple[Any, Any]:
    """What both say, one after the other."""
    found = []
    for own in ports:
        server = Server(own)
        found.append(await ask(server))
        server.close()
    return found[0], found[1]


@pytest.mark.kafka
def test_every_api_under_every_operation_as_in_kafka(tmp_path: Path) -> None:
    with both(tmp_path) as ports:
        ours, kafkas = asyncio.run(of_both(ports, matrix))
    different = [
        f"{' | '.join(key)}: Kafka {kafkas[key]}, ours {ours[key]}"
        for key in kafkas
        if ours[key] != kafkas[key]
    ]
    assert not different, "\n".join(different)
    by_request = defaultdict(set)
    for (_, request), answer in ours.items():
        by_request[request].add(repr(answer))
    for request, answers in by_request.items():
        assert len(answers) > 1, f"{request}: allowed and denied look the same"


def test_every_api_is_asked_about() -> None:
    asked = {asked.api for asked in ASKED} | OPEN
    assert {row.api for row in API_TABLE.values()} <= asked


@pytest.mark.kafka
def test_acls_are_made_found_and_deleted_as_in_kafka(tmp_path: Path) -> None:
    async def ask(server: Server) -> dict[str, str]:
        await server.give_administrator_all_rights()
        return await said(server)

    with both(tmp_path) as ports:
        ours, kafkas = asyncio.run(of_both(ports, ask))
    rows = {row.asked: row for row in differences()}
    unexplained = []
    used = set()
    for asked, wanted in kafkas.items():
        if ours[asked] == wanted:
            continue
        row = rows.get(asked)
        if row is None or (row.kafka, row.ours) != (wanted, ours[asked]):
            unexplained.append(f"{asked}: Kafka {wanted!r}, ours {ours[asked]!r}")
        used.add(asked)
    assert not unexplained, "\n".join(unexplained)
    assert used == rows.keys(), "a row explains nothing"
