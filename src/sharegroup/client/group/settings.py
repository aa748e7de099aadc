"""The consumer's settings, checked before it connects."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, Literal, TypedDict

from sharegroup.client.clock import wall_ms
from sharegroup.client.core.assignors import ASSIGNORS, Assignor, RebalanceProtocol
from sharegroup.client.core.positions import EARLIEST, LATEST
from sharegroup.client.core.record import K, V
from sharegroup.client.core.setting_checks import (
    check_at_least_0,
    check_kinds,
    check_names,
    check_positive,
)
from sharegroup.client.security.properties import SecuritySettings
from sharegroup.groups.offset_reset import OffsetResetKind, parse_offset_reset
from sharegroup.model.errors import ConfigError

PROTOCOLS: Final = ("consumer", "classic")
ISOLATION_LEVELS: Final = ("read_uncommitted", "read_committed")


class ConsumerSettings(TypedDict, Generic[K, V], total=False):
    """What a ``Consumer`` can be told, by name. Whatever is left out has its default."""

    group_id: str | None
    """The consumer group. None: no group; partitions come from ``assign``, and nothing is
    committed. Default: None."""
    bootstrap_servers: str | Iterable[str]
    """``host:port,…`` or a list. Default: '127.0.0.1:9092'."""
    group_protocol: Literal["consumer", "classic"]
    """``consumer`` (KIP-848; the broker shares out the partitions) or ``classic``. If the broker
    does not have ``consumer``, the consumer falls back to ``classic``, and logs that. Default:
    'consumer'."""
    group_instance_id: str | None
    """A static member's name (KIP-345): closed and started again within the session time-out, it
    keeps its partitions. Default: None."""
    group_remote_assignor: str | None
    """For ``consumer``: ``uniform`` or ``range``; None: the broker's own. Default: None."""
    partition_assignment_strategy: Sequence[str]
    """For ``classic``: any of ``range``, ``roundrobin``, ``sticky`` and ``cooperative-sticky``, the
    best first. All members must have one in common. Default: ('range', 'cooperative-sticky')."""
    auto_offset_reset: str
    """Where to begin in a partition that has no committed offset, or whose log does not have that
    offset any more: ``earliest``, ``latest``, ``by_duration:PT1H``, or ``none`` for an error.
    Default: 'latest'."""
    enable_auto_commit: bool
    """Commit the records that are done every ``auto_commit_interval_ms``. Default: True."""
    auto_commit_interval_ms: int
    """The time between automatic commits. Default: 5_000."""
    isolation_level: Literal["read_uncommitted", "read_committed"]
    """``read_committed`` leaves out the records of aborted transactions, and of transactions under
    way. Default: 'read_uncommitted'."""
    key_deserializer: Callable[[bytes], K] | None
    """Turns a key's bytes into the application's object; null stays None. None: bytes. Default:
    None."""
    value_deserializer: Callable[[bytes], V] | None
    """As ``key_deserializer``, for values. Default: None."""
    max_poll_records: int
    """The most records that a poll returns. Default: 500."""
    max_poll_interval_ms: int
    """The member leaves the group when the application does not ask for records for this long.
    Default: 300_000."""
    session_timeout_ms: int
    """For ``classic``: a member without heartbeats for this long has lost its partitions. With
    ``consumer``, the broker's settings apply. Default: 45_000."""
    heartbeat_interval_ms: int
    """For ``classic``: the time between heartbeats. Default: 3_000."""
    fetch_min_bytes: int
    """How many bytes a broker waits for. Default: 1."""
    fetch_max_bytes: int
    """The most bytes of a fetch. Default: 52_428_800."""
    fetch_max_wait_ms: int
    """How long a broker waits for ``fetch_min_bytes``. Default: 500."""
    max_partition_fetch_bytes: int
    """The most bytes of one partition in a fetch. Default: 1_048_576."""
    check_crcs: bool
    """Compare the checksums of record batches. Default: True."""
    client_id: str
    """The client's name in the broker's log and quotas. Default: 'sharegroup'."""
    client_rack: str | None
    """The rack that the client runs in. Default: None."""
    request_timeout_ms: int
    """How long a call waits for the broker's answers, with retries. Default: 30_000."""
    metadata_max_age_ms: int
    """How often new partitions, and topics of a pattern, are looked for. Default: 300_000."""
    allow_auto_create_topics: bool
    """Let the broker create topics that do not exist, if it does that. Default: True."""
    key_ranges: bool
    """Share a partition with other members of the group by the keys of its records (KIP-X), when
    there are more members than partitions. Each key's records come to one member, in order. The
    group then commits ranges of offsets; the broker must be `sharegroup serve`, and the topic must
    have ``accept.range.fetch``. Default: False."""
    cooperative: bool
    """Share a partition with other members, whatever the keys: the broker gives each record to one
    of them (KIP-X). Needs what ``key_ranges`` needs, and ``consumer``. Default: False."""
    max_num_ranges_to_commit: int
    """With ``key_ranges`` or ``cooperative``, commit as soon as more ranges than these are to be
    committed. Default: 10_000."""
    security: SecuritySettings
    """TLS and SASL: a :class:`~sharegroup.client.Security`, or the properties of Java's clients or
    librdkafka for them; None: PLAINTEXT. Default: None."""
    jitter: random.Random | None
    """Where the pauses between retries get their randomness from. Default: None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedConsumerSettings:
    """:class:`ConsumerSettings`, complete: the defaults stand here.

    Raises:
        ConfigError: a setting is wrong.
    """

    group_id: str | None = None
    bootstrap_servers: str | Iterable[str] = "127.0.0.1:9092"
    group_protocol: str = "consumer"
    group_instance_id: str | None = None
    group_remote_assignor: str | None = None
    partition_assignment_strategy: Sequence[str] = ("range", "cooperative-sticky")
    auto_offset_reset: str = "latest"
    enable_auto_commit: bool = True
    auto_commit_interval_ms: int = 5_000
    isolation_level: str = "read_uncommitted"
    key_deserializer: Callable[[bytes], Any] | None = None
    value_deserializer: Callable[[bytes], Any] | None = None
    max_poll_records: int = 500
    max_poll_interval_ms: int = 300_000
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    fetch_min_bytes: int = 1
    fetch_max_bytes: int = 52_428_800
    fetch_max_wait_ms: int = 500
    max_partition_fetch_bytes: int = 1_048_576
    check_crcs: bool = True
    client_id: str = "sharegroup"
    client_rack: str | None = None
    request_timeout_ms: int = 30_000
    metadata_max_age_ms: int = 300_000
    allow_auto_create_topics: bool = True
    key_ranges: bool = False
    cooperative: bool = False
    max_num_ranges_to_commit: int = 10_000
    security: SecuritySettings = None
    jitter: random.Random | None = None

    def __post_init__(self) -> None:
        check_kinds(self)
        if self.group_id == "":
            raise ConfigError("group_id is missing: name the consumer group")
        check_positive("max_poll_records", self.max_poll_records)
        check_positive("auto_commit_interval_ms", self.auto_commit_interval_ms)

    @property
    def commits(self) -> bool:
        """Records that are done are committed automatically."""
        return self.enable_auto_commit and self.group_id is not None

    @property
    def committed_only(self) -> bool:
        """Only records of committed transactions are read.

        Raises:
            ConfigError: there is no such isolation level.
        """
        level = one_of("isolation_level", self.isolation_level, ISOLATION_LEVELS)
        return level == "read_committed"


def checked_settings(given: ConsumerSettings[Any, Any]) -> CheckedConsumerSettings:
    """Settings with defaults for what was not given.

    Raises:
        ConfigError: a setting is wrong.
        TypeError: there is no such setting.
    """
    check_names("Consumer", given, ConsumerSettings.__annotations__)
    return CheckedConsumerSettings(**given)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSettings:
    """The settings of a member, by either protocol; named as ``Consumer``'s arguments."""

    group_id: str
    protocol: str
    instance_id: str | None
    rack_id: str | None
    assignor: str | None
    assignors: Sequence[Assignor]
    session_timeout_ms: int
    heartbeat_interval_ms: int
    max_poll_interval_ms: int
    key_ranges: bool
    cooperative: bool
    ranges_max: int

    @property
    def shares(self) -> bool:
        """The member may share partitions with others."""
        return self.key_ranges or self.cooperative


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSettings:
    """The settings of fetches; named as ``Consumer``'s arguments.

    Raises:
        ConfigError: a number is too small.
    """

    min_bytes: int
    max_bytes: int
    partition_bytes: int
    max_wait_ms: int
    committed: bool
    rack_id: str

    def __post_init__(self) -> None:
        check_at_least_0("fetch_min_bytes", self.min_bytes)
        check_at_least_0("fetch_max_wait_ms", self.max_wait_ms)
        check_positive("fetch_max_bytes", self.max_bytes)
        check_positive("max_partition_fetch_bytes", self.partition_bytes)


