"""Seeds: the real broker and clients under faults, judged by what the clients saw."""

from __future__ import annotations

import signal
import subprocess
import sys
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from sharegroup.check.judge import judged
from sharegroup.client.worker import locks
from sharegroup.model.errors import ConfigError
from sharegroup.sim.plan import BUSY_S, KINDS, LATE_MAX, SOONER, Fault, Plan
from sharegroup.sim.round import Outcome, play
from sharegroup.sim.shrinking import shrunk
from tests.cli.command import Commands

SEEDS = 24
COMMANDS = Commands("")
HASH = """\
import sys, hashlib
from sharegroup.sim.plan import Plan
from sharegroup.sim.round import play
for seed in range(int(sys.argv[1])):
    print(hashlib.sha256("\\n".join(play(Plan.drawn(seed)).history).encode()).hexdigest())
"""
BEHIND_THE_END = (
    "seed=558 partitions=1 producers=1 members=1 groups=1 records=31 limit=10 lock_ms=5000 slow=0 "
    "letters=0 release=0 latency_ms=0.1 readers=1 in_turns=1 workers=0 compacted=0 ordered=0 "
    "transactional=0 keys=0 turns=0 priorities=0 locks=0 backoff_ms=0 reject=0 renew=0 "
    "faults=slow@19.662+10,anew@24.256+2,eio@24.49+1"
)
# Some partitions have aborted transactions only, which the group has passed: its lag is 0.
ABORTS_FORGOTTEN = (
    "seed=20562 partitions=1 producers=1 members=1 groups=1 records=30 keys=0 release=0 "
    "latency_ms=1 workers=0 faults=flip@3.451,expire@3.977+3,eio@4.016+1 late=none"
)
"""A segment was sealed while the disk failed: its index of aborted transactions was lost."""
# The cleaner made one segment of what lay before and behind a damaged one.
DAMAGED_IN_THE_MIDDLE = (
    "seed=24016 partitions=1 producers=1 members=2 groups=1 records=163 keys=1 ordered=1 letters=0 "
    "transactional=1 turns=0 priorities=0 locks=0 limit=5 lock_ms=1000 backoff_ms=0 release=0 "
    "reject=0 slow=0 renew=10 latency_ms=0.1 readers=0 in_turns=0 workers=0 compacted=1 nodes=1 "
    "faults=limit@1.421+5,flip@1.572"
)
ONLY_ABORTED = (
    "seed=697 partitions=3 producers=2 members=1 groups=1 records=500 keys=5 ordered=0 letters=0 "
    "transactional=1 turns=1 priorities=0 locks=0 limit=2 lock_ms=2000 backoff_ms=0 release=0 "
    "reject=0 slow=0 renew=0 latency_ms=0 readers=0 in_turns=0 workers=0 compacted=0 "
    "faults=anew@11.583+2"
)
CALM = replace(
    Plan.drawn(0),
    partitions=2, producers=2, members=2, groups=1, records=60, keys=0, ordered=0, letters=1,
    transactional=0, turns=0, priorities=0, locks=0, limit=3, lock_ms=1_000, backoff_ms=0,
    release=5, reject=5, slow=5, renew=5, latency_ms=2, readers=0, in_turns=0, workers=0,
    compacted=0, faults=(),
)  # fmt: skip


def wrong(plan: Plan) -> list[str]:
    """What does not hold, and what crashed."""
    return wrong_in(play(plan))


def wrong_in(outcome: Outcome) -> list[str]:
    """The same of a round that was played."""
    return [str(one) for one in judged(outcome.history).violations] + outcome.crashes


@pytest.mark.parametrize("part", range(4))
def test_every_rule_holds(part: int) -> None:
    for seed in range(part, SEEDS, 4):
        assert not wrong(Plan.drawn(seed)), f"sharegroup simulate --seed {seed}"


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_fault(kind: str) -> None:
    faults = tuple(Fault(kind, 0.5 + at, value) for at, value in enumerate(KINDS[kind]))
    # A letter names its topic, so where there are letters no topic is made anew.
    assert not wrong(replace(CALM, faults=faults, letters=int(kind != "anew")))


