"""Quotas at work: what a request and a connection cost, and how long their client waits.

Kafka's semantics (KIP-13, KIP-124, KIP-219, KIP-599, KIP-612), with two differences. An answer to
Fetch or ShareFetch gets only as many records as the quota leaves, but at least one batch, and is
sent. Kafka reads all records, and sends an empty answer instead if they were too many. And
``request_percentage`` is a percentage of the one thread that there is: it counts the time in which
a request's own task decodes, handles and encodes on the event loop, not the time in which it waits.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Mapping
from typing import Any, Final, Generic, TypeVar

from sharegroup.broker.configs.broker import BrokerConfig
from sharegroup.model.config import INT_MAX
from sharegroup.model.environment import Clock
from sharegroup.model.errors import ThrottlingQuotaExceeded
from sharegroup.quotas.client_rates import ClientRates
from sharegroup.quotas.connection_rates import AT_ONCE, ConnectionAdmission, ConnectionRates
from sharegroup.quotas.entity import (
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    Entity,
)
from sharegroup.quotas.mutation_rates import MutationRates
from sharegroup.quotas.rate import RateWindow
from sharegroup.wire import apis

T = TypeVar("T")

BROKER_CONNECTION_RATE: Final = "max.connection.creation.rate"

_READS: Final = frozenset((apis.FETCH.key, apis.SHARE_FETCH.key))
_MUTATES: Final = {
    apis.CREATE_TOPICS.key: 6,
    apis.CREATE_PARTITIONS.key: 3,
    apis.DELETE_TOPICS.key: 5,
    apis.METADATA.key: 1 << 15,
}
"""APIs that create or delete partitions, and the version from which on a client knows the error
THROTTLING_QUOTA_EXCEEDED."""
_EXEMPT: Final = frozenset((apis.WRITE_TXN_MARKERS.key,))
"""Keys of requests between brokers, which request_percentage does not count."""


class ThrottleMeter:
    """Throttles by one kind of quota."""

    __slots__ = ("throttled", "throttled_ms")

    def __init__(self) -> None:
        self.throttled = 0
        self.throttled_ms = 0


class Timed(Generic[T]):
    """Awaits a coroutine, and measures how long its steps run.

    Args:
        now_s: a clock.
    """

    def __init__(self, work: Coroutine[Any, Any, T], now_s: Callable[[], float]) -> None:
        self._work = work
        self._now_s = now_s
        self.seconds = 0.0

    def __await__(self) -> Generator[Any, Any, T]:
        """The steps of the coroutine."""
        step: Callable[[Any], Any] = self._work.send
        given: Any = None
        while True:
            started = self._now_s()
            try:
                awaited = step(given)
            except StopIteration as done:
                result: T = done.value
                return result
            finally:
                self.seconds += self._now_s() - started
            try:
                step, given = self._work.send, (yield awaited)
            except BaseException as error:  # noqa: BLE001  the coroutine's to handle: a cancellation
                step, given = self._work.throw, error


class Mutations:
    """Partitions that one request creates and deletes (Kafka class ControllerMutationQuota).

    Args:
        take: charges a number of partitions; returns for how long the client has to wait.
        strict: a client that has to wait is refused.
    """

    def __init__(self, take: Callable[[int], int], *, strict: bool) -> None:
        self._take = take
        self._strict = strict
        self.throttle_ms = 0

    def charge(self, partitions: int) -> None:
        """Charge the client, before partitions are created or deleted.

        Raises:
            ThrottlingQuotaExceeded: the client has to wait.
        """
        wait_ms = self._take(partitions)
        self.throttle_ms = max(self.throttle_ms, wait_ms)
        if wait_ms and self._strict:
            raise ThrottlingQuotaExceeded


class Quotas:
    """All quotas of one broker.

    ``active``: whether any client can have a quota. If not, a request asks nothing else.
    """

    def __init__(self, config: Callable[[], BrokerConfig], clock: Clock) -> None:
        seconds = config().integer("quota.window.size.seconds")
        window = RateWindow(config().integer("quota.window.num"), seconds * 1000)
        self._config = config
        self._now_ms = clock.monotonic_ms
        self._produced = ClientRates(window)
        self._consumed = ClientRates(window)
        self._requests = ClientRates(window, throttle_ms_max=window.sample_ms)
        self._connections = ConnectionRates(window)
        seconds = config().integer("controller.quota.window.size.seconds")
        controller = RateWindow(config().integer("controller.quota.window.num"), seconds * 1000)
        self._mutations = MutationRates(controller)
        self.active = False
        self.meters = {
            name: ThrottleMeter()
            for name in (
                PRODUCER_BYTE_RATE,
                CONSUMER_BYTE_RATE,
                REQUEST_PERCENTAGE,
                CONTROLLER_MUTATION_RATE,
                CONNECTION_CREATION_RATE,
                BROKER_CONNECTION_RATE,
            )
        }

    @property
    def _all(self) -> tuple[ClientRates | MutationRates | ConnectionRates, ...]:
        clients = (self._produced, self._consumed, self._requests)
        return (*clients, self._mutations, self._connections)

    @property
    def followed(self) -> int:
        """Clients and addresses whose rates are kept."""
        return sum(map(len, self._all))

    def set_quotas(self, quotas: Mapping[tuple[Entity, str], float]) -> None:
        """Replace all quotas. They are given by entity and name."""
        of: dict[str, dict[Entity, float]] = {}
        for (entity, name), value in quotas.items():
            of.setdefault(name, {})[entity] = value
        self._produced.set_quotas(of.get(PRODUCER_BYTE_RATE, {}))
        self._consumed.set_quotas(of.get(CONSUMER_BYTE_RATE, {}))
        self._requests.set_quotas(of.get(REQUEST_PERCENTAGE, {}))
        self._mutations.set_quotas(of.get(CONTROLLER_MUTATION_RATE, {}))
        self._connections.set_quotas(of.get(CONNECTION_CREATION_RATE, {}))
        clients = (self._produced, self._consumed, self._requests, self._mutations)
        self.active = any(rates.active for rates in clients)

    def forget_idle(self) -> None:
        """Drop the rates of clients that have done nothing lately."""
        now_ms = self._now_ms()
        for rates in self._all:
            rates.forget_idle(now_ms)

    def admit(self, host: str) -> ConnectionAdmission:
        """Decide on a new connection from an address: whether it has to wait, or is refused."""
        rate_max = self._config().integer(BROKER_CONNECTION_RATE)
        if rate_max == INT_MAX and not self._connections.active:
            return AT_ONCE
        admission = self._connections.admit(host, rate_max, self._now_ms())
        name = CONNECTION_CREATION_RATE if admission.refused else BROKER_CONNECTION_RATE
        self._count(name, admission.wait_ms)
        return admission

    def answer_bytes_max(self, principal: str, client_id: str) -> int:
        """How many bytes of records an answer may have; at least 1, so that one batch is sent."""
        left = self._consumed.left(_name(principal), client_id, self._now_ms())
        return INT_MAX if left is None else int(max(1, min(left, INT_MAX)))

    def request(
        self, key: int, principal: str, client_id: str, request_bytes: int, answer_bytes: int
    ) -> int:
        """For how many milliseconds the client is to be throttled for the bytes of a request of
        the API ``key`` and of its answer."""
        user, now_ms = _name(principal), self._now_ms()
        if key == apis.PRODUCE.key and self._produced.active:
            name, rates, amount = PRODUCER_BYTE_RATE, self._produced, request_bytes
        elif key in _READS and self._consumed.active:
            name, rates, amount = CONSUMER_BYTE_RATE, self._consumed, answer_bytes
        else:
            return 0
        return self._count(name, rates.record(user, client_id, amount, now_ms))

    def time(
        self, key: int, principal: str, client_id: str, seconds: float, *, answered: bool = True
    ) -> int:
        """As :meth:`request`, for the time that the request took.

        Args:
            answered: whether the request has an answer; without an answer the time counts, but does
                not throttle.
        """
        if key in _EXEMPT or not self._requests.active:
            return 0
        now_ms = self._now_ms()
        throttle_ms = self._requests.record(_name(principal), client_id, seconds * 100, now_ms)
        return self._count(REQUEST_PERCENTAGE, throttle_ms if answered else 0)

    def mutations(self, key: int, version: int, principal: str, client_id: str) -> Mutations | None:
        """The quota of partitions that a request of the API ``key`` may create or delete; None: any
        number."""
        strict_from = _MUTATES.get(key)
        if strict_from is None or not self._mutations.active:
            return None
        user = _name(principal)

        strict = version >= strict_from

        def take(count: int) -> int:
            return self._mutations.take(user, client_id, count, self._now_ms(), strict=strict)

        return Mutations(take, strict=strict)

    def mutated(self, mutations: Mutations | None) -> int:
        """For how many milliseconds the client is to be throttled for the partitions that it
        created and deleted."""
        throttle_ms = mutations.throttle_ms if mutations is not None else 0
        return self._count(CONTROLLER_MUTATION_RATE, throttle_ms)

    def _count(self, name: str, throttle_ms: int) -> int:
        if throttle_ms:
            meter = self.meters[name]
            meter.throttled += 1
            meter.throttled_ms += throttle_ms
        return throttle_ms


def _name(principal: str) -> str:
    """A principal without its type: quotas of users name no type."""
    return principal.partition(":")[2]
