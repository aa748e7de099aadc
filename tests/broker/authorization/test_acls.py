"""Kafka's rules of ACLs: deny wins, what implies what, patterns, super users, no ACL at all."""

from __future__ import annotations

import pytest

from sharegroup.broker.authorization.access import Access
from sharegroup.broker.authorization.acl_authorizer import AclAuthorizer
from sharegroup.broker.authorization.acl_file import COLUMNS, parse_acls
from sharegroup.broker.authorization.acl_rows import acl_of, row_of
from sharegroup.broker.authorization.resources import (
    CLUSTER,
    SUPPORTED,
    Operation,
    Resource,
    ResourceType,
    group,
    topic,
)
from sharegroup.model.errors import (
    ClusterAuthorizationFailed,
    ConfigError,
    GroupAuthorizationFailed,
    TopicAuthorizationFailed,
)
from sharegroup.model.limits import AUTHORIZER_ANSWERS_MAX
from sharegroup.wire.internal.security import AclRow

HEADER = ",".join(COLUMNS)
HERE = "127.0.0.1"


def authorizer(
    *lines: str, super_users: tuple[str, ...] = (), allow_if_no_acl: bool = False
) -> AclAuthorizer:
    acls = parse_acls("\n".join([HEADER, *lines]), "acls.csv")
    return AclAuthorizer(acls, super_users=super_users, allow_if_no_acl=allow_if_no_acl)


def alice(decides: AclAuthorizer, host: str = HERE) -> Access:
    return Access(decides, "User:alice", host)


def test_access_without_an_acl_is_denied() -> None:
    access = alice(authorizer("ALLOW,User:alice,*,READ,TOPIC,jobs,LITERAL"))
    assert access.allows(Operation.READ, topic("jobs"))
    assert not access.allows(Operation.WRITE, topic("jobs"))
    assert not access.allows(Operation.READ, topic("jobs2"))
    assert not access.allows(Operation.READ, group("jobs"))


def test_a_deny_wins_over_every_allow() -> None:
    access = alice(
        authorizer(
            "ALLOW,User:alice,*,ALL,TOPIC,jobs,LITERAL",
            "ALLOW,User:*,*,ALL,TOPIC,*,LITERAL",
            "DENY,User:*,*,READ,TOPIC,jo,PREFIXED",
        )
    )
    assert not access.allows(Operation.READ, topic("jobs"))
    assert access.allows(Operation.WRITE, topic("jobs"))
    assert access.allows(Operation.READ, topic("other"))


def test_a_prefix_and_a_star_name_many_resources() -> None:
    decides = authorizer(
        "ALLOW,User:alice,*,READ,TOPIC,jobs-,PREFIXED",
        "ALLOW,User:bob,*,READ,TOPIC,*,LITERAL",
    )
    assert alice(decides).allows(Operation.READ, topic("jobs-1"))
    assert not alice(decides).allows(Operation.READ, topic("jobs"))
    assert Access(decides, "User:bob", HERE).allows(Operation.READ, topic("anything"))


def test_an_acl_is_for_its_host() -> None:
    decides = authorizer(f"ALLOW,User:alice,{HERE},READ,TOPIC,jobs,LITERAL")
    assert alice(decides).allows(Operation.READ, topic("jobs"))
    assert not alice(decides, "10.0.0.1").allows(Operation.READ, topic("jobs"))


@pytest.mark.parametrize("operation", ["READ", "WRITE", "DELETE", "ALTER", "ALL"])
def test_an_allow_implies_describe(operation: str) -> None:
    access = alice(authorizer(f"ALLOW,User:alice,*,{operation},TOPIC,jobs,LITERAL"))
    assert access.allows(Operation.DESCRIBE, topic("jobs"))


def test_a_deny_implies_nothing_and_create_does_not_imply_describe() -> None:
    access = alice(
        authorizer(
            "ALLOW,User:alice,*,DESCRIBE,TOPIC,jobs,LITERAL",
            "DENY,User:alice,*,READ,TOPIC,jobs,LITERAL",
            "ALLOW,User:alice,*,CREATE,TOPIC,new,LITERAL",
            "ALLOW,User:alice,*,ALTER_CONFIGS,TOPIC,new,LITERAL",
        )
    )
    assert access.allows(Operation.DESCRIBE, topic("jobs"))
    assert not access.allows(Operation.DESCRIBE, topic("new"))
    assert access.allows(Operation.DESCRIBE_CONFIGS, topic("new"))


