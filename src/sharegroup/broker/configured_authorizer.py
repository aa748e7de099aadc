"""The authorizer that a broker's settings describe."""

from __future__ import annotations

from sharegroup.broker.authorization.acl_file import parse_acls
from sharegroup.broker.authorization.acls import AclAuthorizer
from sharegroup.broker.authorization.authorizer import AllowAll, Authorizer
from sharegroup.broker.configs.broker import BrokerConfig
from sharegroup.model.environment import Disk
from sharegroup.model.errors import ConfigError


def configured_authorizer(config: BrokerConfig, disk: Disk) -> Authorizer:
    """The authorizer of ``authorizer.acl.file``; allows everything if the setting is empty.

    Raises:
        ConfigError: the file cannot be read or parsed; one sentence.
    """
    path = config.text("authorizer.acl.file")
    if not path:
        return AllowAll()
    try:
        text = disk.read_file(path).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"authorizer.acl.file {path} cannot be read: {error}") from error
    return AclAuthorizer(
        parse_acls(text, path),
        super_users=config.super_users,
        allow_if_no_acl=config.flag("allow.everyone.if.no.acl.found"),
    )
