"""Plants faults in a copy of the broker, one at a time, and looks for a seed that finds each.

    python scripts/planted_faults.py             # all of them
    python scripts/planted_faults.py --only NAME
    python scripts/planted_faults.py --write-docs # and write the table of docs/correctness.md

The exit status is 1 if a fault is found by no seed, or found by the healthy code as well.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parent.parent
PAGE: Final = ROOT / "docs" / "correctness.md"
BEGIN, END = "<!-- planted faults -->\n", "<!-- end of planted faults -->\n"
SEEDS: Final = 200
SEARCH: Final = """\
import logging, sys
logging.getLogger("sharegroup").addHandler(logging.NullHandler())
from sharegroup.check.judge import judged
from sharegroup.sim.plan import Plan
from sharegroup.sim.round import play
for plan in map(Plan.parsed, sys.argv[1:]):
    outcome = play(plan)
    found = judged(outcome.history).violations
    if found or outcome.crashes:
        rules = sorted({one.rule for one in found}) + ["crash"] * bool(outcome.crashes)
        print(plan.seed, ",".join(rules), sep="\\t")
        break
"""


class Planted(NamedTuple):
    """A fault: in ``file`` of the package, ``old`` becomes ``new``."""

    name: str
    what: str
    file: str
    old: str
    new: str


PLANTED: Final = (
    Planted(
        "ack-before-write",
        "an acknowledgement is answered before its write is durable",
        "broker/coordination/runtime.py",
        "            first_offset = await written.ticket.durable()\n",
        "            first_offset = 0\n",
    ),
    Planted(
        "produce-before-sync",
        "Produce is answered before the records are durable",
        "broker/handlers/log/produce.py",
        "        await log.wait_durable(end_offset)\n",
        "        pass\n",
    ),
    Planted(
        "accept-not-written",
        "accepted records are not in what is written",
        "broker/delivery/state_writes.py",
        "        change.batches,\n",
        "        tuple(row for row in change.batches if row[2] != 2),\n",
    ),
    Planted(
        "start-too-far",
        "the start offset that is written is one too high",
        "broker/delivery/state_writes.py",
        "        change.start_offset,\n",
        "        change.start_offset + (change.start_offset > 0),\n",
    ),
    Planted(
        "limit-off-by-one",
        "a record is delivered once more than the limit says",
        "share/record_state.py",
        "    if delivery_count >= delivery_count_limit:\n",
        "    if delivery_count > delivery_count_limit:\n",
    ),
    Planted(
        "limit-too-early",
        "a record is given up one delivery too early",
        "share/record_state.py",
        "    if delivery_count >= delivery_count_limit:\n",
        "    if delivery_count >= delivery_count_limit - 1:\n",
    ),
    Planted(
        "count-stands-still",
        "the delivery count does not grow",
        "share/order/log_order.py",
        "status.delivery_count + 1",
        "max(1, status.delivery_count)",
    ),
    Planted(
        "lock-of-another",
        "a member may acknowledge what another one holds",
        "share/applying.py",
        "(lock is not None and lock.member_id == member_id)",
        "lock is not None",
    ),
    Planted(
        "lock-ends-early",
        "locks end after a tenth of their time",
        "share/partition.py",
        "        until = now_ms + settings.lock_ms\n",
        "        until = now_ms + settings.lock_ms // 10\n",
    ),
    Planted(
        "lock-never-ends",
        "expired locks are not released",
        "share/partition.py",
        "        locks = [lock for lock in ended if lock.member_id != NOBODY]\n",
        "        locks = [lock for lock in ended if lock.member_id == NOBODY]\n",
    ),
    Planted(
        "renewal-forgotten",
        "a renewal is answered, and the lock ends as before",
        "share/applying.py",
        "                    lock = window.locks.take(member_id, deadline_ms)\n",
        "                    lock = next(iter(piece.met.values()))[0].lock\n",
    ),
    Planted(
        "fence-forgotten",
        "after a failed write the share partition goes on with what was not written",
        "broker/delivery/share_partitions.py",
        "            self.fence(led, str(error))\n",
        "            pass\n",
    ),
    Planted(
        "error-swallowed",
        "a failed write of an acknowledgement is answered as success",
        "broker/delivery/share_acknowledging.py",
        "TopicIdPartition(led.key.topic_id, led.key.partition)] = error\n",
        "TopicIdPartition(led.key.topic_id, led.key.partition)] = None\n",
    ),
    Planted(
        "reject-is-accept",
        "a rejected record gets no dead letter",
        "share/applying.py",
        "_VERBS[kind] if lock and",
        "_VERBS[1 if kind == 3 else kind] if lock and",
    ),
    Planted(
        "letters-one-short",
        "of a range of dead records the last one gets no letter",
        "broker/dead_letters/writer.py",
        "originals.first_in(offset, dead.last, ",
        "originals.first_in(offset, dead.last - (offset > dead.first), ",
    ),
    Planted(
        "merge-forgets",
        "a snapshot of the state forgets its last range",
        "share_state/state.py",
        "            self.batches = merged(self.batches + self.pile, self.start_offset)\n",
        "            self.batches = merged(self.batches + self.pile, self.start_offset)[:-1]\n",
    ),
    Planted(
        "start-passes-one",
        "the start offset passes one record that is not finished",
        "share/window.py",
        "        end = self.end if unfinished is None else unfinished\n",
        "        end = self.end if unfinished is None else min(self.end, unfinished + 1)\n",
    ),
    Planted(
        "key-backwards",
        "with order per key the records of a key come in the wrong order",
        "share/order/key_queues.py",
        "                key.offsets.append(offset)\n",
        "                key.offsets.insert(key.wait, offset)\n",
    ),
    Planted(
        "key-with-two",
        "with order per key two members may hold records of one key",
        "share/order/key_queues.py",
        "                key.member_id, key.width = member_id, self.width\n",
        "                key.member_id, key.width = None, self.width\n",
    ),
    Planted(
        "rest-never-ends",
        "a record that rests is never due",
        "share/partition.py",
        "            self.order.come_due(pauses, now_ms)\n",
        "            pass\n",
    ),
    Planted(
        "loaded-one-short",
        "of the stored states the last is not loaded after a restart",
        "broker/delivery/share_partitions.py",
        "                batches=state.batches,\n",
        "                batches=state.batches[:-1],\n",
    ),
    Planted(
        "aborted-delivered",
        "records of aborted transactions are delivered",
        "broker/delivery/found_batches.py",
        "    return aborted_ranges(found.data, void) if void else ()\n",
        "    return ()\n",
    ),
    Planted(
        "past-the-stable-offset",
        "records of open transactions are delivered to who reads what is committed",
        "broker/delivery/share_fetching.py",
        "            end = led.log.last_stable_offset if committed else led.log.high_watermark\n",
        "            end = led.log.high_watermark\n",
    ),
    Planted(
        "sync-forgotten",
        "records become visible before they are durable",
        "storage/flush.py",
        "            sync = asyncio.ensure_future(self._disk.sync(files))\n",
        "            sync = asyncio.ensure_future(self._disk.sync(files[:0]))\n",
    ),
    Planted(
        "failed-sync-forgotten",
        "a log goes on after a failed sync",
        "storage/partition_log.py",
        '        self.fail(KafkaStorageError(f"{self.topic_partition}: sync failed: {error}"))\n',
        "        self.end_flush()\n",
    ),
    Planted(
        "lock-ends-late",
        "locks end after five times their time",
        "share/partition.py",
        "        until = now_ms + settings.lock_ms\n",
        "        until = now_ms + settings.lock_ms * 5\n",
    ),
    Planted(
        "gap-committed",
        "a commit of single records passes one record that is not committed",
        "cooperative/committed.py",
        "            if merged[0] == self.stable:\n",
        "            if merged[0] <= self.stable + 1:\n",
    ),
    Planted(
        "range-not-loaded",
        "of the committed ranges one in five is not loaded after a restart",
        "groups/range_commits.py",
        "        if record.written:\n",
        "        if record.written and record.first % 5:\n",
    ),
    Planted(
        "ranges-overlap",
        "two members of a partition get the same range of keys",
        "cooperative/hash_split.py",
        "            given = minus(given, got)\n",
        "            pass\n",
    ),
    Planted(
        "ranges-forgotten",
        "a member that gets a shared partition reads again what is committed behind its position",
        "client/group/position_lookup.py",
        "position, committed.ranges)\n",
        "position)\n",
    ),
    Planted(
        "lag-stays",
        "a lag stays behind an aborted transaction that a member has passed (was one of ours)",
        "broker/handlers/share/describe_share_group_offsets.py",
        "        if settled is not None:\n",
        "        if settled is not None and not described.start_offset:\n",
    ),
    Planted(
        "gap-fails-commit",
        "a commit says that it failed, for the sake of a gap that nobody decided about (was ours)",
        "client/share/acknowledger.py",
        "            error = None\n",
        "            pass\n",
    ),
    Planted(
        "start-goes-back",
        "a start offset that is loaded is one too low",
        "share_state/state.py",
        "        self.start_offset = snapshot.start_offset\n",
        "        self.start_offset = snapshot.start_offset - (snapshot.start_offset > 0)\n",
    ),
    Planted(
        "new-behind-held",
        "nothing new is delivered while another member holds a record",
        "share/partition.py",
        "not settings.paused and self.order.has_room(settings, member_id)\n",
        "not settings.paused and not self._window.counts[1]\n",
    ),
    Planted(
        "hash-of-nobody",
        "nobody gets a partition's last hash of keys",
        "cooperative/hash_split.py",
        "            got = _first(given, missing)\n",
        "            got = _first(given, missing - (given[-1][-1] == HASH_MAX))\n",
    ),
)
FULL_DISKS: Final = (
    "seed=305 ordered=1 keys=1 partitions=3 members=3 groups=2 letters=1 release=5 reject=5 "
    "lock_ms=2000 records=500 transactional=0 turns=0 priorities=0 faults=full@0.404+5,cut@3.731+1,"
    "full@8.073+0.5,full@10.623+0.5,cut@16.72,limit@18.044+3,member@21.088,member@28.781"
)
CROWDED: Final = (
    "seed=1 partitions=1 producers=3 members=5 groups=1 records=500 keys=0 ordered=0 letters=0 "
    "transactional=0 turns=0 priorities=0 locks=1 limit=10 lock_ms=5000 backoff_ms=0 release=0 "
    "reject=0 slow=0 renew=0 latency_ms=0.1 readers=0 faults=none"
)
RARE: Final = {
    CROWDED: Planted(
        "locks-without-limit",
        "more records are in flight than the settings allow",
        "share/order/log_order.py",
        "            return settings.record_locks_max - (window.end - window.start)\n",
        "            return settings.record_locks_max\n",
    ),
    "seed=223": Planted(
        "client-spins",
        "a consumer asks again at once for a partition that is refused (was ours)",
        "client/group/fetcher.py",
        "here | self._fetching | self._resting",
        "here | self._fetching",
    ),
    FULL_DISKS: Planted(
        "letter-writer-dies",
        "the writer of dead letters ends where the state cannot be read (was one of ours)",
        "broker/dead_letters/writer.py",
        "                trouble = error\n",
        "                if type(error).__name__ == 'KafkaStorageError':\n"
        "                    raise\n"
        "                trouble = error\n",
    ),
}
"""Plan → a fault that none of the first seeds finds."""


class Result(NamedTuple):
    """Where a fault was found: the seed and the rules; None: by no seed, and why."""

    planted: Planted
    seed: int | None
    rules: str


def seeds(first: int = 0, end: int = SEEDS) -> list[str]:
    """The plans of these seeds, as words."""
    return [f"seed={seed}" for seed in range(first, end)]


def search(planted: Planted, plans: list[str]) -> Result:
    """Plant the fault in a copy, and play plans until one fails."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "sharegroup"
        shutil.copytree(
            ROOT / "src" / "sharegroup", copy, ignore=shutil.ignore_patterns("__pycache__")
        )
        file = copy / planted.file
        file.write_text(changed(planted, file.read_text()))
        environment = os.environ | {"PYTHONPATH": folder, "PYTHONWARNINGS": "ignore"}
        try:
            done = subprocess.run(
                [sys.executable, "-c", SEARCH, *plans],
                env=environment, cwd=folder, capture_output=True, text=True, timeout=1200,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return Result(planted, None, "a seed does not end")
    if done.returncode:
        return Result(planted, None, done.stderr.strip().splitlines()[-1])
    if not done.stdout:
        return Result(planted, None, f"{SEEDS} seeds find nothing")
    seed, rules = done.stdout.split("\t")
    return Result(planted, int(seed), rules.strip())


def changed(planted: Planted, text: str) -> str:
    """The file with the fault. Raises ValueError unless it has the place exactly once."""
    if text.count(planted.old) != 1:
        raise ValueError(f"{planted.name}: {planted.file} has it {text.count(planted.old)} times")
    return text.replace(planted.old, planted.new)


def table(results: list[Result]) -> str:
    """The results as Markdown."""
    lines = ["| fault | where | first seed that finds it | rules |", "| --- | --- | --- | --- |"]
    for one in results:
        rules = one.rules.replace(",", ", ")
        lines.append(f"| {one.planted.what} | `{one.planted.file}` | {one.seed} | {rules} |")
    return "\n".join(lines) + "\n"


def healthy() -> bool:
    """Whether no seed fails without a fault."""
    done = subprocess.run(
        [sys.executable, "-c", SEARCH, *seeds()],
        env=os.environ | {"PYTHONPATH": str(ROOT / "src"), "PYTHONWARNINGS": "ignore"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    if done.stdout:
        print(f"without a fault seed {done.stdout.strip()} fails")
    return not done.stdout


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", metavar="NAME", action="append")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--write-docs", action="store_true")
    given = parser.parse_args()
    chosen = [one for one in PLANTED if given.only is None or one.name in given.only]
    if given.only is None and not healthy():
        return 1
    results = []
    with ThreadPoolExecutor(given.jobs) as pool:
        for one in pool.map(lambda planted: search(planted, seeds()), chosen):
            results.append(one)
            where = "NOT FOUND" if one.seed is None else f"seed {one.seed:3}"
            print(f"{where:9}  {one.planted.name:24} {one.rules}", flush=True)
    missed = [one for one in results if one.seed is None]
    print(f"{len(results) - len(missed)} of {len(results)} faults found within {SEEDS} seeds")
    if given.write_docs and not missed and given.only is None:
        text = PAGE.read_text()
        head, rest = text.split(BEGIN)
        PAGE.write_text(head + BEGIN + "\n" + table(results) + "\n" + END + rest.split(END)[1])
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