def read_settings(settings: CheckedConsumerSettings) -> ReadSettings:
    """The settings of fetches. Raises ConfigError: a setting is wrong."""
    return ReadSettings(
        min_bytes=settings.fetch_min_bytes,
        max_bytes=settings.fetch_max_bytes,
        partition_bytes=settings.max_partition_fetch_bytes,
        max_wait_ms=settings.fetch_max_wait_ms,
        committed=settings.committed_only,
        rack_id=settings.client_rack or "",
    )


def member_settings(settings: CheckedConsumerSettings) -> MemberSettings:
    """The settings of a member. Raises ConfigError: a setting is wrong."""
    group_id, protocol = settings.group_id or "", settings.group_protocol
    heartbeat, session = settings.heartbeat_interval_ms, settings.session_timeout_ms
    assignors, key_ranges = settings.partition_assignment_strategy, settings.key_ranges
    if settings.group_instance_id == "":
        raise ConfigError("group_instance_id is empty: give the static member a name, or None")
    if protocol == "classic" and heartbeat >= session:
        raise ConfigError(
            f"heartbeat_interval_ms is {heartbeat}: it must be less than session_timeout_ms, "
            f"{session}"
        )
    if key_ranges and not group_id:
        raise ConfigError("key_ranges=True needs a group_id; assign() takes key ranges without it")
    if settings.cooperative:
        _check_cooperative(group_id, protocol, key_ranges=key_ranges)
    return MemberSettings(
        group_id=group_id,
        protocol=one_of("group_protocol", protocol, PROTOCOLS),
        instance_id=settings.group_instance_id,
        rack_id=settings.client_rack,
        assignor=settings.group_remote_assignor,
        assignors=_eager_ones(assignors_of(assignors)) if key_ranges else assignors_of(assignors),
        session_timeout_ms=check_positive("session_timeout_ms", session),
        heartbeat_interval_ms=check_positive("heartbeat_interval_ms", heartbeat),
        max_poll_interval_ms=check_positive("max_poll_interval_ms", settings.max_poll_interval_ms),
        key_ranges=key_ranges,
        cooperative=settings.cooperative,
        ranges_max=check_positive("max_num_ranges_to_commit", settings.max_num_ranges_to_commit),
    )


