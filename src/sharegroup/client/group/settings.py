"""The consumer's settings, checked before it connects."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from sharegroup.client.clock import wall_ms
from sharegroup.client.core.assignors import ASSIGNORS, Assignor, RebalanceProtocol
from sharegroup.client.core.positions import EARLIEST, LATEST
from sharegroup.client.core.setting_checks import check_at_least_0, check_positive
from sharegroup.groups.offset_reset import OffsetResetKind, parse_offset_reset
from sharegroup.model.errors import ConfigError

PROTOCOLS: Final = ("consumer", "classic")
ISOLATION_LEVELS: Final = ("read_uncommitted", "read_committed")


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


def member_settings(
    *,
    group_id: str,
    protocol: str,
    instance_id: str | None,
    rack_id: str | None,
    assignor: str | None,
    assignors: Sequence[str],
    times_ms: tuple[int, int, int],
    sharing: tuple[bool, bool, int],
) -> MemberSettings:
    """Checked settings.

    Args:
        times_ms: the session's time-out, the time between heartbeats, the most time between polls.
        sharing: whether partitions are shared by key; whether they are shared in turns; and how
            many ranges may be uncommitted.

    Raises:
        ConfigError: a setting is wrong.
    """
    session, heartbeat, poll = times_ms
    key_ranges, cooperative, ranges_max = sharing
    if instance_id == "":
        raise ConfigError("group_instance_id is empty: give the static member a name, or None")
    if protocol == "classic" and heartbeat >= session:
        raise ConfigError(
            f"heartbeat_interval_ms is {heartbeat}: it must be less than session_timeout_ms, "
            f"{session}"
        )
    if key_ranges and not group_id:
        raise ConfigError("key_ranges=True needs a group_id; assign() takes key ranges without it")
    if cooperative:
        _check_cooperative(group_id, protocol, key_ranges=key_ranges)
    return MemberSettings(
        group_id=group_id,
        protocol=one_of("group_protocol", protocol, PROTOCOLS),
        instance_id=instance_id,
        rack_id=rack_id,
        assignor=assignor,
        assignors=_eager_ones(assignors_of(assignors)) if key_ranges else assignors_of(assignors),
        session_timeout_ms=check_positive("session_timeout_ms", session),
        heartbeat_interval_ms=check_positive("heartbeat_interval_ms", heartbeat),
        max_poll_interval_ms=check_positive("max_poll_interval_ms", poll),
        key_ranges=key_ranges,
        cooperative=cooperative,
        ranges_max=check_positive("max_num_ranges_to_commit", ranges_max),
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


def is_committed(isolation_level: str) -> bool:
    """Whether the level is ``read_committed``. Raises ConfigError: there is no such level."""
    return one_of("isolation_level", isolation_level, ISOLATION_LEVELS) == "read_committed"


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
