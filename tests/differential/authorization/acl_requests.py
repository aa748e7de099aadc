"""What is said to ACLs and filters as they may and may not be, and the differences that are meant
(`acl_differences.csv`)."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from sharegroup.wire import apis
from sharegroup.wire.apis import Api
from sharegroup.wire.messages.create_acls import AclCreation, CreateAclsRequest
from sharegroup.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from sharegroup.wire.messages.describe_acls import DescribeAclsRequest
from tests.differential.authorization.servers_asked import Server

TABLE = Path(__file__).with_name("acl_differences.csv")


class Row(NamedTuple):
    """An ACL or a filter, in the protocol's numbers."""

    resource_type: int = 2
    name: str | None = "t"
    pattern: int = 3
    principal: str | None = "User:alice"
    host: str | None = "*"
    operation: int = 3
    permission: int = 3


ANY = Row(1, None, 1, None, None, 1, 1)
MADE = (
    Row(),
    Row(),  # again
    Row(permission=2, host="10.0.0.1"),
    Row(name="*"),
    Row(name="t-", pattern=4),
    Row(3, "g", operation=2),
    Row(4, "kafka-cluster", operation=7),
    Row(5, "id", operation=4),
    Row(6, "token", operation=8),
    Row(7, "User:bob", operation=13),
    Row(3, "g", operation=4),  # a group has no WRITE
    Row(host="no.address"),
    Row(host=""),
    Row(principal="User:"),
    Row(principal="Group:staff"),
    Row(principal="User:a:b"),
    Row(name="ä/ö"),
    Row(operation=15),
)
"""Made one by one, before anything else is asked."""
ODD = (
    Row(4, "mine"),
    Row(4, ""),
    Row(name=""),
    Row(1),
    Row(99),
    Row(pattern=1),
    Row(pattern=2),
    Row(pattern=9),
    Row(operation=1),
    Row(operation=99),
    Row(permission=1),
    Row(permission=9),
    Row(principal=""),
    Row(principal="alice"),
    Row(0),
    Row(operation=0),
)
FILTERS = (
    ANY,
    ANY._replace(resource_type=2),
    ANY._replace(resource_type=2, name="t"),
    ANY._replace(resource_type=2, name="t", pattern=3),
    ANY._replace(resource_type=2, name="t", pattern=2),
    ANY._replace(resource_type=2, name="t-1", pattern=2),
    ANY._replace(resource_type=2, name="*", pattern=2),
    ANY._replace(name="t-1", pattern=4),
    ANY._replace(name="t-", pattern=4),
    ANY._replace(pattern=4),
    ANY._replace(principal="User:alice"),
    ANY._replace(principal="User:nobody"),
    ANY._replace(host="*"),
    ANY._replace(host="10.0.0.1"),
    ANY._replace(operation=3),
    ANY._replace(operation=2),
    ANY._replace(permission=2),
    ANY._replace(name=""),
    Row(),
    ANY._replace(resource_type=99),
    ANY._replace(pattern=99),
    ANY._replace(operation=99),
    ANY._replace(permission=99),
)
DELETED = (
    (Row(name="none"),),
    (ANY._replace(pattern=99),),
    (ANY._replace(operation=99),),
    (ANY._replace(resource_type=2, name="t-1", pattern=2, principal="User:alice"), Row(3, "x")),
    (Row(3, "g", operation=2), Row(3, "g", operation=2)),
    (ANY._replace(resource_type=0),),
    (ANY._replace(principal="User:alice"), ANY._replace(principal="User:alice", resource_type=7)),
)


@dataclass(frozen=True)
class Difference:
    """A row of the table."""

    asked: str
    kafka: str
    ours: str
    why: str


def differences() -> list[Difference]:
    with TABLE.open(newline="", encoding="utf-8") as rows:
        return [Difference(**row) for row in csv.DictReader(rows)]


def questions() -> Iterator[tuple[str, Api, Any]]:
    """Each request with its name."""
    for row in (*MADE, *ODD):
        yield f"create {tuple(row)}", apis.CREATE_ACLS, CreateAclsRequest([AclCreation(*row)])
    several = [AclCreation(*row) for row in (Row(name="one"), Row(name=""), Row(name="two"))]
    yield "create several", apis.CREATE_ACLS, CreateAclsRequest(several)
    for row in FILTERS:
        yield f"describe {tuple(row)}", apis.DESCRIBE_ACLS, DescribeAclsRequest(*row)
    for rows in DELETED:
        filters = [DeleteAclsFilter(*row) for row in rows]
        name = " and ".join(str(tuple(row)) for row in rows)
        yield f"delete {name}", apis.DELETE_ACLS, DeleteAclsRequest(filters)
    yield "describe what is left", apis.DESCRIBE_ACLS, DescribeAclsRequest(*ANY)


async def said(server: Server) -> dict[str, str]:
    """What a server says to each, after it knows of all changes before."""
    answers: dict[str, str] = {}
    for name, api, request in questions():
        if api == apis.DESCRIBE_ACLS:
            await server.settle()
        answers[name] = _line(await server.admin.ask(api, 3, request))
    return answers


def _line(answer: Any) -> str:
    if answer is None:
        return "closed"
    if hasattr(answer, "results"):
        return "; ".join(_error(each) for each in answer.results)
    if hasattr(answer, "filter_results"):
        return "; ".join(
            _error(each) + "".join(sorted(f" {_acl(acl)}" for acl in each.matching_acls))
            for each in answer.filter_results
        )
    lines = sorted(
        f"{each.resource_type} {each.resource_name} {each.pattern_type} {acl.principal} {acl.host} "
        f"{acl.operation} {acl.permission_type}"
        for each in answer.resources
        for acl in each.acls
    )
    return ", ".join([_error(answer), *lines])


def _error(each: Any) -> str:
    return f"{each.error_code} {each.error_message or ''}".strip()


def _acl(acl: Any) -> str:
    return (
        f"[{acl.error_code} {acl.resource_type} {acl.resource_name} {acl.pattern_type} "
        f"{acl.principal} {acl.host} {acl.operation} {acl.permission_type}]"
    )
