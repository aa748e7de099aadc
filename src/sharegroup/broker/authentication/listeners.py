"""The security of all listeners of a broker, which is made and read anew together."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Final

from sharegroup.broker.authentication.credentials import Scram
from sharegroup.broker.authentication.guessing import Guessing
from sharegroup.broker.authentication.listener_security import ListenerSecurity, Material
from sharegroup.broker.authentication.password_checks import PasswordChecks
from sharegroup.broker.configs.broker import BrokerConfig
from sharegroup.broker.configs.listener_settings import LISTENER_CONFIGS, suffix_of
from sharegroup.broker.configs.listeners import PLAINTEXT, SASL_PROTOCOLS, Listener
from sharegroup.broker.coordination.security_store import SecurityStore
from sharegroup.broker.event_counters import Counters
from sharegroup.model.environment import Environment
from sharegroup.model.errors import ConfigError, InvalidConfig, KafkaError
from sharegroup.sasl.scram_keys import ScramCredential, ScramMechanism
from sharegroup.wire.internal.security import ScramChange

logger = logging.getLogger("sharegroup.broker")

_SECRET_BYTES: Final = 32
NOBODY: Final = "", ScramMechanism.SHA_256


class ListenersSecurity:
    """Args:
    config: returns the broker's current settings.
    stored: returns the SCRAM credentials that clients have created.
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
        self.installed: Callable[[], None] = lambda: None
        """Called when newly read files are in force; users may be gone."""
        self.guessing = Guessing(
            environment.clock,
            lambda: config().integer("connection.failed.authentication.delay.ms"),
        )

    async def load(self, store: SecurityStore) -> None:
        """Take the secret of earlier starts, so that an unknown user keeps its salt as a known user
        does. The secret is stored as the salt of a user without a name, whom no client can create.
        """
        if not any(self._config().protocol(each.name) in SASL_PROTOCOLS for each in self._named):
            return
        kept = store.state.credentials.get(NOBODY)
        if kept is None:
            kept = ScramCredential(salt=self._secret, stored_key=b"", server_key=b"", iterations=0)
            change = ScramChange(*NOBODY, kept)
            try:
                await store.change(lambda _: (None, [change]))
            except KafkaError as error:
                logger.warning("the secret of this start cannot be kept: %s", error)
        self._secret = kept.salt

    @property
    def _named(self) -> list[Listener]:
        return self._config().listeners

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
            self._say({name: self._listeners[name].material})
            if self._listeners[name].knows_nobody:
                logger.warning(
                    "nobody can log in to the listener %s yet: start with --users FILE, which "
                    "`sharegroup users create NAME --file FILE` writes; or run `sharegroup users "
                    "create NAME` through another listener",
                    name,
                )
        return self._listeners[name]

    def prepare(self, config: BrokerConfig) -> Callable[[], None]:
        """Read all files anew, as ``config`` names them. Returns a function that puts them into
        force. Nothing is read if no setting of TLS or SASL is altered while the broker runs.

        Raises:
            InvalidConfig: a file cannot be read; the old files stay in force.
        """
        altered = {*config.altered_by_somebody, *self._config().altered_by_somebody}
        if not any(name in LISTENER_CONFIGS or suffix_of(name) for name in altered):
            return lambda: None
        return self._read(config)

    def _read(self, config: BrokerConfig) -> Callable[[], None]:
        try:
            read = [(each, each.load(config)) for each in self._listeners.values()]
        except ConfigError as error:
            raise InvalidConfig(str(error)) from None

        def install() -> None:
            for listener, material in read:
                listener.install(material)
            self._say({listener.name: material for listener, material in read})
            self.installed()

        return install

    def _say(self, read: Mapping[str, Material]) -> None:
        """Log the warnings about stores, each once: listeners often share a store."""
        for name, material in read.items():
            others = [each.material for each in self._listeners.values() if each.name < name]
            said = {warning for other in others for warning in other.warnings}
            for warning in material.warnings:
                if warning not in said:
                    logger.warning("listener %s: %s", name, warning)

    def read_again(self) -> int:
        """Read certificates, keys and users anew. Returns for how many listeners.

        Raises:
            InvalidConfig: a file cannot be read; the old files stay in force.
        """
        self._read(self._config())()
        return len(self._listeners)