def test_super_users_may_do_everything() -> None:
    decides = authorizer("DENY,User:*,*,ALL,TOPIC,*,LITERAL", super_users=("User:alice",))
    assert alice(decides).allows(Operation.DELETE, topic("jobs"))
    assert alice(decides).allows_any(Operation.WRITE, ResourceType.TOPIC)


def test_resources_without_acls_can_be_allowed() -> None:
    decides = authorizer("ALLOW,User:bob,*,READ,TOPIC,jobs,LITERAL", allow_if_no_acl=True)
    assert not alice(decides).allows(Operation.READ, topic("jobs"))
    assert alice(decides).allows(Operation.READ, topic("other"))
    assert alice(decides).allows(Operation.CLUSTER_ACTION, CLUSTER)


@pytest.mark.parametrize(
    ("lines", "allowed"),
    [
        (["ALLOW,User:alice,*,WRITE,TOPIC,jobs,LITERAL"], True),
        (["ALLOW,User:bob,*,WRITE,TOPIC,jobs,LITERAL"], False),
        (
            [
                "ALLOW,User:alice,*,WRITE,TOPIC,jobs,LITERAL",
                "DENY,User:alice,*,WRITE,TOPIC,jo,PREFIXED",
            ],
            False,
        ),
        (
            [
                "ALLOW,User:alice,*,WRITE,TOPIC,j,PREFIXED",
                "DENY,User:alice,*,WRITE,TOPIC,jobs,LITERAL",
            ],
            True,
        ),
        (
            ["ALLOW,User:alice,*,WRITE,TOPIC,*,LITERAL", "DENY,User:*,*,WRITE,TOPIC,*,LITERAL"],
            False,
        ),
    ],
)
def test_some_resource_of_a_type(lines: list[str], allowed: bool) -> None:
    assert alice(authorizer(*lines)).allows_any(Operation.WRITE, ResourceType.TOPIC) is allowed


def test_a_refusal_is_the_error_of_its_type_of_resource() -> None:
    access = alice(authorizer())
    with pytest.raises(TopicAuthorizationFailed):
        access.require(Operation.READ, topic("jobs"))
    with pytest.raises(GroupAuthorizationFailed):
        access.require(Operation.READ, group("workers"))
    with pytest.raises(ClusterAuthorizationFailed):
        access.require(Operation.CLUSTER_ACTION, CLUSTER)


def test_authorized_operations_are_bits() -> None:
    access = alice(authorizer("ALLOW,User:alice,*,READ,GROUP,workers,LITERAL"))
    assert access.operations(group("workers")) == 1 << 3 | 1 << 8
    assert access.operations(group("others")) == 0
    everything = Access().operations(topic("jobs"))
    assert everything == sum(1 << operation for operation in SUPPORTED[ResourceType.TOPIC])


def test_many_new_names_do_not_evict_cached_answers() -> None:
    decides = authorizer("ALLOW,User:alice,*,READ,TOPIC,jobs,LITERAL")
    access = alice(decides)
    for number in range(AUTHORIZER_ANSWERS_MAX + 10):
        assert not access.allows(Operation.READ, topic(f"made-up-{number}"))
    assert access.allows(Operation.READ, topic("jobs"))


