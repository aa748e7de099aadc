"""The producer's settings, checked before it connects."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, TypedDict

from sharegroup.client.clock import wall_ms
from sharegroup.client.core.setting_checks import check_kinds, check_names
from sharegroup.client.security.properties import SecuritySettings
from sharegroup.model.errors import ConfigError

CODECS: Final = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


class ProducerSettings(TypedDict, total=False):
    """What a ``Producer`` can be told by name, besides its brokers. Whatever is left out has its
    default.
    """

    enable_idempotence: bool
    """No duplicates and no reordering when requests are sent again. Default: True."""
    transactional_id: str | None
    """For :meth:`Producer.transaction`; a name that outlives the process. A new producer with the
    same name fences the older one. Default: None."""
    transaction_timeout_ms: int
    """The broker aborts a transaction that is open for longer. Default: 60_000."""
    acks: Literal["all", 1]
    """``"all"`` or 1; which replicas have the records before the broker answers. Default:
    'all'."""
    compression: str
    """``none``, ``gzip``, ``snappy``, ``lz4`` or ``zstd``, per batch. Default: 'none'."""
    batch_size: int
    """A batch is closed when it has this many bytes. A share group takes batches whole: with large
    batches, one consumer gets many records and others none. Default: 16_384."""
    linger_ms: int
    """How long a batch may wait for more records. With 0, a batch holds the records sent before the
    event loop runs again, or while a request is under way. Default: 0."""
    buffer_memory: int
    """Bytes that may wait to be sent. Default: 33_554_432."""
    max_block_ms: int
    """How long a record waits for room in the buffer, or for the leaders of its topic. A topic that
    does not exist is an error after 5 s. Default: 60_000."""
    max_request_size: int
    """The most bytes that one request may have, and one record. Default: 1_048_576."""
    delivery_timeout_ms: int
    """A record that is not confirmed within this time fails. Default: 120_000."""
    request_timeout_ms: int
    """How long a broker may take to answer a request. Default: 30_000."""
    client_id: str
    """The client's name in the broker's log and quotas. Default: 'sharegroup'."""
    clock_ms: Callable[[], int]
    """The wall clock, for records without a timestamp. Default: wall_ms."""
    security: SecuritySettings
    """TLS and SASL: a :class:`~sharegroup.client.Security`, or the properties of Java's clients or
    librdkafka for them; None: PLAINTEXT. Default: None."""
    jitter: random.Random | None
    """Where the pauses between retries get their randomness from. Default: None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedProducerSettings:
    """:class:`ProducerSettings`, complete: the defaults stand here.

    Raises:
        ConfigError: a setting is wrong, or two contradict each other.
    """

    enable_idempotence: bool = True
    transactional_id: str | None = None
    transaction_timeout_ms: int = 60_000
    acks: Literal["all", 1] = "all"
    compression: str = "none"
    batch_size: int = 16_384
    linger_ms: int = 0
    buffer_memory: int = 33_554_432
    max_block_ms: int = 60_000
    max_request_size: int = 1_048_576
    delivery_timeout_ms: int = 120_000
    request_timeout_ms: int = 30_000
    client_id: str = "sharegroup"
    clock_ms: Callable[[], int] = wall_ms
    security: SecuritySettings = None
    jitter: random.Random | None = None

    def __post_init__(self) -> None:
        check_kinds(self)
        if self.compression not in CODECS:
            known = ", ".join(CODECS)
            raise ConfigError(f"compression is {self.compression!r}: write one of {known}")
        if self.acks not in ("all", 1):
            raise ConfigError(f"acks is {self.acks!r}: write 'all' or 1")
        if self.transactional_id is not None and not self.idempotent:
            raise ConfigError("transactions need enable_idempotence=True and acks='all'")
        if self.transactional_id == "":
            raise ConfigError("transactional_id is empty: name the producer")

    @property
    def idempotent(self) -> bool:
        """Batches carry the producer's identity and sequence numbers."""
        return self.enable_idempotence and self.acks == "all"

    @property
    def record_size_max(self) -> int:
        """The most bytes that one record may have."""
        return min(self.max_request_size, self.buffer_memory)

    @property
    def max_block_s(self) -> float:
        """``max_block_ms``, in seconds."""
        return self.max_block_ms / 1000


def checked_settings(given: ProducerSettings) -> CheckedProducerSettings:
    """Settings with defaults for what was not given.

    Raises:
        ConfigError: a setting is wrong, or two contradict each other.
        TypeError: there is no such setting.
    """
    check_names("Producer", given, ProducerSettings.__annotations__)
    return CheckedProducerSettings(**given)
