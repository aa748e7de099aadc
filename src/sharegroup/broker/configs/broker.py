"""The broker's settings: altered while it runs, else set at start, else Kafka's default.

Names, bounds and messages are Kafka's. A Kafka setting that has no meaning here is accepted with
one warning. An unknown name is refused, with the nearest known name in the message.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from sharegroup.broker.configs.access import (
    ACCESS_CONFIGS,
    parse_principals,
    parse_super_users,
)
from sharegroup.broker.configs.classic import CLASSIC_CONFIGS
from sharegroup.broker.configs.foreign import KAFKA_NAMES, why_meaningless
from sharegroup.broker.configs.groups import CONSUMER_CONFIGS
from sharegroup.broker.configs.listener_settings import (
    PREFIX,
    ListenerSettings,
    is_for_all,
    listener_definition,
    setting_named,
    suffix_of,
)
from sharegroup.broker.configs.listeners import (
    PLAINTEXT,
    SASL_PROTOCOLS,
    Listener,
    check_advertised,
    check_protocols,
    parse_counts,
    parse_listeners,
    parse_protocols,
)
from sharegroup.broker.configs.log import LOG_CONFIGS
from sharegroup.broker.configs.node import NODE_CONFIGS
from sharegroup.broker.configs.properties import parse_properties
from sharegroup.broker.configs.quotas import QUOTA_CONFIGS
from sharegroup.broker.configs.security import SECURITY_CONFIGS
from sharegroup.broker.configs.share import SHARE_CONFIGS
from sharegroup.broker.configs.transactions import TRANSACTION_CONFIGS
from sharegroup.groups.config import BROKER_BOUNDS, Bounded, GroupDefaults
from sharegroup.groups.config_fields import broker_names
from sharegroup.model.config import (
    ConfigDef,
    ConfigTable,
    ConfigType,
    ConfigValue,
    format_value,
    nearest_name,
)
from sharegroup.model.errors import ConfigError, InvalidConfig, InvalidRequest

BROKER_CONFIGS: Final = ConfigTable(
    (
        *NODE_CONFIGS,
        *QUOTA_CONFIGS,
        *ACCESS_CONFIGS,
        *SECURITY_CONFIGS,
        *LOG_CONFIGS,
        *SHARE_CONFIGS,
        *CLASSIC_CONFIGS,
        *CONSUMER_CONFIGS,
        *TRANSACTION_CONFIGS,
    )
)

_COPIES: Final = (
    "default.replication.factor",
    "min.insync.replicas",
    "offsets.topic.replication.factor",
    "share.coordinator.state.topic.replication.factor",
    "share.coordinator.state.topic.min.isr",
    "transaction.state.log.replication.factor",
    "transaction.state.log.min.isr",
)
_OF_ONE_LISTENER: Final = ("ssl.keystore.", "ssl.truststore.", "ssl.key.")
"""Prefixes of the settings that Kafka alters only for single listeners."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig:
    """Settings as texts, by their current names: ``static`` are set at start; altered while the
    broker runs are ``cluster``, the defaults of every broker, and ``dynamic``, this broker's own.

    ``warnings`` are sentences about settings that have no effect here.
    """

    static: Mapping[str, str] = field(default_factory=dict, repr=False)
    cluster: Mapping[str, str] = field(default_factory=dict, repr=False)
    dynamic: Mapping[str, str] = field(default_factory=dict, repr=False)
    warnings: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> ConfigValue:
        definition = definition_of(name) or BROKER_CONFIGS[name]
        for layer in (self.dynamic, self.cluster, self.static):
            if name in layer:
                return definition.parse(layer[name])
        return definition.default

    def integer(self, name: str) -> int:
        """The value of a number; 0 if it is not set and has no default."""
        value = self[name]
        return value if isinstance(value, int) else 0

    def flag(self, name: str) -> bool:
        """The value of a boolean."""
        return self[name] is True

    def text(self, name: str) -> str:
        """The value as text."""
        return format_value(self[name])

    def names(self, name: str) -> tuple[str, ...]:
        """The value of a list; empty if it is not set and has no default."""
        value = self[name]
        return value if isinstance(value, tuple) else ()

    @property
    def set_by_somebody(self) -> Mapping[str, str]:
        """All settings that are set explicitly; altered values replace those set at start."""
        return {**self.static, **self.altered_by_somebody}

    @property
    def altered_by_somebody(self) -> Mapping[str, str]:
        """All settings that were altered while the broker ran. The broker's own values replace the
        defaults of every broker."""
        return {**self.cluster, **self.dynamic}

    @property
    def node_id(self) -> int:
        """node.id, else broker.id, else 1."""
        broker_id = self.integer("broker.id")
        named = "node.id" in self.static or broker_id < 0
        return self.integer("node.id") if named else broker_id

    @property
    def data_folder(self) -> str:
        """The one folder that log.dirs, or else log.dir, names."""
        return (self.names("log.dirs") or self.names("log.dir"))[0]

    @property
    def listeners(self) -> list[Listener]:
        """Where to accept connections."""
        return self._endpoints("listeners")

    @property
    def advertised_listeners(self) -> list[Listener]:
        """The addresses told to clients; if empty, clients are told those of the open listeners."""
        return self._endpoints("advertised.listeners")

    def protocol(self, name: str) -> str:
        """The security protocol of the listener ``name``; PLAINTEXT if it is not known."""
        return self._protocols.get(name, PLAINTEXT)

    def listener(self, name: str) -> ListenerSettings:
        """The settings of TLS and SASL of the listener ``name``."""
        return ListenerSettings(self.set_by_somebody, name)

    def with_defaults(self, own: Mapping[str, str]) -> BrokerConfig:
        """With these settings, unless they were set at the start."""
        return replace(self, static={**own, **self.static})

    def listening(self, listeners: Sequence[Listener]) -> BrokerConfig:
        """A copy with these ``listeners``.

        Raises:
            InvalidConfig: the listeners contradict other settings.
        """
        passed_over = [
            text
            for text in self.names("listeners")
            if text.partition(":")[0].upper()
            in map(str.upper, self.names("controller.listener.names"))
        ]
        texts = ",".join([*map(str, listeners), *passed_over])
        config = replace(self, static={**self.static, "listeners": texts})
        check_broker(config)
        return config

    @property
    def _protocols(self) -> dict[str, str]:
        return parse_protocols(_parts(self.text("listener.security.protocol.map")))

    def advertised(self, name: str) -> Listener | None:
        """The address told to clients of the listener ``name``. If there is only one listener, the
        only advertised address, whatever its name. None: clients are told the listener's own."""
        told = self.advertised_listeners
        if len(told) == len(self.listeners) == 1:
            return told[0]
        return next((listener for listener in told if listener.name == name), None)

    @property
    def super_users(self) -> tuple[str, ...]:
        """Principals that may do everything."""
        return parse_super_users(self.text("super.users"))

    @property
    def principals(self) -> dict[str, str]:
        """Principal by listener name, for the listeners that have one."""
        return parse_principals(self.names("listener.principal.map"))

    @property
    def connections_per_ip(self) -> dict[str, int]:
        """max.connections.per.ip.overrides: the most connections by address."""
        setting = "max.connections.per.ip.overrides"
        return parse_counts(setting, _parts(self.text(setting)))

    @property
    def retention_ms(self) -> int:
        """log.retention.ms, else minutes, else hours, in milliseconds; -1 keeps records for
        ever.
        """
        retention_ms = self["log.retention.ms"]
        if not isinstance(retention_ms, int):
            minutes = self["log.retention.minutes"]
            hours = self.integer("log.retention.hours")
            retention_ms = (minutes if isinstance(minutes, int) else hours * 60) * 60_000
        return max(-1, retention_ms)

    @property
    def segment_ms(self) -> int:
        """log.roll.ms, else hours, in milliseconds."""
        roll_ms = self["log.roll.ms"]
        return roll_ms if isinstance(roll_ms, int) else self.integer("log.roll.hours") * 3_600_000

    def group_defaults(self) -> GroupDefaults:
        """The defaults of groups' settings, and the bounds of their values."""
        return {
            name: Bounded(*(self.integer(setting) for setting in broker_names(name)))
            for name in BROKER_BOUNDS
        }

    def altered(
        self, dynamic: Mapping[str, str] | None = None, cluster: Mapping[str, str] | None = None
    ) -> BrokerConfig:
        """A copy in which ``dynamic`` replaces all own settings altered while the broker runs, and
        ``cluster`` all defaults of every broker. None: these settings stay.

        Raises:
            InvalidConfig: a name is unknown or a value is invalid.
            InvalidRequest: a setting needs a restart, or belongs to one broker.
        """
        own = self.dynamic if dynamic is None else dynamic
        shared = self.cluster if cluster is None else cluster
        _check_alterable(own, self.dynamic)
        _check_alterable(shared, self.cluster)
        _check_shareable(shared, self.cluster)
        config = replace(self, dynamic=dict(own), cluster=dict(shared))
        check_broker(config)
        return config

    def _endpoints(self, name: str) -> list[Listener]:
        not_opened = self.names("controller.listener.names")
        return parse_listeners(name, self.names(name), not_opened)


