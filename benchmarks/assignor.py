"""Computing the target assignment of a share group with 1,000 members and 1,000 partitions, in this
process: from nothing, after one join, and as part of that join's whole heartbeat.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from uuid import UUID

from benchmarks.benchmark import Bench, Benchmark, Row
from sharegroup.groups.assignor import assign
from sharegroup.groups.config import GroupSettings
from sharegroup.groups.share.groups import ShareGroups
from sharegroup.groups.share.heartbeat import ShareHeartbeat
from sharegroup.groups.topics import KnownTopic, TopicsImage

FULL = "assignor-full"
JOIN = "assignor-join"
HEARTBEAT = "assignor-join-heartbeat"
REST = "assignor-heartbeat-at-rest"
MEMBERS = 1_000
BEFORE = 500
"""Members before the join: few enough that every partition keeps a single member."""
PARTITIONS = 1_000
TOPIC = UUID(int=1)
GROUP = "large"
TIMES = 5


def run(bench: Bench) -> dict[str, float]:
    """Milliseconds; microseconds for the heartbeat at rest. The best of a few runs, because it is
    pure computation. Measures our code only."""
    return measure() if bench.server.name == "sharegroup" else {}


def measure() -> dict[str, float]:
    """The figures by key."""
    subscriptions = {f"member-{number:04}": frozenset([TOPIC]) for number in range(MEMBERS)}
    assignable = {TOPIC: tuple(range(PARTITIONS))}
    full = _best_ms(lambda: assign(subscriptions, assignable, {}))
    fewer = dict(list(subscriptions.items())[:BEFORE])
    before = assign(fewer, assignable, {})
    joined = {**fewer, "newcomer": frozenset([TOPIC])}
    join = _best_ms(lambda: assign(joined, assignable, before))
    heartbeat, rest = _heartbeats_ms()
    return {FULL: full, JOIN: join, HEARTBEAT: heartbeat, REST: rest * 1000}


def _best_ms(work: Callable[[], object]) -> float:
    best = float("inf")
    for _ in range(TIMES):
        begun = time.perf_counter()
        work()
        best = min(best, (time.perf_counter() - begun) * 1000)
    return best


def _heartbeats_ms() -> tuple[float, float]:
    """The times of a join that computes a new assignment, and of a heartbeat without changes."""
    groups = ShareGroups(
        lambda _: GroupSettings(assignment_interval_ms=60_000), group_size_max=2 * MEMBERS
    )
    image = TopicsImage({"t": KnownTopic(TOPIC, PARTITIONS)})
    now_ms = 0
    for number in range(BEFORE):
        _heartbeat(groups, image, f"member-{number:04}", 0, now_ms)
    times: list[float] = []
    for number in range(TIMES):
        now_ms += 60_000
        begun = time.perf_counter()
        _heartbeat(groups, image, f"newcomer-{number}", 0, now_ms)
        times.append(time.perf_counter() - begun)
    epoch = _heartbeat(groups, image, "member-0000", 0, now_ms)
    begun = time.perf_counter()
    for _ in range(1_000):
        _heartbeat(groups, image, "member-0000", epoch, now_ms)
    return min(times) * 1000, time.perf_counter() - begun


def _heartbeat(
    groups: ShareGroups, image: TopicsImage, member_id: str, epoch: int, now_ms: int
) -> int:
    request = ShareHeartbeat(
        group_id=GROUP,
        member_id=member_id,
        member_epoch=epoch,
        subscribed_topics=("t",) if epoch == 0 else None,
    )
    missing = groups.uninitialized(request, image)
    groups.initializing(GROUP, missing)
    groups.initialized(GROUP, missing)
    return groups.heartbeat(request, image, now_ms).member_epoch


BENCHMARK = Benchmark(
    name="assignor",
    rows=(
        Row(key=FULL, title="assignor: 1,000 members, 1,000 partitions, from nothing", unit="ms"),
        Row(key=JOIN, title="assignor: one more than 500 members", unit="ms"),
        Row(key=HEARTBEAT, title="assignor: the heartbeat of that join, in memory", unit="ms"),
        Row(key=REST, title="heartbeat at rest in a group of 500, in memory", unit="µs"),
    ),
    run=run,
)

if __name__ == "__main__":
    for key, value in measure().items():
        print(f"{key:32} {value:8.3f}")
