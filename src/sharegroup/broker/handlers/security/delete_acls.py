"""DeleteAcls: delete ACLs by filters, durably (Kafka classes AclApis, AclControlManager)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sharegroup.broker.authorization.acl_rows import AclRowFilter, row_of
from sharegroup.broker.authorization.audit import tell_changes
from sharegroup.broker.authorization.resources import CLUSTER, Operation
from sharegroup.broker.coordination.security_machine import SecurityMachine
from sharegroup.broker.handlers.security.create_acls import check_stored
from sharegroup.broker.parts import BrokerParts
from sharegroup.broker.request_context import RequestContext
from sharegroup.broker.time_slices import sliced
from sharegroup.model.errors import InvalidRequest, PolicyViolation
from sharegroup.model.limits import ACL_CHANGES_MAX, ACL_FILTERS_MAX
from sharegroup.wire.internal.security import AclChange, AclRow
from sharegroup.wire.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)


async def delete_acls(
    parts: BrokerParts, request: DeleteAclsRequest, context: RequestContext
) -> DeleteAclsResponse:
    """The ACLs that each filter has deleted. An ACL of the file stays; it is listed with an error.

    Raises:
        SecurityDisabled: no ACLs are stored here.
        PolicyViolation: more ACLs than ACL_CHANGES_MAX, or more filters than ACL_FILTERS_MAX.
    """
    context.access.require(Operation.ALTER, CLUSTER)
    check_stored(parts)
    filters = [_filter(each) for each in request.filters]
    wide = {each for each in filters if each.exact is None}
    if len(filters) > ACL_CHANGES_MAX or len(wide) > ACL_FILTERS_MAX:
        raise PolicyViolation("Unable to perform excessively large batch operation.")
    in_file = dict.fromkeys(map(row_of, parts.access_rules.file_acls))
    stays = f"This ACL stays in force: it is in {parts.access_rules.file}; delete it there."

    async def decide(machine: SecurityMachine) -> tuple[list[list[AclRow]], Sequence[AclChange]]:
        found = await _taken(machine.acl_ids, filters, wide)
        if sum(map(len, found)) > ACL_CHANGES_MAX:
            raise PolicyViolation(
                f"Cannot remove more than {ACL_CHANGES_MAX} acls in a single delete operation."
            )
        gone = dict.fromkeys(acl for acls in found for acl in acls)
        return found, [AclChange(machine.acl_ids[acl], None) for acl in gone]

    deleted = await parts.security.change_acls(decide)
    different = dict.fromkeys(acl for acls in deleted for acl in acls)
    access = context.access
    tell_changes(access.principal, access.host, "deleted an ACL", list(different))
    results = []
    stay = await _taken(in_file, filters, wide)
    async for each, gone, kept in sliced(zip(filters, deleted, stay, strict=True)):
        wrong = _why_wrong(each)
        result = DeleteAclsFilterResult(InvalidRequest.code if wrong else 0, wrong or None)
        result.matching_acls = [
            *(DeleteAclsMatchingAcl(0, None, *acl) for acl in gone),
            *(DeleteAclsMatchingAcl(PolicyViolation.code, stays, *acl) for acl in kept),
        ]
        results.append(result)
    return DeleteAclsResponse(filter_results=results)


async def _taken(
    acls: Mapping[AclRow, object], filters: Sequence[AclRowFilter], wide: set[AclRowFilter]
) -> list[list[AclRow]]:
    """The ACLs that each filter takes; a filter that is wrong takes no ACL."""
    every = list(acls) if wide else []
    scanned = {each: [acl async for acl in sliced(every) if each.takes(acl)] for each in wide}
    found: list[list[AclRow]] = []
    async for each in sliced(filters):
        exact = each.exact
        if _why_wrong(each):
            found.append([])
        elif exact is None:
            found.append(scanned[each])
        else:
            found.append([exact] if exact in acls else [])
    return found


def _why_wrong(wanted: AclRowFilter) -> str:
    """Why a filter is wrong, in Kafka's words; empty: it is right."""
    if wanted.unknown_pattern:
        return "Unknown patternFilter."
    return "Unknown entryFilter." if wanted.unknown_entry else ""


def _filter(wanted: DeleteAclsFilter) -> AclRowFilter:
    return AclRowFilter(
        wanted.resource_type_filter,
        wanted.resource_name_filter,
        wanted.pattern_type_filter,
        wanted.principal_filter,
        wanted.host_filter,
        wanted.operation,
        wanted.permission_type,
    )
