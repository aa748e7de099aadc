"""The access rules that a broker's settings describe."""

from __future__ import annotations

from sharegroup.broker.authorization.access_rules import AccessRules
from sharegroup.broker.configs.broker import BrokerConfig
from sharegroup.model.environment import Disk


def configured_rules(config: BrokerConfig, disk: Disk) -> AccessRules:
    """The rules of ``authorizer.class.name`` and ``authorizer.acl.file``; without either,
    everything is allowed.

    Raises:
        ConfigError: the file cannot be read or parsed; one sentence.
    """
    return AccessRules(
        disk,
        file=config.text("authorizer.acl.file"),
        stores=bool(config.text("authorizer.class.name")),
        super_users=config.super_users,
        allow_if_no_acl=config.flag("allow.everyone.if.no.acl.found"),
    )