def load(file_text: str = "", overrides: Iterable[str] = ()) -> BrokerConfig:
    """Read a ``server.properties`` and the ``key=value`` of ``-o`` options. The options win.

    Raises:
        ConfigError: one sentence that says what is wrong; for a misspelt name, the nearest one.
    """
    texts = {name: text.strip() for name, text in parse_properties(file_text).items()}
    for override in overrides:
        name, equals, text = override.partition("=")
        if not (name.strip() and equals):
            raise ConfigError(f"an override is written key=value, not {override!r}")
        texts[name.strip()] = text.strip()
    static: dict[str, str] = {}
    warnings: list[str] = []
    try:
        for name, text in texts.items():
            known = _known_name(name, warnings)
            if known is not None and (known == name or known not in texts):
                (definition_of(known) or BROKER_CONFIGS[known]).parse(text)
                static[known] = text
        _same_id(static)
        config = BrokerConfig(static=static)
        check_broker(config)
    except InvalidConfig as error:
        raise ConfigError(error.message) from None
    warnings.extend(_copies(config))
    warnings.extend(_without_acls(config))
    if "streams" in config.names("group.coordinator.rebalance.protocols"):
        warnings.append(
            "group.coordinator.rebalance.protocols: streams does nothing here: there are no "
            "streams groups"
        )
    return replace(config, warnings=tuple(warnings))


