"""The authorizer beside a naive model of Kafka's rules: all ACLs are looked at for each question
(Kafka classes StandardAuthorizerData and Authorizer, authorizeByResourceType)."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from sharegroup.broker.authorization.acl_authorizer import AclAuthorizer
from sharegroup.broker.authorization.acl_index import AclIndex
from sharegroup.broker.authorization.acls import AclRule
from sharegroup.broker.authorization.resources import Operation, Resource, ResourceType
from sharegroup.model.acl import with_a_meaning

TYPES = (ResourceType.TOPIC, ResourceType.GROUP)
NAMES = ("*", "a", "ab", "abc", "b", "hard", "hardcode", "*x")
PRINCIPALS = ("User:*", "User:alice", "User:bob")
HOSTS = ("*", "10.0.0.1", "10.0.0.2")
IMPLIES = {
    Operation.DESCRIBE: {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER},
    Operation.DESCRIBE_CONFIGS: {Operation.ALTER_CONFIGS},
}

acls = st.builds(
    AclRule,
    allow=st.booleans(),
    principal=st.sampled_from(PRINCIPALS),
    host=st.sampled_from(HOSTS),
    operation=st.sampled_from(with_a_meaning(Operation)),
    resource=st.builds(Resource, st.sampled_from(TYPES), st.sampled_from(NAMES)),
    prefixed=st.booleans(),
)
few_operations = st.sampled_from([Operation.ALL, Operation.READ, Operation.WRITE])
narrow_acls = st.builds(
    AclRule,
    allow=st.booleans(),
    principal=st.sampled_from(PRINCIPALS),
    host=st.sampled_from(HOSTS),
    operation=few_operations,
    resource=st.builds(Resource, st.sampled_from(TYPES), st.sampled_from(NAMES)),
    prefixed=st.booleans(),
)
asked = st.tuples(
    st.sampled_from(PRINCIPALS[1:]),
    st.sampled_from(HOSTS[1:]),
    st.sampled_from([each for each in with_a_meaning(Operation) if each is not Operation.ALL]),
    st.builds(Resource, st.sampled_from(TYPES), st.sampled_from(NAMES)),
)


def covers(acl: AclRule, resource: Resource) -> bool:
    if acl.resource.type != resource.type:
        return False
    if acl.prefixed:
        return resource.name.startswith(acl.resource.name)
    return acl.resource.name in ("*", resource.name)


def speaks(acl: AclRule, principal: str, host: str, operation: Operation) -> bool:
    if acl.principal not in ("User:*", principal) or acl.host not in ("*", host):
        return False
    if acl.operation in (Operation.ALL, operation):
        return True
    return acl.allow and acl.operation in IMPLIES.get(operation, ())


def model(
    acls: Iterable[AclRule],
    question: tuple[str, str, Operation, Resource],
    *,
    otherwise: bool,
) -> bool:
    principal, host, operation, resource = question
    of_resource = [acl for acl in acls if covers(acl, resource)]
    if not of_resource:
        return otherwise
    speaking = [acl for acl in of_resource if speaks(acl, principal, host, operation)]
    return bool(speaking) and all(acl.allow for acl in speaking)


def model_any(
    acls: list[AclRule],
    principal: str,
    host: str,
    operation: Operation,
    kind: ResourceType,
    *,
    otherwise: bool,
) -> bool:
    if model(acls, (principal, host, operation, Resource(kind, "hardcode")), otherwise=otherwise):
        return True
    own = [
        acl
        for acl in acls
        if acl.resource.type == kind
        and acl.operation in (Operation.ALL, operation)
        and acl.principal in ("User:*", principal)
        and acl.host in ("*", host)
    ]
    denies = [acl for acl in own if not acl.allow]
    if any(deny.resource.name == "*" and not deny.prefixed for deny in denies):
        return False
    for acl in own:
        name = acl.resource.name
        if not acl.allow:
            continue
        if name == "*" and not acl.prefixed:
            return True
        if not acl.prefixed and any(
            not deny.prefixed and deny.resource.name == name for deny in denies
        ):
            continue
        if any(deny.prefixed and name.startswith(deny.resource.name) for deny in denies):
            continue
        return True
    return False


@given(st.lists(acls, max_size=12), st.lists(asked, min_size=1, max_size=5), st.booleans())
def test_questions_are_answered_as_by_a_look_at_all_acls(
    some: list[AclRule], questions: list[tuple[str, str, Operation, Resource]], otherwise: bool
) -> None:
    authorizer = AclAuthorizer(some, allow_if_no_acl=otherwise)
    for question in questions:
        assert authorizer.authorize(*question) == model(some, question, otherwise=otherwise)


@given(
    st.lists(narrow_acls, max_size=8),
    st.sampled_from([Operation.READ, Operation.WRITE]),
    st.booleans(),
)
def test_any_resource_as_by_a_look_at_all_acls(
    some: list[AclRule], operation: Operation, otherwise: bool
) -> None:
    authorizer = AclAuthorizer(some, allow_if_no_acl=otherwise)
    for principal in PRINCIPALS[1:]:
        question = (principal, "10.0.0.1", operation, ResourceType.TOPIC)
        assert authorizer.authorize_any(*question) == model_any(
            some, *question, otherwise=otherwise
        )


@given(st.lists(acls, max_size=12), st.data())
def test_an_index_that_has_changed_is_like_a_new_one(
    some: list[AclRule], data: st.DataObject
) -> None:
    index = AclIndex(some)
    left = list(some)
    for _ in range(data.draw(st.integers(0, len(some)))):
        gone = data.draw(st.sampled_from(left))
        left.remove(gone)
        index.remove(gone)
    assert vars(index) == vars(AclIndex(left))
