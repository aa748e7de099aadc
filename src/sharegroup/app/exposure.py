"""Safe by default: what other machines reach asks its clients who they are, or does not start."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from sharegroup.broker.configs.broker import BrokerConfig
from sharegroup.broker.configs.listeners import (
    SASL_PLAINTEXT,
    SASL_PROTOCOLS,
    SSL,
    Listener,
    is_loopback,
)
from sharegroup.model.errors import ConfigError
from sharegroup.sasl.mechanisms import OAUTHBEARER, PLAIN

logger = logging.getLogger("sharegroup.broker")


def check_exposure(
    config: BrokerConfig,
    listeners: Iterable[Listener],
    metrics: tuple[str, int] | None,
    *,
    insecure: bool,
) -> None:
    """Refuse what would be open to everybody, unless ``insecure`` says that this is meant.

    Raises:
        ConfigError: a listener that other machines reach does not authenticate, or the metrics are
            open to them; the sentence has the ways out.
    """
    for listener in listeners:
        if is_loopback(listener.host):
            continue
        if not (insecure or authenticates(config, listener.name)):
            raise ConfigError(
                f"{listener} would let in whoever reaches it: {config.protocol(listener.name)} "
                "asks nobody who they are. Let clients authenticate (such as --listen "
                f"SASL_SSL://{listener.host or '0.0.0.0'}:{listener.port} --tls-self-signed DIR "
                "--users FILE), or listen on 127.0.0.1, or add --insecure if the network decides "
                "who reaches it"
            )
        if _passwords_in_clear(config, listener.name):
            logger.warning(
                "%s: passwords or tokens cross the network unencrypted; use SASL_SSL", listener
            )
    if metrics is not None and not (insecure or is_loopback(metrics[0])):
        raise ConfigError(
            f"metrics on {metrics[0]}:{metrics[1]} would be open to whoever reaches it: the names "
            "of topics and groups are in them. Use 127.0.0.1, or add --insecure if the network "
            "decides who reaches it"
        )


def authenticates(config: BrokerConfig, name: str) -> bool:
    """Whether the clients of a listener prove who they are."""
    protocol = config.protocol(name)
    if protocol in SASL_PROTOCOLS:
        return True
    return protocol == SSL and config.listener(name).text("ssl.client.auth") == "required"


def _passwords_in_clear(config: BrokerConfig, name: str) -> bool:
    offered = config.listener(name).names("sasl.enabled.mechanisms")
    return config.protocol(name) == SASL_PLAINTEXT and bool({PLAIN, OAUTHBEARER} & {*offered})
