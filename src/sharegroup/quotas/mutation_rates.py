"""How many partitions a client may create and delete per second, by ``controller_mutation_rate``
(KIP-599; Kafka classes ControllerMutationQuotaManager, TokenBucket).

A client has a bucket of tokens. It fills at the rate, and holds as many tokens as fill in within
the window. Each partition takes a token. A request may take more tokens than there are: then their
number is negative, and the client has to wait until it is 0 again.
"""

from __future__ import annotations

from collections.abc import Mapping

from sharegroup.model.config import INT_MAX
from sharegroup.quotas.client_table import ClientTable
from sharegroup.quotas.entity import Entity
from sharegroup.quotas.precedence import Precedence
from sharegroup.quotas.rate import RateWindow


class TokenBucket:
    """The tokens of one client."""

    __slots__ = ("_now_ms", "_per_s", "_tokens")

    def __init__(self) -> None:
        self._tokens: float | None = None  # None: the bucket is full
        self._per_s = 0.0
        self._now_ms = 0

    def tokens(self, per_s: float, window: RateWindow, now_ms: int) -> float:
        """How many tokens there are; negative after more were taken than there were."""
        most = per_s * window.whole_ms / 1000
        if self._tokens is None:
            self._tokens = most
        passed_s = max(now_ms - self._now_ms, 0) / 1000
        self._tokens = min(most, self._tokens + per_s * passed_s)
        self._per_s, self._now_ms = per_s, now_ms
        return self._tokens

    def take(self, count: float, per_s: float, window: RateWindow, now_ms: int) -> None:
        """Take ``count`` tokens, even if there are fewer."""
        self._tokens = self.tokens(per_s, window, now_ms) - count

    def wait_ms(self, per_s: float, window: RateWindow, now_ms: int) -> int:
        """How long until the number of tokens is not negative."""
        missing = -self.tokens(per_s, window, now_ms)
        return 0 if missing <= 0 else min(round(min(missing / per_s, INT_MAX) * 1000), INT_MAX)

    def is_idle(self, window: RateWindow, now_ms: int) -> bool:
        """Whether the bucket is full."""
        if self._tokens is None:
            return True
        return self.tokens(self._per_s, window, now_ms) >= self._per_s * window.whole_ms / 1000

    def check_invariants(self, window: RateWindow) -> None:
        """Raise AssertionError if there are more tokens than the bucket holds."""
        if self._tokens is not None:
            assert self._tokens <= self._per_s * window.whole_ms / 1000 * (1 + 1e-9)


class MutationRates:
    """The buckets of all clients."""

    def __init__(self, window: RateWindow) -> None:
        self._window = window
        self._quotas = Precedence({})
        self._buckets: ClientTable[TokenBucket] = ClientTable(window, TokenBucket)

    def __len__(self) -> int:
        """Clients followed on their own."""
        return len(self._buckets)

    @property
    def active(self) -> bool:
        """Whether there is a quota."""
        return bool(self._quotas)

    def set_quotas(self, quotas: Mapping[Entity, float]) -> None:
        """Set the quotas. Clients whose quota stays keep their bucket."""
        self._quotas = Precedence(quotas)
        self._buckets.keep_only(quotas)

    def take(self, user: str, client_id: str, count: int, now_ms: int, *, strict: bool) -> int:
        """The client creates or deletes partitions. Returns how long it has to wait.

        Args:
            strict: a client that has to wait may not go on, and no token is taken. If not
                ``strict``, the client may go on, and waits afterwards.
        """
        applied = self._quotas.find(user, client_id)
        if applied is None:
            return 0
        bucket = self._buckets.use(applied, user, client_id, now_ms)
        if strict:
            wait_ms = bucket.wait_ms(applied.value, self._window, now_ms)
            if wait_ms:
                return wait_ms
        bucket.take(count, applied.value, self._window, now_ms)
        return 0 if strict else bucket.wait_ms(applied.value, self._window, now_ms)

    def forget_idle(self, now_ms: int) -> None:
        """Drop full buckets."""
        self._buckets.forget_idle(now_ms)

    def check_invariants(self) -> None:
        """Raise AssertionError if there are too many buckets, or a bucket contradicts itself."""
        self._buckets.check_invariants()
