"""Seeds with several nodes in front of a cluster: production brokers all of them, under faults."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from hashlib import sha256

import pytest

from sharegroup.check.judge import judged
from sharegroup.fleet.terms import Owner
from sharegroup.model.environment import DiskFile
from sharegroup.sim.disk import MemoryDisk
from sharegroup.sim.plan import NODE_KINDS, Fault, Plan
from sharegroup.sim.round import play
from sharegroup.sim.state_terms import overlaps
from sharegroup.upstream.owned_batches import Writer, encode
from tests.sim.test_simulate import CALM, wrong, wrong_in

SEEDS = 3
HASH = """\
import hashlib
from sharegroup.sim.plan import Plan
from sharegroup.sim.round import play
print(hashlib.sha256("\\n".join(play(Plan.drawn(5063, 3)).history).encode()).hexdigest())
"""
AWAY_THREE_TIMES = (
    "seed=1 nodes=3 members=2 producers=2 partitions=4 records=200 slow=0 workers=0 "
    "faults=node-pause@1+8,node-pause@12+8,node-pause@23+8"
)
THREE = replace(CALM, nodes=3, records=40, members=1)


@pytest.mark.parametrize("part", range(2))
def test_every_rule_holds(part: int) -> None:
    for seed in range(part, SEEDS, 2):
        assert not wrong(Plan.drawn(seed, 3)), f"sharegroup simulate --nodes 3 --seed {seed}"


@pytest.mark.parametrize("kind", NODE_KINDS)
def test_every_kind_of_fault(kind: str) -> None:
    faults = tuple(Fault(kind, 0.5 + 9 * at, value) for at, value in enumerate(NODE_KINDS[kind]))
    assert not wrong(replace(THREE, faults=faults))


@pytest.mark.parametrize(
    "words",
    [
        # All nodes were away, and the clock was set back: epochs went back, and members waited.
        "seed=3 nodes=3 members=1 records=20 faults=clock@5+-3600,nodes-kill@8",
        # A node was away for longer than its session, and got the same parts again: it went on with
        # what it had known of them before.
        AWAY_THREE_TIMES,
        # It stopped for as long as the cluster was away.
        "seed=3 nodes=3 members=1 records=20 faults=kill@5+200,node-stop@6",
        # The node that knew the last epochs was stopped, another one came back and knew old ones.
        "seed=676 nodes=2",
        # A node was gone while a question to it was still written: who asked did not look.
        "seed=6260 nodes=3",
    ],
)
def test_what_was_wrong_once(words: str) -> None:
    assert not wrong(Plan.parsed(words))


def test_a_seed_is_one_history_in_every_process() -> None:
    """Of a plan with a planned stop: its connections were closed in the order of a set. And it was
    judged while the last records were still written."""
    said = subprocess.run(
        [sys.executable, "-c", HASH],
        env={"PYTHONHASHSEED": "4711", "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    here = play(Plan.drawn(5063, 3))
    assert said.stdout.strip() == sha256("\n".join(here.history).encode()).hexdigest()
    assert not wrong_in(here)


def test_the_history_says_when_other_nodes_may_deliver() -> None:
    calm, killed = (
        judged_kills(replace(THREE, faults=faults)) for faults in ((), (Fault("node-kill", 3, 3),))
    )
    assert calm == 1 < killed


def judged_kills(plan: Plan) -> int:
    history = play(plan).history
    assert not judged(history).violations
    return sum('"op": "kill"' in line for line in history)


def test_an_owner_that_writes_after_the_next_one_is_found() -> None:
    disk = MemoryDisk()
    log: DiskFile = disk.open("data/__sharegroup_fleet_share_group_state-1/0.log")
    for place, (term, node) in enumerate([(1, 1), (2, 2), (2, 2), (1, 1), (3, 1)]):
        records = [(b"key", b"value")]
        batch = bytearray(encode(Owner(term, node, bytes(16)), records, Writer(1, 0), 0, 0))
        batch[:8] = place.to_bytes(8, "big")
        log.append(bytes(batch))
    [said] = overlaps(disk, "data")
    assert said.endswith("at offset 3 node 1 writes in term 1, after term 2 has begun")
