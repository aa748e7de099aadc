"""How the rate of a share group grows with the brokers in front of a cluster, each of which has the
same small share of a CPU: ``python scripts/scaling.py``. Needs root and control groups.

One machine has too few CPUs for many brokers. So each broker of ours gets little of one, Apache
Kafka and the consumer (Java's ShareConsumerPerformance) have the rest, and what limits the rate are
our brokers. It is taken from the consumer's own reports, while each broker still has records left.
"""

from __future__ import annotations

import argparse
import csv
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from rich.progress import track  # noqa: E402

from sharegroup import sync  # noqa: E402
from tests.apache_kafka.in_front import InFrontOfKafka  # noqa: E402
from tests.apache_kafka.jars import KAFKA_WITH_TOOLS, class_path  # noqa: E402
from tests.apache_kafka.java import java_command  # noqa: E402
from tests.apache_kafka.tools import LONG_RUN, QUIET, KafkaTools, moment  # noqa: E402
from tests.servers import family  # noqa: E402

TOPIC: Final = "scaled"
GROUP: Final = "scalers"
PARTITIONS: Final = 48
PERIOD_US: Final = 20_000
GROUPS_V1: Final = Path("/sys/fs/cgroup/cpu")
GROUPS_V2: Final = Path("/sys/fs/cgroup")
WARM_S: Final = 5
MEASURED_S: Final = 15
TIMEOUT_MS: Final = 60_000


class CannotScale(Exception):
    """The message says why nothing can be measured here."""


@contextmanager
def limited(name: str, pid: int, share: float) -> Iterator[None]:
    """The process has so much of a CPU."""
    quota_us = int(share * PERIOD_US)
    first = GROUPS_V1.is_dir()
    group = (GROUPS_V1 if first else GROUPS_V2) / f"sharegroup-{name}"
    try:
        group.mkdir(exist_ok=True)
        if first:
            (group / "cpu.cfs_period_us").write_text(f"{PERIOD_US}")
            (group / "cpu.cfs_quota_us").write_text(f"{quota_us}")
        else:
            (group / "cpu.max").write_text(f"{quota_us} {PERIOD_US}")
        (group / "cgroup.procs").write_text(f"{pid}")
    except OSError as error:
        raise CannotScale(f"a control group cannot be set ({error}): run this as root") from error
    try:
        yield
    finally:
        (group.parent / "cgroup.procs").write_text(f"{pid}")
        group.rmdir()


def drained(bootstrap: str) -> float:
    """Records per second that one consumer gets for a while.

    Raises:
        CannotScale: it ends before that.
    """
    tool = "org.apache.kafka.tools.ShareConsumerPerformance"
    words = ["--bootstrap-server", bootstrap, "--topic", TOPIC, "--group", GROUP]
    words += ["--num-records", "1000000000", "--timeout", f"{TIMEOUT_MS}"]
    words += ["--show-detailed-stats", "--reporting-interval", "250"]
    command = [java_command(), *LONG_RUN, QUIET, "-cp", class_path(KAFKA_WITH_TOOLS), tool, *words]
    seen: list[tuple[float, int]] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as consumer:
        assert consumer.stdout is not None
        for row in csv.reader(consumer.stdout, skipinitialspace=True):
            if len(row) != 7 or not row[5].isdigit() or not int(row[5]):
                continue
            seen.append((moment(row[1]), int(row[5])))
            if seen[-1][0] > seen[0][0] + WARM_S + MEASURED_S:
                break
        consumer.kill()
    within = [one for one in seen if one[0] >= seen[0][0] + WARM_S]
    if len(within) < 2:
        raise CannotScale("the consumer has ended too soon")
    (first_s, first), (last_s, last) = within[0], within[-1]
    return (last - first) / (last_s - first_s)


def left(bootstrap: str) -> Counter[int]:
    """Broker → records of the partitions that it leads which are not done."""
    found: Counter[int] = Counter()
    with sync.Admin(bootstrap) as admin:
        offsets = admin.list_share_group_offsets(GROUP)
        for one in admin.describe_topics(TOPIC)[TOPIC].partitions:
            lag = {at.partition: offset.lag for at, offset in offsets.items()}[one.partition]
            found[one.leader or 0] += lag or 0
    return found


def measure(nodes: int, share: float, records: int) -> float:
    """Records per second with so many brokers.

    Raises:
        CannotScale: it cannot be limited, or a broker had no records left.
    """
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        server = stack.enter_context(InFrontOfKafka(Path(folder), nodes=nodes))
        with sync.Admin(server.bootstrap) as admin:
            admin.create_topics(TOPIC, partitions=PARTITIONS, replication_factor=1)
            admin.begin_group_at(GROUP, "earliest")
        KafkaTools(server.bootstrap).produce(TOPIC, records)
        with ExitStack() as limits:
            for number, node in enumerate(server.nodes):
                limits.enter_context(limited(f"node-{number}", node.process.pid, share))
            rate = drained(server.bootstrap)
        remaining = left(server.bootstrap)
        if len(remaining) < nodes or not all(remaining.values()):
            raise CannotScale(f"a broker had no records left: {dict(remaining)}")
        return rate


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, nargs="+", default=[1, 2, 4], help="(1 2 4)")
    parser.add_argument("--share", type=float, default=0.06, help="of a CPU, for each (0.06)")
    parser.add_argument("--records", type=int, default=4_000_000, help="(4,000,000)")
    given = parser.parse_args()
    family.begin()
    rates: dict[int, float] = {}
    try:
        for nodes in track(given.nodes, description="brokers"):
            rates[nodes] = measure(nodes, given.share, given.records)
    except CannotScale as error:
        print(f"scaling: {error}", file=sys.stderr)
        return 1
    base = min(rates)
    for nodes, rate in rates.items():
        linear = rate / rates[base] * base / nodes
        print(f"{nodes} brokers: {rate:9,.0f} records/s, {linear:.2f} x linear")
    return 0


if __name__ == "__main__":
    sys.exit(main())
