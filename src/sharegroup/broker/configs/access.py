"""Broker settings of authorisation: the principals of clients, and their rights."""

from __future__ import annotations

from typing import Final

from sharegroup.broker.authorization.acl_file import check_principal
from sharegroup.broker.configs.define import flag, long, names, text
from sharegroup.model.config import ConfigDef, ConfigType
from sharegroup.model.errors import InvalidConfig

STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
DAMAGE_ACCEPTED: Final = "security.damage.accepted.before"
_AUTHORIZERS: Final = ("", STANDARD_AUTHORIZER, "StandardAuthorizer")
_ONE_AUTHORIZER: Final = f"the one authorizer here is {STANDARD_AUTHORIZER}"

ACCESS_CONFIGS: Final = (
    ConfigDef(
        name="authorizer.class.name",
        type=ConfigType.STRING,
        default="",
        doc="StandardAuthorizer, by this name or by its full name in Kafka: ACLs made by "
        "CreateAcls are in force, and what they do not allow is denied.",
        check=lambda value: None if value in _AUTHORIZERS else _ONE_AUTHORIZER,
    ),
    text(
        "authorizer.acl.file",
        None,
        "A CSV file of ACLs, read at the start and when it changes; what it does not allow is "
        "denied. With authorizer.class.name both lists count. Nothing is forbidden when neither "
        "is set. See the page on authorisation. Not a Kafka setting.",
    ),
    text(
        "super.users",
        "",
        "Principals that may do everything, separated by ';', such as User:admin;User:ops.",
    ),
    flag(
        "allow.everyone.if.no.acl.found",
        False,
        "Where ACLs are in force: allow access to resources that no ACL matches.",
    ),
    long(
        DAMAGE_ACCEPTED,
        0,
        0,
        "Start although records of __sharegroup_security below this offset are damaged: the users, "
        "ACLs and quotas in them are lost. The broker's refusal to start names the offset. Not a "
        "Kafka setting.",
    ),
    names(
        "listener.principal.map",
        (),
        "The principal of all clients of a listener, as NAME:Type:name, such as "
        "INTERNAL:User:spark; User:ANONYMOUS if not set. It is for listeners whose clients do not "
        "authenticate: only the network decides who reaches them. Not a Kafka setting.",
    ),
)


def parse_super_users(value: str) -> tuple[str, ...]:
    """The principals of ``super.users``.

    Raises:
        InvalidConfig: a text is not a principal.
    """
    users = tuple(user.strip() for user in value.split(";") if user.strip())
    for user in users:
        _check("super.users", user)
    return users


def parse_principals(texts: tuple[str, ...]) -> dict[str, str]:
    """Principal by listener name.

    Raises:
        InvalidConfig: one cannot be read.
    """
    principals: dict[str, str] = {}
    for entry in texts:
        listener, _, principal = entry.partition(":")
        _check("listener.principal.map", principal)
        principals[listener.strip().upper()] = principal.strip()
    return principals


def _check(setting: str, principal: str) -> None:
    try:
        check_principal(principal)
    except ValueError as error:
        raise InvalidConfig(f"{setting}: {error}") from None
