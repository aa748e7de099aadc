"""The rate of each tenant (``share.fairness.rate.…``), over the partitions of a group."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from sharegroup.share.order.classed_order import fair_order
from sharegroup.share.partition import SharePartition
from sharegroup.share.rate import RateLimit
from sharegroup.share.settings import DeliverySettings, Fairness
from sharegroup.share.tenant_rates import TenantRates
from tests.share.keyed import keyed_partition

ONE_A_SECOND = RateLimit(1, 1_000)


class Group:
    """A log of tenants for each partition, a letter for each record, and what was given."""

    def __init__(self, limit: RateLimit | None, *logs: str) -> None:
        self.rates = None if limit is None else TenantRates(limit)
        self.settings = DeliverySettings(
            lock_ms=10**9,
            delivery_count_limit=5,
            record_locks_max=1_000_000,
            fairness=Fairness(rate=limit),
        )
        self.logs = logs
        self.partitions: list[SharePartition] = []
        for log in logs:
            partition = keyed_partition(order=fair_order)
            partition.order.configure(self.settings)
            partition.order.load(range(len(log)), [ord(one) for one in log], len(log))
            self.partitions.append(partition)
        self.given: list[tuple[int, str]] = []

    def fetch(self, now_ms: int, most: int = 500, at: int = 0) -> str:
        """Whose records a member gets, from a read of the whole log of a partition."""
        partition, log = self.partitions[at], self.logs[at]
        acquisition = partition.acquire(
            "m", [(0, len(log) - 1)], fetch_offset=0, records_max=most, batch_size=500,
            strict=True, now_ms=now_ms, settings=self.settings, tenant_rates=self.rates,
        )  # fmt: skip
        partition.check_invariants()
        got = [log[n] for first, last, _ in acquisition.ranges for n in range(first, last + 1)]
        self.given += [(now_ms, one) for one in got]
        return "".join(got)

    def tick(self, now_ms: int) -> None:
        for partition in self.partitions:
            partition.tick(now_ms, self.settings)
            partition.check_invariants()


def test_a_tenant_at_its_rate_lets_the_others_go_on() -> None:
    group = Group(ONE_A_SECOND, "aaab")
    partition = group.partitions[0]
    assert group.fetch(0) == "ab"
    assert group.fetch(10) == ""
    assert partition.next_deadline_ms() == 1_000
    assert partition.next_fetch_offset("m") == 4, "nothing to read"
    group.tick(999)
    assert group.fetch(999) == ""
    group.tick(1_000)
    assert partition.next_fetch_offset("m") == 1
    assert group.fetch(1_000) == "a"


def test_partitions_share_the_rate_of_a_tenant() -> None:
    group = Group(ONE_A_SECOND, "aa", "aab")
    assert group.fetch(0, at=0) == "a"
    assert group.fetch(0, at=1) == "b"
    group.tick(1_000)
    assert group.fetch(1_000, at=1) == "a"
    assert group.fetch(1_000, at=0) == ""


def test_no_turns_are_saved_up_while_the_rate_holds_back() -> None:
    group = Group(RateLimit(1, 1_000), "a" * 9 + "b" * 9)
    assert group.fetch(0) == "ab"
    group.settings = DeliverySettings(
        lock_ms=10**9, delivery_count_limit=5, record_locks_max=10**6, fairness=Fairness()
    )
    group.rates = None
    assert group.fetch(1, most=4) == "aabb"


def test_a_limit_that_ends_lets_all_go_on_at_once() -> None:
    group = Group(ONE_A_SECOND, "aaa")
    assert group.fetch(0) == "a"
    assert group.fetch(0) == ""
    group.rates = None
    group.partitions[0].order.configure(
        DeliverySettings(
            lock_ms=1, delivery_count_limit=5, record_locks_max=100, fairness=Fairness()
        )
    )
    assert group.partitions[0].next_fetch_offset("m") == 1
    assert group.partitions[0].next_deadline_ms() is not None, "the lock of the record"


def test_full_buckets_are_forgotten() -> None:
    rates = TenantRates(RateLimit(1_000, 1_000))
    for tenant in range(10_000):
        rates.use(tenant, 1, tenant)
    assert len(rates) < 3_000


def test_a_changed_limit_holds_for_all_at_once() -> None:
    rates = TenantRates(RateLimit(1_000, 1_000))
    assert rates.room(1, 0) == 100
    rates.change(RateLimit(100, 1_000), 0)
    assert (rates.room(1, 0), rates.room(2, 0)) == (10, 10)


@settings(max_examples=60)
@given(
    st.lists(st.lists(st.sampled_from("abc"), min_size=1, max_size=40), min_size=1, max_size=3),
    st.builds(RateLimit, st.integers(1, 50), st.sampled_from([100, 1_000])),
    st.integers(1, 20),
    st.lists(st.integers(0, 300), min_size=1, max_size=9),
)
def test_all_is_delivered_and_no_stretch_sees_more(
    logs: list[list[str]], limit: RateLimit, most: int, pauses: list[int]
) -> None:
    """The naive model: all that was given, with its time."""
    group = Group(limit, *["".join(log) for log in logs])
    left = Counter(one for log in logs for one in log)
    now_ms = step = 0
    while left and now_ms < 1_000_000:
        for at in range(len(logs)):
            left -= Counter(group.fetch(now_ms, most, at))
        due = [one.order.next_ms for one in group.partitions if one.order.next_ms is not None]
        now_ms = max(now_ms + pauses[step % len(pauses)], min(due, default=0))
        step += 1
        group.tick(now_ms)
    assert not left
    bucket = max(1, limit.records * 100 / limit.interval_ms)
    for tenant in "abc":
        times = [at_ms for at_ms, one in group.given if one == tenant]
        for first, since_ms in enumerate(times):
            for last, until_ms in enumerate(times[first:], start=1):
                most_then = bucket + limit.records * (until_ms - since_ms) / limit.interval_ms
                assert last <= most_then + 1e-6
