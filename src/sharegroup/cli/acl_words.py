"""ACLs in the words of the command line, which are the words of the ACL file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from sharegroup.cli.outcome import UsageError
from sharegroup.client.admin.acls import Acl
from sharegroup.model.acl import CLUSTER_NAME, AclOperation, AclResource, with_a_meaning
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
"""The columns of ``authorizer.acl.file``, in its order."""


@dataclass(frozen=True)
class ChosenResources:
    """The resources that a command names."""

    chosen: tuple[tuple[AclResource, str], ...]

    @classmethod
    def of(
        cls,
        topics: list[str] | None,
        groups: list[str] | None,
        ids: list[str] | None,
        *,
        cluster: bool,
    ) -> ChosenResources:
        """The resources that the options name."""
        named = {
            AclResource.TOPIC: topics,
            AclResource.GROUP: groups,
            AclResource.TRANSACTIONAL_ID: ids,
            AclResource.CLUSTER: [CLUSTER_NAME] if cluster else [],
        }
        return cls(tuple((kind, name) for kind, names in named.items() for name in names or ()))

    def required(self) -> tuple[tuple[AclResource, str], ...]:
        """The chosen resources.

        Raises:
            UsageError: no resource was chosen.
        """
        if not self.chosen:
            raise UsageError("say on what: --topic, --group, --transactional-id or --cluster")
        return self.chosen


def parse_operations(texts: list[str]) -> list[AclOperation]:
    """The operations of ``["read,Write", …]``.

    Raises:
        UsageError: there is no such operation.
    """
    words = [word.strip() for text in texts for word in text.split(",")]
    return [_operation(word) for word in words]


def row_of(acl: Acl) -> dict[str, Any]:
    """An ACL as a row."""
    return {
        "permission": "ALLOW" if acl.allow else "DENY",
        "principal": acl.principal,
        "host": acl.host,
        "operation": acl.operation.name,
        "resource_type": acl.resource.name,
        "name": acl.name,
        "pattern": acl.pattern.name,
    }


def unreadable(line: str, row: dict[str, Any]) -> str | None:
    """Why a broker would not read ``line`` of ``authorizer.acl.file`` as the ACL in ``row``; None:
    it would."""
    from sharegroup.broker.authorization.acl_file import parse_acls

    if any(cell != cell.strip() or len(cell.splitlines()) != 1 for cell in row.values()):
        return "in a file, names cannot have line breaks or outer blanks"
    try:
        [read] = parse_acls(f"{','.join(COLUMNS)}\n{line}", "it")
    except ConfigError as error:
        return f"a file cannot have it: {str(error).partition(': ')[2]}"
    if read.host != row["host"]:
        return f"a file would read its host {row['host']} as {read.host}"
    return None


def _operation(word: str) -> AclOperation:
    known = {each.name: each for each in with_a_meaning(AclOperation)}
    found = known.get(word.upper().replace("-", "_"))
    if found is None:
        names = ", ".join(name.lower().replace("_", "-") for name in known)
        raise UsageError(f"--operation {word}: the operations are {names}")
    return found
