"""``sharegroup simulate``: plays seeds in a simulation, and judges what its clients saw."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from signal import SIG_IGN, SIGINT, signal
from time import process_time
from typing import Annotated, Final, NamedTuple, NoReturn

import typer

from sharegroup.check.judge import judged
from sharegroup.cli.outcome import ExitCode, UsageError, complain
from sharegroup.cli.tables import count
from sharegroup.model.errors import SharegroupError
from sharegroup.sim.plan import Plan
from sharegroup.sim.round import play
from sharegroup.sim.shrinking import shrunk

HELP: Final = """\
Play seeds in a simulation: the real broker, producers and share consumers, on virtual time, with a
network and a disk in memory. A seed draws how many take part, the settings, and the faults: kills,
power losses, full and broken disks, stalls, lost connections, clock jumps. What the clients saw is
judged as `sharegroup check` does.

With --nodes clients use several nodes (`sharegroup serve --upstream`) in front of a cluster, which
is a broker of ours. Nodes are killed, stopped, paused, drained and cut off, and so is the cluster.

One seed prints its plan, and its history on request. With many seeds only those that fail are
printed, each with the smallest plan that still fails. The exit status is 1 if one failed.
"""
EPILOG: Final = """\
Examples:

\b
sharegroup simulate --seed 7
sharegroup simulate --seeds 0..1000
sharegroup simulate --seeds 0..1000 --nodes 3
sharegroup simulate --plan 'seed=7 members=1 faults=kill@3.5' --history history.jsonl
"""
SHOWN: Final = 3
"""So many violations of a seed are printed."""

Seed = Annotated[int | None, typer.Option("--seed", metavar="N", help="Play this seed.")]
Seeds = Annotated[
    str | None,
    typer.Option("--seeds", metavar="A..B", help="Play the seeds from A on, up to B, without B."),
]
Nodes = Annotated[
    int,
    typer.Option(
        "--nodes",
        min=1,
        max=9,
        metavar="N",
        help="With so many nodes in front of a cluster; 1: one broker, without a cluster. A plan "
        "names them itself.",
    ),
]
Text = Annotated[
    str | None,
    typer.Option(
        "--plan", metavar="PLAN", help="Play this plan. What it does not name the seed draws."
    ),
]
History = Annotated[
    str | None,
    typer.Option("--history", metavar="FILE", help="Write the history of the one seed here."),
]
Jobs = Annotated[
    int | None,
    typer.Option("--jobs", min=1, metavar="N", help="Processes; by default one for each CPU."),
]
Shrink = Annotated[
    bool, typer.Option("--shrink/--no-shrink", help="Look for the smallest plan that fails.")
]


class Judged(NamedTuple):
    """What came of a plan.

    Attributes:
        plan: as a line of text.
        rules: the rules that do not hold, and ``crash``, if something crashed.
        said: a line for each violation and crash.
        events, virtual_s, cpu_s: of the round.
    """

    plan: str
    rules: frozenset[str]
    said: list[str]
    events: int
    virtual_s: float
    cpu_s: float


def add_to(application: typer.Typer) -> None:
    """Add the command."""
    application.command("simulate", help=HELP, epilog=EPILOG)(simulate)


def simulate(
    seed: Seed = None,
    seeds: Seeds = None,
    plan: Text = None,
    nodes: Nodes = 1,
    history: History = None,
    jobs: Jobs = None,
    shrink: Shrink = True,
) -> None:
    """Play seeds; :data:`HELP` has what the user reads."""
    try:
        if [seed, seeds, plan].count(None) != 2:
            raise UsageError("name one of --seed, --seeds and --plan")
        if plan is not None and nodes > 1:
            raise UsageError(f"--nodes is for seeds: write nodes={nodes} in the plan")
        if seeds is not None:
            if history is not None:
                raise UsageError("--history takes the history of one seed: name --seed or --plan")
            drawn = [Plan.drawn(one, nodes) for one in _range(seeds)]
            failed = _play_many(drawn, jobs or os.cpu_count() or 1, shrink=shrink)
        else:
            one = Plan.drawn(seed, nodes) if seed is not None else Plan.parsed(plan or "")
            before = signal(SIGINT, _end_at_once)
            try:
                failed = _play_one(one, history, shrink=shrink)
            finally:
                signal(SIGINT, before)
    except SharegroupError as error:
        complain(error)
        raise typer.Exit(ExitCode.USAGE) from None
    except KeyboardInterrupt:
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    raise typer.Exit(ExitCode.REFUSED if failed else ExitCode.DONE)


def _range(text: str) -> range:
    first, dots, end = text.partition("..")
    if not (dots and first.isdecimal() and end.isdecimal() and int(first) < int(end)):
        raise UsageError(f"--seeds is {text!r}: write the first seed and the end, as 0..1000")
    return range(int(first), int(end))


def _judge(plan: Plan, history: str | None = None) -> Judged:
    began = process_time()
    try:
        outcome = play(plan)
    except Exception as error:
        error.add_note(f"the simulator failed: sharegroup simulate --plan '{plan}'")
        raise
    if history is not None:
        try:
            with open(history, "w", encoding="utf-8") as file:
                file.writelines(f"{line}\n" for line in outcome.history)
        except OSError as error:
            why = error.strerror or error
            raise UsageError(f"{history} cannot be written: {why}") from None
    verdict = judged(outcome.history)
    rules = {one.rule for one in verdict.violations} | ({"crash"} if outcome.crashes else set())
    said = [str(one) for one in verdict.violations[:SHOWN]] + outcome.crashes[:SHOWN]
    hidden = len(verdict.violations) + verdict.more - SHOWN
    if hidden > 0:
        said.append(f"… and {count(hidden, 'other violation')}")
    return Judged(
        str(plan),
        frozenset(rules),
        said,
        len(outcome.history),
        outcome.virtual_s,
        process_time() - began,
    )


def _play_one(plan: Plan, history: str | None, *, shrink: bool) -> bool:
    """Whether it failed."""
    print(plan, flush=True)
    found = _judge(plan, history)
    print(f"{found.events:,} events in {found.virtual_s:,.0f} s of virtual time")
    _tell(found)
    if found.rules and shrink:
        _tell_smaller(plan, found)
    return bool(found.rules)


def _play_many(plans: Sequence[Plan], jobs: int, *, shrink: bool) -> bool:
    """Whether one failed."""
    failed, virtual_s, cpu_s = 0, 0.0, 0.0
    for plan, found in zip(plans, _shown(_played(plans, jobs), len(plans)), strict=True):
        virtual_s += found.virtual_s
        cpu_s += found.cpu_s
        if found.rules:
            failed += 1
            print(found.plan)
            _tell(found)
            if shrink:
                _tell_smaller(plan, found)
    hours = f"{virtual_s / 3600:,.1f} h of virtual time in {cpu_s / 60:,.1f} CPU minutes"
    print(f"{count(len(plans), 'seed')}, {failed or 'none'} failed: {hours}")
    return failed > 0


def _played(plans: Sequence[Plan], jobs: int) -> Iterator[Judged]:
    if jobs == 1:
        yield from map(_judge, plans)
        return
    with ProcessPoolExecutor(jobs, initializer=_leave_ctrl_c_to_parent) as pool:
        try:
            yield from pool.map(_judge, plans, chunksize=4)
        except (KeyboardInterrupt, GeneratorExit):
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _end_at_once(*_: object) -> NoReturn:
    """On Ctrl-C. An exception could be raised within a finalizer, and be printed as ignored."""
    os._exit(ExitCode.INTERRUPTED)


def _leave_ctrl_c_to_parent() -> None:
    signal(SIGINT, SIG_IGN)


def _tell(found: Judged) -> None:
    for line in found.said or ["every rule holds"]:
        print(f"  {line}", flush=True)


def _tell_smaller(plan: Plan, found: Judged) -> None:
    smaller = shrunk(plan, partial(_fails_as, found.rules))
    print(f"  the smallest plan that fails:\n  sharegroup simulate --plan '{smaller}'", flush=True)


def _fails_as(rules: frozenset[str], plan: Plan) -> bool:
    return bool(rules & _judge(plan).rules)


def _shown(found: Iterator[Judged], total: int) -> Iterable[Judged]:
    """With a progress bar, if somebody looks."""
    if not sys.stderr.isatty():
        return found
    from rich.console import Console
    from rich.progress import track

    return track(found, "", total, console=Console(stderr=True), transient=True)
