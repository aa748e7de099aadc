"""When a record whose handler failed comes again, and when a worker gives up on it."""

from __future__ import annotations

import logging
import random
from dataclasses import dataclass
from typing import Final, NamedTuple

from sharegroup.client.admin.admin import Admin
from sharegroup.client.core.retry import RetryPolicy
from sharegroup.client.network.cluster import Cluster
from sharegroup.model.errors import ConfigError, KafkaError

log = logging.getLogger("sharegroup.worker")

_LIMIT_DEFAULT: Final = 5
_KNOWS_ORDER: Final = "share.blocked.records"
"""The feature of a broker whose groups may have order per key."""


class Reject(Exception):
    """A handler raises this if its record can never be processed: the worker makes no further
    attempt.
    """


@dataclass(frozen=True, slots=True)
class Backoff:
    """How a worker retries. After its n-th delivery failed, a record is held for
    ``first_s * factor ** (n - 1)`` seconds and then released, for delivery to any member.

    Args:
        first_s: the first pause, in seconds.
        factor: how much longer each pause is than the one before.
        max_s: the longest pause, before jitter.
        jitter: each pause is made longer or shorter by up to this fraction.
        attempts: how many deliveries may fail before the worker gives up on the record; None: as
            many as the group's delivery limit allows.

    Raises:
        ConfigError: an argument is invalid.
    """

    first_s: float = 1.0
    factor: float = 2.0
    max_s: float = 60.0
    jitter: float = 0.2
    attempts: int | None = None

    def __post_init__(self) -> None:
        for name in ("first_s", "max_s"):
            if getattr(self, name) < 0:
                raise ConfigError(f"{name} is {getattr(self, name)}: it must be at least 0")
        if self.factor < 1:
            raise ConfigError(f"factor is {self.factor}: it must be at least 1")
        if not 0 <= self.jitter <= 1:
            raise ConfigError(f"jitter is {self.jitter}: it must be between 0 and 1")
        if self.attempts is not None and self.attempts < 1:
            raise ConfigError(f"attempts is {self.attempts}: it must be at least 1")

    def pause_s(self, delivery_count: int, chance: random.Random) -> float:
        """The pause after this delivery failed, in seconds."""
        policy = RetryPolicy(self.first_s * 1000, self.max_s * 1000, self.factor, self.jitter)
        return policy.pause_ms(max(delivery_count, 1), chance.random()) / 1000


class Deliveries(NamedTuple):
    """The deliveries that the group allows.

    ``limit``: at this delivery count the broker archives a record that is not accepted.
    ``attempts``: the worker gives up on a record that fails at this delivery count.
    ``renewable``: locks may be renewed.
    ``ordered``: the records of a key are to be handled in order (``share.ordering=key``).
    """

    limit: int
    attempts: int
    renewable: bool
    ordered: bool = False


async def deliveries_of(
    cluster: Cluster, group_id: str, retry: Backoff, *, dead_letters: bool
) -> Deliveries:
    """Read the group's settings.

    With dead letters, one delivery is reserved: if the last delivery ends without an
    acknowledgement, for instance because the worker is killed, the broker archives the record
    silently.
    """
    limit, renewable, ordered = await _group_settings(cluster, group_id)
    usable = max(1, limit - 1) if dead_letters else limit
    attempts = usable if retry.attempts is None else retry.attempts
    if attempts > usable:
        reserve = ", and keeps the last for the dead letter" if dead_letters else ""
        log.warning(
            "attempts is %d, but the group %s delivers a record %d times%s: a record is given up "
            "after %d; raise share.delivery.count.limit for more",
            attempts,
            group_id,
            limit,
            reserve,
            usable,
        )
    return Deliveries(limit, min(attempts, usable), renewable, ordered)


async def _group_settings(cluster: Cluster, group_id: str) -> tuple[int, bool, bool]:
    """The delivery limit, whether locks may be renewed, and whether there is order per key.

    If the client may not read the group's settings, it keeps the order, provided that the broker
    knows order per key. That is never wrong, and costs only that records of one key are not handled
    at the same time.
    """
    admin = Admin(cluster=cluster)
    try:
        group = await admin.describe_configs("group", group_id)
        limit = group.get("share.delivery.count.limit")
        if limit is None:  # Apache Kafka before 4.3 has one limit for all groups of a broker
            nodes = (await admin.describe_cluster()).nodes
            broker = await admin.describe_configs("broker", str(nodes[0].node_id))
            limit = broker.get("group.share.delivery.count.limit")
    except KafkaError as error:
        ordered = _KNOWS_ORDER in cluster.features
        log.warning(
            "the settings of %s are not known (%s): assuming a delivery limit of %d%s",
            group_id,
            error,
            _LIMIT_DEFAULT,
            ", and handling the records of a key in order" if ordered else "",
        )
        return _LIMIT_DEFAULT, True, ordered
    renew = group.get("share.renew.acknowledge.enable")
    count = int(limit.value) if limit is not None and limit.value else _LIMIT_DEFAULT
    ordering = group.get("share.ordering")
    ordered = ordering is not None and ordering.value == "key"
    return count, renew is None or renew.value != "false", ordered
