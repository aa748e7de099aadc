"""What one seed draws: how many take part, which options they use, and which faults happen when."""

from __future__ import annotations

import random
from dataclasses import dataclass, fields, replace
from typing import Any, Final, Self

from sharegroup.model.errors import ConfigError

FIRST: Final = 200
SOONER: Final = 24_000
"""From this seed on half of the faults happen within :data:`BUSY_S`, and workers have dead letters:
without them nobody can tell whether a record that no handler has seen is lost."""
FAULTS_S: Final = 30
"""Faults happen within so many virtual seconds."""
BUSY_S: Final = 3
"""In these producers and members of one broker have most to do."""
LATE_MAX: Final = 1 << 20
"""The last message that a plan can name as late."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that goes wrong.

    Attributes:
        kind: one of :data:`KINDS`, or of :data:`NODE_KINDS`.
        at_s: when, in virtual seconds.
        value: how long, or how much: see there.
    """

    kind: str
    at_s: float
    value: float = 0

    def __str__(self) -> str:
        return f"{self.kind}@{self.at_s:g}" + (f"+{self.value:g}" if self.value else "")

    @classmethod
    def parsed(cls, text: str) -> Self:
        """A fault as :meth:`__str__` writes it."""
        kind, _, rest = text.partition("@")
        at_s, _, value = rest.partition("+")
        if kind not in {*KINDS, *NODE_KINDS}:
            raise ConfigError(f"there is no fault {kind!r}: {', '.join((*KINDS, *NODE_KINDS))}")
        return cls(kind, float(at_s), float(value or 0))


KINDS: Final[dict[str, tuple[float, ...]]] = {
    "kill": (0, 0.1, 3),  # kill -9 of the broker; it starts again after so many seconds
    "power": (0, 0.1, 3),  # as kill, and what was not synced is lost, or torn
    "stall": (0.5, 3, 10),  # nothing of the broker runs for so many seconds
    "eio": (0, 1, 2),  # a write (0), a sync (1) or all for 5 s (2); the broker restarts later
    "full": (0.5, 5),  # the disk is full
    "slow": (2, 10),  # each sync takes 0.5 s, for so many seconds
    "clock": (-3600, -5, 5, 3600),  # the wall clock jumps
    "member": (0,),  # kill -9 of a member; another one comes
    "leave": (0,),  # a member leaves by itself; another one comes
    "pause": (0.5, 3, 8),  # nothing of a member runs
    "cut": (0, 1),  # the connections of a member (0) or of a producer (1) are reset
    "silence": (0.5, 3, 8),  # nothing gets to or from a member
    "lock": (1000, 2000, 5000),  # a setting changes: the lock's duration, in milliseconds
    "limit": (2, 3, 5, 10),  # the delivery limit
    "still": (2, 8),  # the group is paused
    "refused": (2, 8),  # the dead-letter topic takes no letters
    "trim": (0.5, 1),  # this part of the topic's records is deleted
    "anew": (0, 2),  # the topic is deleted; so many seconds later it is made anew
    "flip": (0,),  # as kill, and a bit of a record was flipped on the disk
    "expire": (3, 8),  # for so many seconds all that was written is past its retention
}
"""Kind of fault → the values that are drawn for it."""
LATER: Final = "trim", "anew", "flip", "expire"
"""These happen to seeds from :data:`FIRST` on."""
NODE_KINDS: Final[dict[str, tuple[float, ...]]] = {
    "node-kill": (0, 0.1, 3, 10),  # kill -9 of a node; it starts again after so many seconds
    "nodes-kill": (0, 3),  # of all of them
    "node-stop": (0, 3),  # a planned stop; it starts again so many seconds after its end
    "node-drain": (2, 8),  # it hands everything over, and takes its part again later
    "node-pause": (0.5, 3, 8, 12),  # nothing of a node runs
    "node-cut": (0, 1, 2),  # connections are reset: all (0), to the cluster (1), to nodes (2)
    "node-apart": (1, 3, 8, 12),  # nothing gets from a node to the cluster, or back
    "node-deaf": (1, 3, 8),  # nothing gets from the cluster to a node
    "node-mute": (1, 3, 8),  # nothing gets from a node to the cluster
    "node-unseen": (3, 10),  # nothing gets from a node to the other ones, or back
}
"""As :data:`KINDS`, of a plan with several nodes. Then the broker of the faults above is that of
the cluster."""
NOT_OF_CLUSTER: Final = "flip", "eio", "full"
"""These do not happen to the broker of a cluster: it may lose what it has confirmed."""
HOLD_WRITES_BACK: Final = "node-apart", "node-mute"
"""A write that a node has passed on may come so late that the topic is another one of its name,
which nobody can tell then: no topic is made anew where these happen."""


