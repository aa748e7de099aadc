"""The settings of a share consumer: their names for type checkers, their defaults, their checks."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypedDict

from sharegroup.client.core.held_deliveries import AcknowledgementMode
from sharegroup.client.core.record import K, V
from sharegroup.client.core.setting_checks import check_kinds, check_names, check_positive
from sharegroup.client.security.properties import SecuritySettings
from sharegroup.client.share.commit_callback import AckCallback
from sharegroup.model.errors import ConfigError
from sharegroup.model.printable import encodable

AcquireMode = Literal["batch_optimized", "record_limit"]
Mode = Literal["implicit", "explicit"]


class ShareConsumerSettings(TypedDict, Generic[K, V], total=False):
    """What can be passed to a ``ShareConsumer`` by name, in ``sharegroup`` and in
    ``sharegroup.sync``. :class:`CheckedShareConsumerSettings` holds the defaults.
    """

    bootstrap_servers: str | Iterable[str]
    """``host:port,…`` or a list. Default: ``'127.0.0.1:9092'``."""
    auto_offset_reset: str | None
    """Where the group begins if it does not exist yet: ``earliest``, ``latest`` or
    ``by_duration:PT1H``. This sets the group's config ``share.auto.offset.reset`` (the broker's
    default: ``latest``). A group that exists continues where it is. Default: ``None``, the group's
    config stays as it is."""
    key_deserializer: Callable[[bytes], K] | None
    """Turns a key's bytes into the application's object; null stays None. If it raises, the poll
    raises :class:`RecordDeserializationError`. Default: ``None``, keys are bytes."""
    value_deserializer: Callable[[bytes], V] | None
    """As ``key_deserializer``, for values. Default: ``None``."""
    acknowledgement_mode: Mode
    """``implicit``: the next :meth:`poll`, or the next step of an ``async for``, accepts the
    previous records; ``explicit``: the application calls :meth:`accept`, :meth:`release`,
    :meth:`reject` or :meth:`renew` for every record. Default: ``'implicit'``."""
    acquire_mode: AcquireMode
    """``batch_optimized``: acquire whole record batches, so a poll may return more than
    ``max_poll_records``; the next batches are fetched while the application works.
    ``record_limit``: never more than ``max_poll_records``, no prefetch, one broker at a time.
    Default: ``'batch_optimized'``."""
    renew_locks: bool
    """Renew the acquisition locks of all held records in the background, for at most
    ``max_poll_interval_ms`` after a poll; needs Apache Kafka 4.2 or our broker. Default:
    ``False``."""
    max_poll_records: int
    """The most records that a poll returns, or about as many: see ``acquire_mode``. Default:
    ``500``."""
    max_poll_interval_ms: int
    """The member leaves the group when the application does not poll for this long, and joins again
    with the next poll. Default: ``300_000``."""
    fetch_min_bytes: int
    """How many bytes a broker waits for, for at most ``fetch_max_wait_ms``. Default: ``1``."""
    fetch_max_bytes: int
    """The most bytes of a fetch, except that one record batch always comes. Default:
    ``52_428_800``."""
    fetch_max_wait_ms: int
    """How long a broker may wait for ``fetch_min_bytes``. A :meth:`commit` waits as well, if a
    fetch is under way on its connection. Default: ``500``."""
    check_crcs: bool
    """Check the checksum of each batch. Default: ``True``."""
    client_id: str
    """This client's name in the broker's logs, metrics and quotas. Default: ``'sharegroup'``."""
    client_rack: str | None
    """The rack of this client, told to the group. Default: ``None``."""
    request_timeout_ms: int
    """How long a request may take. Default: ``30_000``."""
    acknowledgement_commit_callback: AckCallback | None
    """Called in :meth:`poll`, :meth:`commit` and :meth:`close` with ({partition: offset ranges},
    error or None) for completed acknowledgements. Default: ``None``."""
    security: SecuritySettings
    """TLS and SASL: a :class:`~sharegroup.client.Security`, or the properties of Java's clients or
    librdkafka for them. Default: ``None``, PLAINTEXT."""
    jitter: random.Random | None
    """The source of all randomness here; a simulator gives a seeded one. Default: ``None``, a new
    one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedShareConsumerSettings:
    """The settings of one share consumer, with the defaults; :class:`ShareConsumerSettings`
    explains them.

    Raises:
        ConfigError: a setting is invalid.
    """

    group_id: str
    bootstrap_servers: str | Iterable[str] = "127.0.0.1:9092"
    auto_offset_reset: str | None = None
    key_deserializer: Callable[[bytes], Any] | None = None
    value_deserializer: Callable[[bytes], Any] | None = None
    acknowledgement_mode: Mode = "implicit"
    acquire_mode: AcquireMode = "batch_optimized"
    renew_locks: bool = False
    max_poll_records: int = 500
    max_poll_interval_ms: int = 300_000
    fetch_min_bytes: int = 1
    fetch_max_bytes: int = 52_428_800
    fetch_max_wait_ms: int = 500
    check_crcs: bool = True
    client_id: str = "sharegroup"
    client_rack: str | None = None
    request_timeout_ms: int = 30_000
    acknowledgement_commit_callback: AckCallback | None = None
    security: SecuritySettings = None
    jitter: random.Random | None = None

    def __post_init__(self) -> None:
        check_kinds(self)
        if not self.group_id:
            raise ConfigError("group_id is empty: name the share group")
        if encodable(self.group_id) != self.group_id:
            raise ConfigError(f"group_id is {self.group_id!r}, no UTF-8 text")
        check_positive("max_poll_records", self.max_poll_records)
        check_positive("max_poll_interval_ms", self.max_poll_interval_ms)
        _check_choice("acknowledgement_mode", self.acknowledgement_mode, "implicit", "explicit")
        _check_choice("acquire_mode", self.acquire_mode, "batch_optimized", "record_limit")

    @property
    def mode(self) -> AcknowledgementMode:
        """The acknowledgement mode."""
        return AcknowledgementMode(self.acknowledgement_mode)

    @property
    def strict(self) -> bool:
        """Whether ``max_poll_records`` is never exceeded."""
        return self.acquire_mode == "record_limit"


def checked_settings(
    group_id: str, given: ShareConsumerSettings[Any, Any]
) -> CheckedShareConsumerSettings:
    """The settings that an application gave, and the defaults of the others.

    Raises:
        TypeError: there is no setting of a name.
        ConfigError: a setting is invalid.
    """
    check_names("ShareConsumer", given, ShareConsumerSettings.__annotations__)
    return CheckedShareConsumerSettings(group_id=group_id, **given)


def _check_choice(name: str, value: Any, *choices: str) -> None:
    if value not in choices:
        wanted = " or ".join(map(repr, choices))
        raise ConfigError(f"{name} is {value!r}: write {wanted}")