def _same_id(static: dict[str, str]) -> None:
    """node.id and broker.id are one setting: if only one is set, set the other too (Kafka class
    KafkaConfig)."""
    if "node.id" in static:
        static.setdefault("broker.id", static["node.id"])
    elif int(static.get("broker.id", "-1")) >= 0:
        static["node.id"] = static["broker.id"]


def check_broker(config: BrokerConfig) -> None:
    """Refuse settings that are each valid but contradict each other (Kafka's ShareGroupConfig and
    others).

    Raises:
        InvalidConfig: one sentence.
    """
    for name in config.set_by_somebody:
        config[name]  # raises if the value is invalid
    _check_groups(config)
    sessions, size = "group.share.max.share.sessions", "group.share.max.size"
    if config.integer(sessions) < config.integer(size):
        _must_not_be_less(sessions, size)
    _check_queued(config)
    _check_access(config)
    protocols = parse_protocols(_parts(config.text("listener.security.protocol.map")))
    check_protocols(config.listeners, protocols)
    if not config.listeners:
        raise InvalidConfig("listeners: there is none to accept connections on")
    check_advertised(config.advertised_listeners)
    _check_advertised_names(config)
    if len(config.names("log.dirs") or config.names("log.dir")) != 1:
        raise InvalidConfig("log.dirs: write one folder, there is one per broker")


def _check_alterable(after: Mapping[str, str], before: Mapping[str, str]) -> None:
    """Refuse to alter settings that need a restart. A setting that keeps its value is not altered.

    Raises:
        InvalidConfig: there is no such setting.
        InvalidRequest: the setting needs a restart.
    """
    for name, text in after.items():
        definition = definition_of(name)
        if definition is None:
            raise InvalidConfig(_unknown(name))
        if not definition.dynamic and text != before.get(name):
            secret = definition.type is ConfigType.PASSWORD
            why = ": passwords are not stored, set it and restart" if secret else ""
            raise InvalidRequest(f"Cannot update these configs dynamically: [{name}]{why}")


def _check_shareable(after: Mapping[str, str], before: Mapping[str, str]) -> None:
    """Refuse a default of every broker for settings of TLS and SASL, which belong to one broker.
    Raises:
        InvalidRequest: the setting belongs to one broker.
    """
    for name, text in after.items():
        if text == before.get(name) or (is_for_all(name) and not suffix_of(name)):
            continue
        if name.startswith(_OF_ONE_LISTENER):
            raise InvalidRequest(
                "These security configs can be dynamically updated only per-listener using the "
                f"listener prefix: [{name}]"
            )
        raise InvalidRequest(
            "Cannot update these configs at default cluster level, broker id must be specified: "
            f"[{name}]"
        )


