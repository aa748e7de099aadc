"""Settings of listeners that look as if they had an effect, and have none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sharegroup.broker.configs.broker import BrokerConfig
from sharegroup.broker.configs.listener_settings import PREFIX, suffix_of
from sharegroup.broker.configs.listeners import SASL_PROTOCOLS, SASL_SSL, Listener
from sharegroup.broker.configs.security import USERS_FILE

_CLIENT_AUTH: Final = "ssl.client.auth"


def listener_warnings(config: BrokerConfig, opened: Sequence[Listener]) -> list[str]:
    """A sentence for each such setting. ``opened``: the listeners that there are."""
    return [
        *_of_no_listener(config, opened),
        *_certificates_not_asked_for(config, opened),
        *_no_logins(config, opened),
    ]


def _no_logins(config: BrokerConfig, opened: Sequence[Listener]) -> list[str]:
    if not config.text(USERS_FILE) or any(
        config.protocol(listener.name) in SASL_PROTOCOLS for listener in opened
    ):
        return []
    return [f"users do nothing: no listener speaks SASL_SSL or SASL_PLAINTEXT ({USERS_FILE})"]


def _of_no_listener(config: BrokerConfig, opened: Sequence[Listener]) -> list[str]:
    names = {listener.name.lower() for listener in opened}
    found = []
    for setting in config.static:
        suffix = suffix_of(setting)
        name = setting.removeprefix(PREFIX).partition(".")[0]
        if not suffix or name in names:
            continue
        if name.lower() in names:
            found.append(f"{setting} does nothing: write {PREFIX}{name.lower()}.{suffix}")
        else:
            known = ", ".join(sorted(names))
            found.append(f"{setting} does nothing: no listener has the name {name}, only {known}")
    return found


def _certificates_not_asked_for(config: BrokerConfig, opened: Sequence[Listener]) -> list[str]:
    """KIP-684: for SASL_SSL the setting without prefix does not count."""
    if config.text(_CLIENT_AUTH) == "none":
        return []
    return [
        f"{_CLIENT_AUTH} does nothing for {listener.name}, which speaks SASL_SSL; to ask its "
        f"clients for a certificate too, write {PREFIX}{listener.name.lower()}.{_CLIENT_AUTH}"
        for listener in opened
        if config.protocol(listener.name) == SASL_SSL
        and not config.listener(listener.name).is_set(_CLIENT_AUTH, here=True)
    ]