@dataclass(frozen=True, slots=True)
class Plan:
    """See the module. Each of the first fields is a number, so that a smaller plan is easily had.

    Attributes:
        keys: how many keys there are; 0: records have no keys.
        ordered: 1: ``share.ordering=key``.
        letters: 1: what is given up becomes a dead letter.
        transactional: 1: producers use transactions, and the group reads what is committed.
        turns: 1: ``share.fairness=key``.
        priorities: 1: records have one of ten priorities.
        locks: 1: at most 100 records of a partition are in flight, as few as can be set.
        backoff_ms: how long a failed record rests.
        release, reject, slow, renew: in how many of a hundred cases a member releases or rejects a
            record, works longer than its lock lasts, or renews its locks first.
        latency_ms: the longest time that a message takes.
        readers: how many members a consumer group has that share the partitions (KIP-X).
        in_turns: 1: they share them in turns, else by key.
        workers: how many members of each share group are workers (``consumer.run``).
        compacted: 1: the topic is compacted.
        nodes: 1: clients use the broker. More: they use so many nodes in front of it.
        late: the numbers of the messages that take a time of their own, all others take the
            shortest; None: each message takes a time of its own.
    """

    seed: int
    partitions: int
    producers: int
    members: int
    groups: int
    records: int
    keys: int
    ordered: int
    letters: int
    transactional: int
    turns: int
    priorities: int
    locks: int
    limit: int
    lock_ms: int
    backoff_ms: int
    release: int
    reject: int
    slow: int
    renew: int
    latency_ms: float
    readers: int
    in_turns: int
    workers: int
    compacted: int
    nodes: int
    faults: tuple[Fault, ...] = ()
    late: tuple[int, ...] | None = None

    @classmethod
    def drawn(cls, seed: int, nodes: int = 1) -> Self:
        """The plan of a seed, with so many nodes."""
        plan = cls._alone(seed)
        if nodes == 1:
            return plan if seed < SOONER else plan._sooner()
        chance = random.Random(f"{seed} nodes")
        faults = [one for one in plan.faults if one.kind not in NOT_OF_CLUSTER]
        kinds = chance.sample([*NODE_KINDS], chance.randint(1, 4))
        for _ in range(chance.choice((0, 3, 8, 15))):
            kind, at_s = chance.choice(kinds), round(chance.uniform(0, FAULTS_S), 3)
            faults.append(Fault(kind, at_s, chance.choice(NODE_KINDS[kind])))
        if any(one.kind in HOLD_WRITES_BACK for one in faults):
            faults = [one for one in faults if one.kind != "anew"]
        faults.sort(key=lambda one: one.at_s)
        # Nodes share no partitions of consumer groups among members (KIP-X).
        return replace(plan, nodes=nodes, readers=0, in_turns=0, faults=tuple(faults))

    def _sooner(self) -> Self:
        chance = random.Random(f"{self.seed} sooner")
        faults = [
            replace(one, at_s=round(chance.uniform(0, BUSY_S), 3)) if chance.random() < 0.5 else one
            for one in self.faults
        ]
        faults.sort(key=lambda one: one.at_s)
        letters = max(self.letters, min(self.workers, 1))
        return replace(self, letters=letters, faults=tuple(faults))

    @classmethod
    def _alone(cls, seed: int) -> Self:
        chance = random.Random(f"{seed} plan")
        keys = chance.choice((0, 0, 1, 3, 20))
        order = chance.choice(("", "", "key", "key", "turns", "priorities"))
        kinds = chance.sample([one for one in KINDS if one not in LATER], chance.randint(0, 5))
        # The first seeds find the planted faults of docs/correctness.md, and stay as they are.
        later = random.Random(f"{seed} later")
        many = later.choice((0, 0, 1, 2)) * (seed >= FIRST)
        return cls(
            seed=seed,
            partitions=chance.randint(1, 4),
            producers=chance.randint(1, 3),
            members=chance.randint(1, 5),
            groups=chance.choice((1, 1, 2)),
            records=chance.choice((chance.randint(20, 200), chance.randint(20, 200), 500)),
            keys=keys,
            ordered=int(keys > 0 and order == "key"),
            letters=chance.choice((0, 1)),
            transactional=chance.choice((0, 0, 1)),
            turns=int(keys > 0 and order == "turns"),
            priorities=int(order == "priorities"),
            locks=chance.choice((0, 0, 1)),
            limit=chance.choice((2, 3, 5, 10)),
            lock_ms=chance.choice((1_000, 2_000, 5_000)),
            backoff_ms=chance.choice((0, 0, 500)),
            release=chance.choice((0, 5, 30)),
            reject=chance.choice((0, 5)),
            slow=chance.choice((0, 2, 10)),
            renew=chance.choice((0, 0, 20)),
            latency_ms=chance.choice((0.1, 2, 30)),
            readers=chance.choice((0, 0, 1, 2, 4)),
            in_turns=chance.choice((0, 1)),
            workers=random.Random(f"{seed} workers").choice((0, 0, 1, 2)) * (seed >= FIRST),
            compacted=later.choice((0, 0, 1)) * (seed >= FIRST and keys > 0),
            nodes=1,
            faults=cls._faults(chance, kinds, later, many),
        )

    @staticmethod
    def _faults(
        chance: random.Random, kinds: list[str], later: random.Random, many: int
    ) -> tuple[Fault, ...]:
        drawn = []
        for _ in range(chance.randint(1, 8) if kinds else 0):
            kind, at_s = chance.choice(kinds), round(chance.uniform(0, FAULTS_S), 3)
            drawn.append(Fault(kind, at_s, chance.choice(KINDS[kind])))
        for _ in range(many):
            kind, at_s = later.choice(LATER), round(later.uniform(1, FAULTS_S), 3)
            drawn.append(Fault(kind, at_s, later.choice(KINDS[kind])))
        return tuple(sorted(drawn, key=lambda one: one.at_s))

    def __str__(self) -> str:
        words = [f"{one.name}={getattr(self, one.name):g}" for one in fields(self)[:-2]]
        words.append("faults=" + (",".join(map(str, self.faults)) or "none"))
        if self.late is not None:
            words.append("late=" + (_ranges(self.late) or "none"))
        return " ".join(words)

    @classmethod
    def parsed(cls, text: str) -> Self:
        """A plan as :meth:`__str__` writes it. What is not named is as the seed draws it.

        Raises:
            ConfigError: it has a name or a value that no plan has.
        """
        words = dict(word.partition("=")[::2] for word in text.split())
        try:
            plan = cls.drawn(int(words.pop("seed")), int(words.get("nodes", "1")))
            given: dict[str, Any] = {}
            for name, value in words.items():
                if name == "faults":
                    listed = [] if value == "none" else value.split(",")
                    given[name] = tuple(Fault.parsed(one) for one in listed)
                elif name == "late":
                    given[name] = () if value == "none" else _numbers(value)
                else:
                    given[name] = type(getattr(plan, name))(float(value))
            return replace(plan, **given)
        except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
            raise ConfigError(f"this is no plan, {error}: {text}") from None


def _ranges(numbers: tuple[int, ...]) -> str:
    """Ascending numbers as text: ``3,7-12``."""
    runs: list[list[int]] = []
    for one in numbers:
        if runs and one == runs[-1][1] + 1:
            runs[-1][1] = one
        else:
            runs.append([one, one])
    return ",".join(f"{a}-{b}" if b > a else f"{a}" for a, b in runs)


def _numbers(text: str) -> tuple[int, ...]:
    """What :func:`_ranges` has written."""
    found: list[int] = []
    for run in text.split(","):
        first, _, last = run.partition("-")
        if int(last or first) > LATE_MAX:
            raise ValueError(f"no message after the {LATE_MAX}th can be late")
        found.extend(range(int(first), int(last or first) + 1))
    return tuple(found)