def _check_advertised_names(config: BrokerConfig) -> None:
    """Refuse to advertise a listener that does not exist, as Kafka does."""
    names = [listener.name for listener in config.listeners]
    told = [listener.name for listener in config.advertised_listeners]
    if len(names) == len(told) == 1:
        return
    for name in told:
        if name not in names:
            raise InvalidConfig(
                f"advertised.listeners: {name} is no listener; the listeners are {', '.join(names)}"
            )


def _check_groups(config: BrokerConfig) -> None:
    for config_name, bounds in config.group_defaults().items():
        name, least, most = broker_names(config_name)
        if bounds.maximum < bounds.value:
            _must_not_be_less(most, name)
        if bounds.value < bounds.minimum:
            _must_not_be_less(name, least)
    for kind in ("share", "consumer"):
        session, heartbeat = (
            f"group.{kind}.{setting}" for setting in ("session.timeout.ms", "heartbeat.interval.ms")
        )
        if config.integer(session) <= config.integer(heartbeat):
            raise InvalidConfig(f"{session} must be greater than {heartbeat}")


def _check_queued(config: BrokerConfig) -> None:
    """Refuse request memory that is too small for the longest request, as Kafka does. The default
    adapts to the longest request."""
    queued, longest = "queued.max.request.bytes", "socket.request.max.bytes"
    if queued in config.set_by_somebody and 0 < config.integer(queued) < config.integer(longest):
        _must_not_be_less(queued, longest)


def _check_access(config: BrokerConfig) -> None:
    """Refuse values that cannot be parsed, and a principal for a listener that does not exist."""
    _ = config.super_users, config.connections_per_ip
    known = {listener.name for listener in config.listeners}
    for name in config.principals:
        if name not in known:
            raise InvalidConfig(f"listener.principal.map: there is no listener {name}")
        if config.protocol(name) in SASL_PROTOCOLS:
            raise InvalidConfig(
                f"listener.principal.map: clients of {name} authenticate by themselves"
            )


def _parts(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _must_not_be_less(name: str, other: str) -> None:
    raise InvalidConfig(f"{name} must be greater than or equal to {other}")


def _known_name(name: str, warnings: list[str]) -> str | None:
    """The current name of a setting; None, with a warning, if it has no meaning here."""
    if definition_of(name) is not None:
        return name
    if name.startswith(PREFIX):
        warnings.append(_of_no_listener(name))
        return None
    today = BROKER_CONFIGS.today(name)
    if today is not None:
        warnings.append(f"{name} is a name from a KIP draft; use {today}")
        return today
    reason = why_meaningless(name)
    if reason is None:
        raise InvalidConfig(_unknown(name))
    warnings.append(f"{name} does nothing here: {reason}")
    return None


def _of_no_listener(name: str) -> str:
    """The warning about a setting that cannot be set for one listener."""
    setting = setting_named(name)
    reason = why_meaningless(setting)
    if setting in BROKER_CONFIGS and is_for_all(setting):
        reason = f"it is for all listeners; write {setting}"
    if reason is None:
        raise InvalidConfig(_unknown(name))  # a misspelt setting could leave a listener open
    return f"{name} does nothing here: {reason}"


def definition_of(name: str) -> ConfigDef | None:
    """The definition of a setting, also of one for a single listener; None: there is no such
    setting."""
    return BROKER_CONFIGS.get(name) or listener_definition(name)


def _unknown(name: str) -> str:
    if name in KAFKA_NAMES:
        return f"{name} does nothing here: {why_meaningless(name)}"
    near = nearest_name(name, (*BROKER_CONFIGS, *KAFKA_NAMES))
    return f"there is no setting {name}" + (f"; did you mean {near}?" if near else "")


def _without_acls(config: BrokerConfig) -> list[str]:
    """Warnings for access settings that have no effect without ACLs, and for ACLs that nobody can
    make."""
    file, stores = config.text("authorizer.acl.file"), config.text("authorizer.class.name")
    everybody = config.flag("allow.everyone.if.no.acl.found")
    if stores and not (file or everybody or config.super_users):
        return ["authorizer.class.name without super.users: nobody may make the first ACL"]
    if file or stores:
        return []
    return [
        f"{name} does nothing without authorizer.class.name or authorizer.acl.file: everything is "
        "allowed to everybody"
        for name in ("super.users", "allow.everyone.if.no.acl.found")
        if name in config.static
    ]


def _copies(config: BrokerConfig) -> list[str]:
    return [
        f"{name}={config.static[name]} does nothing here: one embedded node holds one copy"
        for name in _COPIES
        if name in config.static and config.integer(name) > 1
    ]