def test_the_file_has_comments_empty_lines_and_quotes() -> None:
    lines = f'{HEADER}\nallow, User:a, *, read, group, "a,b", literal\n'
    for text in (f"# who\n\n{lines}", f"\ufeff{lines}"):  # the BOM is of a spreadsheet
        acls = parse_acls(text, "acls.csv")
        assert [acl.resource for acl in acls] == [Resource(ResourceType.GROUP, "a,b")]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("ALLOW,User:a,*,READ,TOPIC,jobs", "7 columns are needed, there are 6"),
        ("MAY,User:a,*,READ,TOPIC,jobs,LITERAL", "permission 'MAY' is neither ALLOW nor DENY"),
        ("ALLOW,alice,*,READ,TOPIC,jobs,LITERAL", "principal 'alice' is not Type:name"),
        ("ALLOW,User:a,*,EAT,TOPIC,jobs,LITERAL", "operation 'EAT' is none of ALL, READ"),
        ("ALLOW,User:a,*,READ,SHOP,jobs,LITERAL", "resource type 'SHOP' is none of TOPIC"),
        ("ALLOW,User:a,*,READ,TOPIC,jobs,GLOB", "pattern 'GLOB' is neither LITERAL"),
        ("ALLOW,User:a,*,WRITE,GROUP,g,LITERAL", "a GROUP has no operation WRITE"),
        ("ALLOW,User:a,*,CREATE,CLUSTER,mine,LITERAL", "the cluster's name is kafka-cluster"),
        ("ALLOW,User:a,,READ,TOPIC,jobs,LITERAL", "host '' is neither an IP address nor *"),
        ("ALLOW,User:a,localhost,READ,TOPIC,jobs,LITERAL", "host 'localhost' is neither an IP"),
        ("ALLOW,User:a,10.0.0.0/8,READ,TOPIC,jobs,LITERAL", "host '10.0.0.0/8' is neither an IP"),
        ("ALLOW,User:a,*,READ,TOPIC,,PREFIXED", "the name is empty"),
    ],
)
def test_a_bad_line_is_named(line: str, said: str) -> None:
    with pytest.raises(ConfigError, match=r"acls\.csv, line 2: ") as refused:
        parse_acls(f"{HEADER}\n{line}\n", "acls.csv")
    assert said in str(refused.value)


def test_a_host_is_written_as_a_connections_address_is() -> None:
    acls = parse_acls(
        f"{HEADER}\nALLOW,User:a,0:0:0:0:0:0:0:1,READ,TOPIC,jobs,LITERAL\n", "acls.csv"
    )
    assert [acl.host for acl in acls] == ["::1"]


def test_a_stored_host_is_meant_as_an_address() -> None:
    row = AclRow(2, "jobs", 3, "User:alice", "0:0:0:0:0:0:0:1", 3, 3)  # as Java writes it
    access = alice(AclAuthorizer([acl_of(row)]), "::1")
    assert access.allows(Operation.READ, topic("jobs"))
    assert acl_of(row._replace(host="no.address")).host == "no.address"


def test_a_row_and_an_acl_are_the_same() -> None:
    row = AclRow(5, "pay-", 4, "User:alice", "*", 4, 2)
    assert row_of(acl_of(row)) == row
    numbers = ("pattern_type", "operation", "resource_type", "permission_type")
    for wrong in (0, 1, 99):
        for field in numbers:
            with pytest.raises(ValueError, match="a number that has no meaning"):
                acl_of(row._replace(**{field: wrong}))


@pytest.mark.parametrize("line", ["UNKNOWN,TOPIC", "READ,UNKNOWN"])
def test_unknown_is_no_word_of_a_file(line: str) -> None:
    with pytest.raises(ConfigError, match=r"'UNKNOWN' is none of (ALL|TOPIC), "):
        parse_acls(f"{HEADER}\nALLOW,User:a,*,{line},jobs,LITERAL\n", "acls.csv")


def test_a_file_without_its_header_is_refused() -> None:
    with pytest.raises(ConfigError, match="the first line must be permission,principal"):
        parse_acls("ALLOW,User:a,*,READ,TOPIC,jobs,LITERAL\n", "acls.csv")


def test_a_refusal_is_logged_once_for_a_connection(caplog: pytest.LogCaptureFixture) -> None:
    access = alice(authorizer())
    with caplog.at_level("INFO", logger="sharegroup.authorizer"):
        for _ in range(3):
            with pytest.raises(TopicAuthorizationFailed):
                access.require_topic(Operation.READ, "jobs")
        assert not access.allows_topic(Operation.READ, "not asked for by name")
    (said,) = caplog.messages
    assert said == (
        "Principal = User:alice is Denied operation = READ from host = 127.0.0.1 "
        "on resource = TOPIC:LITERAL:jobs"
    )