def _check_cooperative(group_id: str, protocol: str, *, key_ranges: bool) -> None:
    if not group_id:
        raise ConfigError("cooperative=True needs a group_id")
    if key_ranges:
        raise ConfigError(
            "key_ranges=True keeps the records of a key with one member, and cooperative=True does "
            "not: leave one of them out"
        )
    if protocol != "consumer":
        raise ConfigError("cooperative=True needs group_protocol='consumer'")


def _eager_ones(assignors: Sequence[Assignor]) -> Sequence[Assignor]:
    """The eager assignors. With them, members give up all partitions before they join, so that no
    key has two owners. Raises ConfigError: there is no eager one."""
    found = [one for one in assignors if one.protocol is RebalanceProtocol.EAGER]
    if not found:
        raise ConfigError(
            "key_ranges=True needs an assignor in partition_assignment_strategy that is not "
            "cooperative-sticky: range, roundrobin or sticky"
        )
    return found


def one_of(name: str, value: str, allowed: Iterable[str]) -> str:
    """The value. Raises ConfigError: it is not among ``allowed``."""
    known = list(allowed)
    if value not in known:
        raise ConfigError(f"{name} is {value!r}: write one of {', '.join(known)}")
    return value


def assignors_of(names: Sequence[str]) -> list[Assignor]:
    """The assignors of these names. Raises ConfigError: a name is unknown, or there is no name."""
    if not names:
        raise ConfigError("partition_assignment_strategy is empty: name an assignor")
    if isinstance(names, str):
        raise ConfigError(f"partition_assignment_strategy is {names!r}: write [{names!r}]")
    known = [one_of("partition_assignment_strategy", name, ASSIGNORS) for name in names]
    return [ASSIGNORS[name] for name in known]


def reset_timestamp(text: str) -> int | None:
    """The timestamp that ``auto_offset_reset`` means: EARLIEST, LATEST, or milliseconds since 1970;
    None: an error. A duration counts back from now.

    Raises:
        ConfigError: the text is no such setting.
    """
    if text == "none":
        return None
    try:
        reset = parse_offset_reset(text)
    except ValueError as error:
        raise ConfigError(
            f"auto_offset_reset is {text!r}: write 'earliest', 'latest', 'none' or "
            f"'by_duration:PT1H' ({error})"
        ) from None
    if reset.kind is OffsetResetKind.BY_DURATION:
        return wall_ms() - reset.duration_ms
    return EARLIEST if reset.kind is OffsetResetKind.EARLIEST else LATEST