@pytest.mark.parametrize(
    "option",
    [
        *("ordered", "transactional", "backoff", "turns", "priorities", "locks"),
        *("readers", "readers in turns", "workers", "compacted"),
    ],
)
def test_every_option(option: str) -> None:
    options = {
        "readers": {"keys": 20, "readers": 3},
        "readers in turns": {"readers": 3, "in_turns": 1, "transactional": 1},
        "compacted": {"keys": 3, "compacted": 1, "readers": 2},
        "workers": {"keys": 3, "ordered": 1, "workers": 2},
        "ordered": {"keys": 3, "ordered": 1, "release": 30},
        "transactional": {"transactional": 1},
        "backoff": {"backoff_ms": 500, "groups": 2},
        "turns": {"keys": 3, "turns": 1},
        "priorities": {"priorities": 1, "renew": 20},
        "locks": {"records": 400, "locks": 1},
    }
    faults = (Fault("kill", 0.7), Fault("power", 1.4, 0.1))
    assert not wrong(replace(CALM, **options[option], faults=faults))


@pytest.mark.parametrize(
    "words",
    [
        # Records that nobody had committed were deleted, and the group's offset stayed before them.
        "seed=210 readers=3 in_turns=1 faults=trim@5+1",
        # The disk is full: a write failed between the end of a load and the news of that, and the
        # broker waited for that load for ever, without a pause.
        "seed=369",
        # The disk is full: records were given out, answered and refused as fast as they could be.
        "seed=626",
        # A record of a topic that was made anew since was committed by the topic's name.
        "seed=8738",
        ABORTS_FORGOTTEN,
        # A damaged record held up the committed offset of members that share a partition by keys.
        "seed=20540 faults=full@0.812+5,anew@1.078,flip@7.17",
        # A deleted topic's committed offsets stayed, since another coordinator's log was out of
        # service; and a turn began at such an offset, behind the end of the new topic.
        BEHIND_THE_END,
        ONLY_ABORTED,
        # Records expire while a shard of the share groups' state is out of service.
        "seed=31 faults=eio@0.805,expire@1.5+3,expire@12+8,eio@15.342,eio@18.157+2,eio@21.026+2",
        # The group's members share the partitions by key, and the topic is another one.
        "seed=218 readers=3 keys=3 records=120 letters=0 in_turns=0 faults=anew@5+2",
        DAMAGED_IN_THE_MIDDLE,
    ],
)
def test_what_was_wrong_once(words: str) -> None:
    assert not wrong(Plan.parsed(words))


def test_a_worker_that_renews_too_late_keeps_the_order(monkeypatch: pytest.MonkeyPatch) -> None:
    # Some locks are renewed in an answer that says that others were not. So the worker believes
    # that it has lost records that the broker thinks it holds.
    monkeypatch.setattr(locks, "_UNKNOWN_LOOK_S", 1.0)
    calm = replace(CALM, partitions=1, producers=1, members=1, records=120, letters=0)
    workers = replace(calm, seed=225, keys=3, ordered=1, workers=1, limit=5, reject=0, latency_ms=0)
    assert not wrong(workers)


