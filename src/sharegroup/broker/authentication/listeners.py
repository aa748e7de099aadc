"""The security of all listeners of a broker: made, and read anew, together."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from sharegroup.broker.authentication.credentials import Scram
from sharegroup.broker.authentication.guessing import Guessing
from sharegroup.broker.authentication.listener_security import ListenerSecurity
from sharegroup.broker.authentication.password_checks import PasswordChecks
from sharegroup.broker.configs.broker import BrokerConfig
from sharegroup.broker.configs.listeners import PLAINTEXT
from sharegroup.broker.counters import Counters
from sharegroup.model.environment import Environment
from sharegroup.model.errors import ConfigError, InvalidConfig

logger = logging.getLogger("sharegroup.broker")

_SECRET_BYTES: Final = 32


class ListenersSecurity:
    """Args:
    config: the broker's settings now.
    stored: SCRAM credentials that clients have created.
    """

    def __init__(
        self,
        config: Callable[[], BrokerConfig],
        stored: Callable[[], Scram],
        environment: Environment,
        counters: Counters,
    ) -> None:
        self._config = config
        self._stored = stored
        self._environment = environment
        self._counters = counters
        self._secret = environment.entropy(_SECRET_BYTES)
        self._checks = PasswordChecks()
        self._listeners: dict[str, ListenerSecurity] = {}
        self.guessing = Guessing(
            environment.clock,
            lambda: config().integer("connection.failed.authentication.delay.ms"),
        )

    def open(self, name: str) -> ListenerSecurity | None:
        """The security of the listener ``name``; None if it speaks PLAINTEXT.

        Raises:
            ConfigError: a file cannot be read, or settings contradict each other.
        """
        if self._config().protocol(name) == PLAINTEXT:
            return None
        if name not in self._listeners:
            self._listeners[name] = ListenerSecurity(
                name,
                config=self._config,
                stored=self._stored,
                environment=self._environment,
                secret=self._secret,
                checks=self._checks,
                counters=self._counters,
            )
        return self._listeners[name]

    def prepare(self, config: BrokerConfig) -> Callable[[], None]:
        """Read all files anew, as ``config`` names them; returns what lets them hold.

        Raises:
            InvalidConfig: a file cannot be read; the old ones stay.
        """
        try:
            read = [(each, each.load(config)) for each in self._listeners.values()]
        except ConfigError as error:
            raise InvalidConfig(str(error)) from None

        def install() -> None:
            for listener, material in read:
                listener.install(material)

        return install

    def read_again(self) -> int:
        """Read certificates, keys and users anew; returns how many listeners have them.

        Raises:
            InvalidConfig: a file cannot be read; the old ones stay.
        """
        self.prepare(self._config())()
        return len(self._listeners)
