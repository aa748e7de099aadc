"""Safe by default: a broker starts only if every listener that other machines reach authenticates
its clients."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from sharegroup.broker.configs.broker import BrokerConfig
from sharegroup.broker.configs.listeners import (
    SASL_PLAINTEXT,
    SASL_PROTOCOLS,
    SASL_SSL,
    SSL,
    Listener,
    is_loopback,
)
from sharegroup.model.errors import ConfigError, InvalidConfig
from sharegroup.sasl.mechanisms import OAUTHBEARER, PLAIN

if TYPE_CHECKING:
    from sharegroup.broker.server import Broker

logger = logging.getLogger("sharegroup.broker")


def check_exposure(
    config: BrokerConfig,
    listeners: Iterable[Listener],
    metrics: tuple[str, int] | None,
    *,
    insecure: bool,
) -> None:
    """Refuse listeners and metrics that would be open to everybody, unless ``insecure`` says that
    this is meant.

    Raises:
        ConfigError: a listener that other machines reach does not authenticate, or the metrics are
            open to them; the sentence has the ways out.
    """
    reached = [listener for listener in listeners if not is_loopback(listener.host)]
    if not insecure:
        for listener in reached:
            refuse_open(config, listener)
    for listener in reached:
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


def check_alterations(broker: Broker, listeners: Iterable[Listener]) -> None:
    """Refuse to alter settings while the broker runs if this would open a listener. Alterations of
    earlier starts are checked, too. A user who may alter settings need not be the person who
    decides what is open.

    Raises:
        ConfigError: an earlier alteration has opened a listener.
    """
    reached = [listener for listener in listeners if not is_loopback(listener.host)]
    configs = broker.parts.configs
    prepare = configs.prepare

    def checked(config: BrokerConfig) -> Callable[[], None]:
        try:
            for listener in reached:
                refuse_open(config, listener)
        except ConfigError as error:
            raise InvalidConfig(str(error)) from None
        return prepare(config)

    for listener in reached:
        refuse_open(configs.broker, listener)
    configs.prepare = checked


def refuse_open(config: BrokerConfig, listener: Listener) -> None:
    """Refuse a listener that other machines reach and that does not authenticate.

    Raises:
        ConfigError: the listener is open; the sentence has the ways out.
    """
    if not authenticates(config, listener.name):
        secured = Listener(SASL_SSL, listener.host or "0.0.0.0", listener.port)
        raise ConfigError(
            f"{listener} would let in whoever reaches it: {config.protocol(listener.name)} "
            "asks nobody who they are. Let clients authenticate (such as --listen "
            f"{secured} --tls-self-signed DIR --users FILE), or listen on 127.0.0.1, or add "
            "--insecure if the network decides who reaches it"
        )
    if config.protocol(listener.name) == SSL and not _names_authorities(config, listener.name):
        raise ConfigError(
            f"{listener} would let in whoever has a certificate of a public authority: set "
            "ssl.truststore.location to the authority of your clients, or listen on 127.0.0.1, or "
            "add --insecure if the network decides who reaches it"
        )


def _names_authorities(config: BrokerConfig, name: str) -> bool:
    settings = config.listener(name)
    return any(settings.text(f"ssl.truststore.{each}") for each in ("location", "certificates"))


def authenticates(config: BrokerConfig, name: str) -> bool:
    """Whether the clients of a listener prove who they are."""
    protocol = config.protocol(name)
    if protocol in SASL_PROTOCOLS:
        return True
    return protocol == SSL and config.listener(name).text("ssl.client.auth") == "required"


def _passwords_in_clear(config: BrokerConfig, name: str) -> bool:
    offered = config.listener(name).names("sasl.enabled.mechanisms")
    return config.protocol(name) == SASL_PLAINTEXT and bool({PLAIN, OAUTHBEARER} & {*offered})
