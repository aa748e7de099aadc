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
from sharegroup.model.limits import PAUSE_MS_MAX

log = logging.getLogger("sharegroup.worker")

_LIMIT_DEFAULT: Final = 5
_KNOWS_ORDER: Final = "share.blocked.records"
"""The feature of a broker whose groups may have order per key."""
WRITES_LETTERS: Final = "share.dead.letters"
"""The feature of a broker that writes dead letters and loses none."""
LETS_REST: Final = "share.release.backoff"
"""The feature of a broker that keeps the pauses of records which are released."""
LETTERS_TOPIC: Final = "errors.deadletterqueue.topic.name"


class Reject(Exception):
    """A handler raises this if its record can never be processed: the worker makes no further
    attempt.
    """


class DeliveriesUsedUp(Exception):
    """Why the worker gives up on a record without trying: all deliveries before the last ended
    without an acknowledgement, for instance because the process died.
    """


@dataclass(frozen=True, slots=True)
class Backoff:
    """How a worker retries. After its n-th delivery failed, a record rests for
    ``first_s * factor ** (n - 1)`` seconds, and then comes again to any member. It rests at the
    broker where the broker can do that, else the worker holds it.

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
    ``letters_topic``: where the broker writes dead letters, with what the worker says; None: it
    writes none.
    ``rests``: a record that is released may rest at the broker.
    ``tells_why``: the broker takes what the worker says of a record that failed: its dead letter
    says it, whenever the group gets a topic for dead letters.
    """

    limit: int
    attempts: int
    renewable: bool
    ordered: bool = False
    letters_topic: str | None = None
    rests: bool = False
    tells_why: bool = False

    def pause_ms(self, pause_s: float | None) -> int | None:
        """The pause that a release asks the broker for, in milliseconds; None: it asks for none, or
        the broker could not do it."""
        if pause_s is None or not self.rests:
            return None
        return min(round(pause_s * 1000), PAUSE_MS_MAX)

    def end_of(self, own_topic: str | None) -> str:
        """What becomes of a record that is given up. ``own_topic``: of the worker's own dead
        letters."""
        if own_topic is not None:
            return f"it is sent to {own_topic}"
        topic = self.letters_topic
        return f"it is rejected, and the broker sends it to {topic}" if topic else "it is rejected"


async def deliveries_of(
    cluster: Cluster, group_id: str, retry: Backoff, *, dead_letter: str | None
) -> Deliveries:
    """Read the group's settings.

    If the worker writes dead letters itself, one delivery is reserved: if the last delivery ends
    without an acknowledgement, for instance because the worker is killed, the broker archives the
    record silently. A broker that writes the dead letters needs no such reserve.

    Args:
        dead_letter: the topic for the worker's own dead letters.

    Raises:
        ConfigError: the broker writes the group's dead letters to another topic.
    """
    limit, renewable, ordered, topic = await _group_settings(cluster, group_id)
    if topic is not None and WRITES_LETTERS not in cluster.features:
        if dead_letter is not None and _KNOWS_ORDER not in cluster.features:
            log.warning("Apache Kafka writes dead letters of %s to %s, too", group_id, topic)
        topic = None
    if topic is not None and dead_letter not in (None, topic):
        raise ConfigError(
            f"dead_letter is {dead_letter!r}, but the broker writes the dead letters of {group_id} "
            f"to {topic!r}: leave dead_letter out, or clear the group's {LETTERS_TOPIC}"
        )
    reserves = dead_letter is not None and topic is None
    usable = max(1, limit - 1) if reserves else limit
    attempts = usable if retry.attempts is None else retry.attempts
    if attempts > usable:
        reserve = ", and keeps the last for the dead letter" if reserves else ""
        log.warning(
            "attempts is %d, but the group %s delivers a record %d times%s: a record is given up "
            "after %d; raise share.delivery.count.limit for more",
            attempts,
            group_id,
            limit,
            reserve,
            usable,
        )
    return Deliveries(
        limit,
        min(attempts, usable),
        renewable,
        ordered,
        topic,
        rests=LETS_REST in cluster.features,
        tells_why=WRITES_LETTERS in cluster.features,
    )


async def _group_settings(cluster: Cluster, group_id: str) -> tuple[int, bool, bool, str | None]:
    """The delivery limit, whether locks may be renewed, whether there is order per key, and the
    topic of the group's dead letters.

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
        return _LIMIT_DEFAULT, True, ordered, None
    renew = group.get("share.renew.acknowledge.enable")
    count = int(limit.value) if limit is not None and limit.value else _LIMIT_DEFAULT
    ordering = group.get("share.ordering")
    ordered = ordering is not None and ordering.value == "key"
    letters = group.get(LETTERS_TOPIC)
    topic = letters.value or None if letters is not None else None
    return count, renew is None or renew.value != "false", ordered, topic
