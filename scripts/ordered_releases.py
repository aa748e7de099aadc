"""What releases cost in a share group with order per key: librdkafka's share consumers accept all
records but 1 %, which they release when they first get them.

``python scripts/ordered_releases.py`` prints, as counts and not as times: deliveries per record,
answers of partitions that were errors, records taken back, and whether the order held.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
from pathlib import Path
from random import Random
from urllib.request import urlopen

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from confluent_kafka import AcknowledgeType, Message, Producer  # noqa: E402

from tests.foreign.share_reader import share_consumer  # noqa: E402
from tests.kills.ordering.keyed import zipf_keys  # noqa: E402
from tests.servers import family  # noqa: E402
from tests.servers.admin import SILENT, Admin  # noqa: E402
from tests.servers.process import free_port  # noqa: E402
from tests.servers.sharegroup_server import SharegroupServer  # noqa: E402

TOPIC, GROUP = "orders", "ordered"
LAG = "sharegroup_share_partition_lag_records"
DISORDER = "sharegroup_share_ordering_disorder_total"


class Tally:
    """What all members saw."""

    def __init__(self, keys: list[bytes], released: float, seed: int) -> None:
        self.keys = keys
        count = len(keys)
        self.fails = set(Random(seed).sample(range(count), round(count * released)))
        self.accepted: dict[int, int] = {}
        """Records by the turn of their last accept."""
        self.deliveries = self.answers = self.errors = self.turns = 0
        self.lock = threading.Lock()

    def decide(self, messages: list[Message]) -> list[AcknowledgeType]:
        """An answer for each."""
        with self.lock:
            self.deliveries += len(messages)
            return [self._one(int(message.value() or b"")) for message in messages]

    def _one(self, number: int) -> AcknowledgeType:
        self.turns += 1
        if number in self.fails:
            self.fails.remove(number)
            return AcknowledgeType.RELEASE
        self.accepted[number] = self.turns
        return AcknowledgeType.ACCEPT

    def committed(self, errors: list[object]) -> None:
        """The outcome of each partition of a commit."""
        with self.lock:
            self.answers += len(errors)
            self.errors += sum(error is not None for error in errors)

    def inversions(self) -> int:
        """Neighbours of a key that were accepted for the last time in the wrong order."""
        last: dict[bytes, int] = {}
        wrong = 0
        for number, key in enumerate(self.keys):
            turn = self.accepted.get(number, 0)
            wrong += turn < last.get(key, 0)
            last[key] = turn
        return wrong


def member(bootstrap: str, tally: Tally, most: int, done: threading.Event) -> None:
    """One consumer, until ``done``."""
    with share_consumer(bootstrap, GROUP, TOPIC, explicit=True, max_poll_records=most) as consumer:
        while not done.is_set():
            messages = list(consumer.poll(0.2))
            if not messages:
                continue
            for message, kind in zip(messages, tally.decide(messages), strict=True):
                consumer.acknowledge(message, kind)
            tally.committed([*consumer.commit_sync(30).values()])


def metrics(port: int) -> str:
    """The broker's metrics, as text."""
    with urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        text: str = answer.read().decode()
    return text


def unfinished(text: str) -> int:
    """The lag of all partitions of the group."""
    lags = [line for line in text.splitlines() if line.startswith(LAG)]
    return sum(int(float(line.rpartition(" ")[2])) for line in lags) if lags else 1


def produce(bootstrap: str, keys: list[bytes]) -> None:
    """A record for each of the keys; the values are their numbers."""
    few = {"linger.ms": 5, "batch.num.messages": 50}  # else one member gets all
    producer = Producer({"bootstrap.servers": bootstrap, **few, **SILENT})
    for number, key in enumerate(keys):
        producer.produce(TOPIC, b"%d" % number, key=key)
    assert producer.flush(60) == 0


def main() -> None:
    """Run once, and print what was counted."""
    parser = argparse.ArgumentParser(prog="scripts/ordered_releases.py", description=__doc__)
    parser.add_argument("--members", type=int, default=12)
    parser.add_argument("--records", type=int, default=20_000)
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--released", type=float, default=0.01, help="the share that fails once")
    parser.add_argument("--poll", type=int, default=100, help="max.poll.records")
    parser.add_argument("--in-flight", default="100", help="share.ordering.key.max.in.flight")
    parser.add_argument("--seed", type=int, default=1)
    said = parser.parse_args()
    family.begin()
    keys = [key for _, key in zip(range(said.records), zipf_keys(Random(said.seed)), strict=False)]
    tally = Tally(keys, said.released, said.seed)
    at = free_port()
    with (
        tempfile.TemporaryDirectory() as folder,
        SharegroupServer(Path(folder), f"metrics.address=127.0.0.1:{at}") as server,
    ):
        admin = Admin(server.bootstrap)
        admin.create_topic(TOPIC, said.partitions)
        admin.set_group(
            GROUP,
            share_ordering="key",
            share_ordering_key_max_in_flight=said.in_flight,
            share_auto_offset_reset="earliest",
        )
        produce(server.bootstrap, keys)
        done = threading.Event()
        parts = (server.bootstrap, tally, said.poll, done)
        threads = [threading.Thread(target=member, args=parts) for _ in range(said.members)]
        for thread in threads:
            thread.start()
        while unfinished(metrics(at)) or len(tally.accepted) < said.records:
            done.wait(0.2)
        done.set()
        for thread in threads:
            thread.join()
        text = metrics(at)
    share = tally.errors / tally.answers
    print(f"records {said.records}, deliveries per record {tally.deliveries / said.records:.3f}")
    print(f"answers of partitions {tally.answers}, errors {tally.errors} ({share:.2%})")
    print(f"out of order {tally.inversions()}")
    print(*(line for line in text.splitlines() if line.startswith(DISORDER)), sep="\n")


if __name__ == "__main__":
    main()
