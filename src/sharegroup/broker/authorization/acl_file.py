"""A file of ACLs: a CSV table in Kafka's words.

::

    permission,principal,host,operation,resource_type,name,pattern
    # workers may take jobs from this one machine
    ALLOW,User:worker,10.0.0.7,READ,GROUP,workers,LITERAL
    ALLOW,User:worker,10.0.0.7,READ,TOPIC,jobs-,PREFIXED
    DENY,User:*,*,ALL,TOPIC,jobs-secret,LITERAL

Empty lines and lines that begin with ``#`` are ignored. Keywords are case-insensitive, names are
case-sensitive.
"""

from __future__ import annotations

import csv
from ipaddress import ip_address
from typing import Final

from sharegroup.broker.authorization.acls import ANY, AclRule
from sharegroup.broker.authorization.resources import (
    CLUSTER,
    SUPPORTED,
    Operation,
    Resource,
    ResourceType,
)
from sharegroup.model.acl import AclWord, with_a_meaning
from sharegroup.model.errors import ConfigError

COLUMNS: Final = (
    "permission",
    "principal",
    "host",
    "operation",
    "resource_type",
    "name",
    "pattern",
)


def parse_acls(text: str, source: str) -> list[AclRule]:
    """The ACLs of a file; ``source`` names it in errors.

    Raises:
        ConfigError: one sentence with the line's number.
    """
    acls = []
    header_seen = False
    lines = text.removeprefix("\ufeff").splitlines()  # the BOM that spreadsheets write
    reader = csv.reader(lines, skipinitialspace=True)
    for row in reader:
        cells = [cell.strip() for cell in row]
        if not any(cells) or cells[0].startswith("#"):
            continue
        if not header_seen:
            if tuple(cell.lower() for cell in cells) != COLUMNS:
                raise ConfigError(f"{source}: the first line must be {','.join(COLUMNS)}")
            header_seen = True
            continue
        try:
            acls.append(_acl(cells))
        except ValueError as error:
            raise ConfigError(f"{source}, line {reader.line_num}: {error}") from None
    return acls


def _acl(cells: list[str]) -> AclRule:
    if len(cells) != len(COLUMNS):
        raise ValueError(f"{len(COLUMNS)} columns are needed, there are {len(cells)}")
    permission, principal, host, operation, resource_type, name, pattern = cells
    if permission.upper() not in ("ALLOW", "DENY"):
        raise ValueError(f"permission {permission!r} is neither ALLOW nor DENY")
    check_principal(principal)
    if pattern.upper() not in ("LITERAL", "PREFIXED"):
        raise ValueError(f"pattern {pattern!r} is neither LITERAL nor PREFIXED")
    acl = AclRule(
        allow=permission.upper() == "ALLOW",
        principal=principal,
        host=_host(host),
        operation=_word(Operation, operation, "operation"),
        resource=Resource(_word(ResourceType, resource_type, "resource type"), name),
        prefixed=pattern.upper() == "PREFIXED",
    )
    _check_sense(acl)
    return acl


def _host(text: str) -> str:
    """The host in the form of a connection's address. Kafka accepts any text, which may then never
    match."""
    if text == ANY:
        return ANY
    try:
        return str(ip_address(text))
    except ValueError:
        raise ValueError(f"host {text!r} is neither an IP address nor * for every host") from None


def _check_sense(acl: AclRule) -> None:
    kind = acl.resource.type
    if not acl.resource.name:
        raise ValueError("the name is empty; write * with LITERAL for every resource")
    if kind is ResourceType.CLUSTER and acl.resource != CLUSTER:
        raise ValueError(f"the cluster's name is {CLUSTER.name}")
    if acl.operation is not Operation.ALL and acl.operation not in SUPPORTED[kind]:
        raise ValueError(f"a {kind.name} has no operation {acl.operation.name}")


def check_principal(text: str) -> None:
    """Raise ValueError if ``text`` is not ``Type:name``."""
    kind, colon, name = text.partition(":")
    if not (kind and colon and name):
        raise ValueError(f"principal {text!r} is not Type:name, such as User:alice")


def _word(words: type[AclWord], text: str, what: str) -> AclWord:
    known = {word.name: word for word in with_a_meaning(words)}
    found = known.get(text.upper().replace("-", "_"))
    if found is None:
        raise ValueError(f"{what} {text!r} is none of {', '.join(known)}")
    return found
