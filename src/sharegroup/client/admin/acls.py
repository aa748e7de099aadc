"""ACLs as the admin client takes and returns them (KIP-11, KIP-290)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sharegroup.model.acl import AclOperation, AclPattern, AclResource


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Acl:
    """Allows or denies a principal an operation on resources, from a host.

    ``principal`` is ``User:NAME``, or ``User:*`` for everybody; ``host`` an IP address, or ``*``.
    """

    principal: str
    operation: AclOperation
    resource: AclResource
    name: str
    pattern: AclPattern = AclPattern.LITERAL
    host: str = "*"
    allow: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class AclFilter:
    """Which ACLs are meant; a field that is None matches all ACLs."""

    principal: str | None = None
    operation: AclOperation | None = None
    resource: AclResource | None = None
    name: str | None = None
    pattern: AclPattern | None = None
    host: str | None = None
    allow: bool | None = None


EVERY_ACL: Final = AclFilter()