def test_a_seed_is_one_history_in_every_process() -> None:
    """Here the order of sets is another one in each run of the tests."""
    said = subprocess.run(
        [sys.executable, "-c", HASH, "2"],
        env={"PYTHONHASHSEED": "4711"},
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    assert said.stdout.split() == [
        sha256("\n".join(play(Plan.drawn(seed)).history).encode()).hexdigest() for seed in range(2)
    ]


def test_from_a_seed_on_more_happens_while_there_is_something_to_do() -> None:
    plans = [Plan.drawn(seed) for seed in range(SOONER, SOONER + 200)]
    assert all(plan.letters for plan in plans if plan.workers)
    faults = [fault.at_s for plan in plans for fault in plan.faults]
    assert 0.4 < sum(at_s < BUSY_S for at_s in faults) / len(faults) < 0.7
    assert all(plan == Plan.parsed(str(plan)) for plan in plans)


def test_a_plan_is_a_line_of_text() -> None:
    for seed in range(200):
        plan = Plan.drawn(seed)
        assert Plan.parsed(str(plan)) == plan
    assert Plan.parsed("seed=7 members=1") == replace(Plan.drawn(7), members=1)
    late = replace(CALM, late=(3, *range(7, 12), LATE_MAX))
    assert str(late).endswith(f" late=3,7-11,{LATE_MAX}")
    assert Plan.parsed(str(late)) == late
    assert Plan.parsed(f"{CALM} late=none") == replace(CALM, late=())


@pytest.mark.parametrize(
    "text",
    [
        *("", "members=1", "seed=x", "seed=1 size=3", "seed=1 members=many"),
        "seed=1 members=inf",
        *("seed=1 faults=rain@3", "seed=1 late=soon", f"seed=1 late=1-{LATE_MAX + 1}"),
    ],
)
def test_a_text_that_is_no_plan(text: str) -> None:
    with pytest.raises(ConfigError, match=r"no plan|no fault"):
        Plan.parsed(text)


def test_a_plan_is_made_smaller() -> None:
    """Down to what matters: here two of the faults, with two members at least."""
    kinds = ["kill", "cut", "member", "clock", "power", "leave", "slow", "eio"]
    plan = replace(CALM, members=5, faults=tuple(Fault(kind, 1) for kind in kinds))

    def fails(smaller: Plan) -> bool:
        kinds = {fault.kind for fault in smaller.faults}
        return {"cut", "eio"} <= kinds and smaller.members >= 2

    smallest = shrunk(plan, fails)
    assert [fault.kind for fault in smallest.faults] == ["cut", "eio"]
    assert (smallest.members, smallest.producers, smallest.records) == (2, 1, 1)
    assert smallest.late == ()


def test_a_schedule_is_made_calmer() -> None:
    """Down to the messages that must be late; it stays as it was where no message of its own is."""
    needed = {77, 1_033, 4_000, 4_001}
    plan = shrunk(CALM, lambda one: one.late is None or needed <= set(one.late))
    assert plan.late == (77, 1_033, 4_000, 4_001)
    assert shrunk(CALM, lambda one: one.late is None).late is None


def test_late_messages_are_one_history() -> None:
    """The same each time, and another one than without them."""
    some = replace(CALM, records=20, latency_ms=30, late=(20, *range(100, 120)))
    calm = replace(some, late=())
    histories = [play(plan).history for plan in (some, some, calm)]
    assert histories[0] == histories[1] != histories[2]
    assert not any(judged(one).violations for one in histories)


def test_the_command(tmp_path: Path) -> None:
    history = tmp_path / "history.jsonl"
    shown = COMMANDS.run("simulate", "--seed", "3", "--history", str(history))
    assert shown.status == 0, shown
    plan, counted, verdict = shown.stdout.splitlines()
    assert plan == str(Plan.drawn(3))
    assert counted.endswith("s of virtual time")
    assert verdict == "  every rule holds"
    assert history.read_text().splitlines() == play(Plan.drawn(3)).history

    checked = COMMANDS.run("check", str(history))
    assert checked.status == 0, checked
    assert checked.stdout.startswith("no violations: ")

    shown = COMMANDS.run("simulate", "--seeds", "0..4", "--jobs", "2")
    assert shown.status == 0, shown
    assert shown.stdout.startswith("4 seeds, none failed: ")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "name one of --seed, --seeds and --plan"),
        (("--seed", "1", "--seeds", "0..2"), "name one of --seed, --seeds and --plan"),
        (("--seeds", "5"), "write the first seed and the end, as 0..1000"),
        (("--seeds", "0..2", "--history", "x"), "--history takes the history of one seed"),
        (("--plan", "seed=1 rain=2"), "this is no plan"),
        (("--seed", "1", "--history", "/nowhere/x"), "/nowhere/x cannot be written: No such file"),
    ],
)
def test_wrong_use(words: tuple[str, ...], said: str) -> None:
    shown = COMMANDS.run("simulate", *words)
    assert (shown.status, said in shown.stderr) == (2, True), shown


def test_ctrl_c_ends_it_quietly() -> None:
    """Also in the middle of a seed, which is that of a long plan."""
    plan = "seed=226 members=1 producers=1 records=500 slow=100 lock_ms=5000 faults=none"
    running = COMMANDS.start("simulate", "--plan", plan)
    assert running.stdout is not None
    assert running.stdout.readline().startswith(b"seed=226 ")
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=60)
    assert (running.returncode, out, err) == (130, b"", b"")
