"""All queues, with one line each. Of very many queues each look asks about some.

A look asks first about the queues that it knows nothing of yet, for a while, so that the first ones
are there at once. Then it asks about others, LOOK_QUEUES in all: those with members first, and
those that were not asked for longest. In between, a queue's lag grows with the ends of its
partitions; its rates are known again when it is asked about.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any, NamedTuple

from sharegroup.client.admin.admin import Admin
from sharegroup.client.admin.descriptions import GroupListing, OffsetSpec
from sharegroup.client.admin.hand_requests import PAUSED
from sharegroup.console.causes import QueueState, status_of
from sharegroup.console.letter_counts import LetterCounts
from sharegroup.console.letter_goals import TOPIC_NAME
from sharegroup.console.limits import ENDS_MAX, FIRST_S, LIST_S, LOOK_QUEUES, LOOK_SETTINGS
from sharegroup.console.queue_counts import QueueCounts
from sharegroup.console.rates import SPARK_POINTS, Counts, Rates
from sharegroup.model.errors import GroupIdNotFound, KafkaError
from sharegroup.model.ids import TopicPartition

Json = dict[str, Any]
EMPTY = "empty"


class _Known(NamedTuple):
    """What is known of a queue since ``asked_s``."""

    asked_s: float
    members: int
    silent: int
    counts: QueueCounts | KafkaError
    waited: bool = True
    """Whether dead letters waited in the look before, too: to write one takes a moment."""


class _Settings(NamedTuple):
    """What the settings of a queue were at ``asked_s``."""

    asked_s: float
    paused: bool


_NOT_ASKED = _Settings(0.0, False)


class QueueList:
    """See the module.

    Args:
        rates: the rates of each queue, which are told when its counts are.
        letters: the dead letters of each queue, of which it is told as well.
    """

    def __init__(self, admin: Admin, rates: dict[str, Rates], letters: LetterCounts) -> None:
        self._admin = admin
        self._rates = rates
        self._letters = letters
        self._known: dict[str, _Known] = {}
        self._settings: dict[str, _Settings] = {}
        self._ends: dict[TopicPartition, int] = {}
        self._listed: list[GroupListing] = []
        self._topics: set[str] = set()
        self._listed_s = -LIST_S

    async def all(self) -> Json:
        """Every queue, asked about now."""
        shares, others = await self._list()
        await self._ask([*shares])
        await self._ask_settings()
        return self._view(shares, others)

    async def watched(self) -> Json:
        """The same as one look of many. ``more``: queues of which nothing is known yet."""
        many = len(self._known) > LOOK_QUEUES
        shares, others = await self._list(LIST_S if many else 0.0)
        known = [group for group in shares if group in self._known]
        unknown = [group for group in shares if group not in self._known]
        until_s = time.monotonic() + FIRST_S
        for at in range(0, len(unknown), LOOK_QUEUES):
            await self._ask(unknown[at : at + LOOK_QUEUES])
            if time.monotonic() > until_s:
                break
        room = LOOK_QUEUES - len(unknown)
        if known and room > 0:
            in_turn = sorted(
                known,
                key=lambda group: (shares[group].lower() == EMPTY, self._known[group].asked_s),
            )
            await self._ask(in_turn[:room])
        await self._ask_settings()
        return self._view(shares, others)

    def forget(self, group: str) -> None:
        """Something was done to a queue: the next look asks about it first."""
        self._known.pop(group, None)
        self._settings.pop(group, None)
        self._listed_s = -LIST_S

    async def groups_of(self, topic: str) -> list[str]:
        """The share groups that have a state of this topic."""
        found = (await self.all())["queues"]
        return [one["group"] for one in found if topic in one.get("topics", ())]

    async def _list(self, age_s: float = 0.0) -> tuple[dict[str, str], list[Json]]:
        """Share group → state, and the other groups."""
        now_s = time.monotonic()
        if now_s - self._listed_s >= age_s:
            self._topics = await topic_names(self._admin)
            self._ends = {at: end for at, end in self._ends.items() if at.topic in self._topics}
            self._listed, self._listed_s = await self._admin.list_groups(), now_s
        shares = {one.group_id: one.state for one in self._listed if one.type.lower() == "share"}
        for gone in self._known.keys() - shares.keys():
            del self._known[gone]
            self._settings.pop(gone, None)
            self._letters.forget(gone)
        for gone in self._rates.keys() - shares.keys():
            del self._rates[gone]
        others = [
            {"group": one.group_id, "type": one.type, "state": one.state}
            for one in self._listed
            if one.type.lower() != "share"
        ]
        return shares, others

    async def _ask(self, groups: list[str]) -> None:
        now_s = time.monotonic()
        counted = {at for group in groups for at in self._counted(group)}
        before = await ends_of(self._admin, counted, self._topics)
        summaries = await self._admin.summarize_share_groups(groups)
        asked = {
            at
            for one in summaries.values()
            if not isinstance(one, KafkaError)
            for at in one.offsets
        }
        await self._read_ends(asked)
        for group in groups:
            found = summaries.get(group, GroupIdNotFound())
            if isinstance(found, KafkaError):
                self._known[group] = _Known(now_s, 0, 0, found)
            else:
                counts = QueueCounts.of(found.offsets, self._ends, before)
                waited = _waited(self._known.get(group))
                self._known[group] = _Known(now_s, found.members, found.silent, counts, waited)

    def _counted(self, group: str) -> frozenset[TopicPartition]:
        return self._rates[group].counted if group in self._rates else frozenset()

    async def _ask_settings(self) -> None:
        """Ask for settings of a few queues: those whose settings are known longest, or not at all,
        and of these first those with members. A broker takes long to tell settings. Then count
        letters."""
        in_turn = sorted(
            self._known,
            key=lambda group: (
                self._settings.get(group, _NOT_ASKED).asked_s,
                not self._known[group].members,
            ),
        )[:LOOK_SETTINGS]
        found = await self._admin.settings_of_groups(in_turn, PAUSED, TOPIC_NAME)
        now_s = time.monotonic()
        for group in in_turn:
            self._settings[group] = _Settings(now_s, found[group].get(PAUSED) == "true")
            self._letters.named(group, found[group].get(TOPIC_NAME))
        await self._letters.look(self._topics)

    async def _read_ends(self, asked: set[TopicPartition]) -> None:
        """The ends of these partitions, and of all others of queues if they are few."""
        wanted = asked | self._ends.keys() if len(self._ends) <= ENDS_MAX else asked
        found = await ends_of(self._admin, wanted, self._topics)
        if not found:
            self._listed_s = -LIST_S  # a topic may be gone: list them again
        self._ends |= found

    def _view(self, shares: dict[str, str], others: list[Json]) -> Json:
        known = [group for group in shares if group in self._known]
        return {
            "at_ms": round(time.time() * 1000),
            "queues": [self._line(group, shares[group], self._known[group]) for group in known],
            "more": len(shares) - len(known),
            "consumer_groups": others,
        }

    def _line(self, group: str, state: str, known: _Known) -> Json:
        line: Json = {"group": group, "state": state}
        if isinstance(known.counts, KafkaError):
            return {**line, "error": str(known.counts), "status": {"rank": 10, "text": "not seen"}}
        counts = known.counts.with_ends(self._ends)
        rates = self._rates.setdefault(group, Rates())
        note(rates, known.counts, known.asked_s)  # what was finished since is not known
        numbers = counted(counts, rates)
        paused = self._settings.get(group, _NOT_ASKED).paused
        seen = state_of(numbers, known.members, paused)._replace(silent=known.silent)
        status = status_of(seen if known.waited else seen._replace(dead=0))
        return {
            **line,
            "members": known.members,
            "paused": paused,
            "status": status._asdict(),
            "error": None,
            **numbers,
            **self._letters.of(group),
        }


def _waited(before: _Known | None) -> bool:
    return before is None or isinstance(before.counts, KafkaError) or bool(before.counts.dead)


async def topic_names(admin: Admin) -> set[str]:
    """The topics that there are."""
    return {one.name for one in await admin.list_topics()}


async def ends_of(
    admin: Admin, wanted: Iterable[TopicPartition], there: set[str]
) -> dict[TopicPartition, int]:
    """The ends of these partitions, of the topics that are ``there``."""
    known = [at for at in wanted if at.topic in there]
    if not known:
        return {}
    try:
        found = await admin.list_offsets(known, OffsetSpec.LATEST)
    except KafkaError:
        return {}  # a partition may be gone meanwhile: the next look finds the others
    return {at: one.offset for at, one in found.items()}


def note(rates: Rates, counts: QueueCounts, at_s: float) -> None:
    """Let the rates take in what was seen at a moment of the monotonic clock."""
    finished, again = counts.written - counts.lag - counts.loose, counts.redelivered or 0
    counted = frozenset(counts.counted)
    rates.add(Counts(at_s, counts.written, finished, again, counts.loose, counted))


def counted(counts: QueueCounts, rates: Rates) -> Json:
    """The numbers of a queue as the page has them, and its rates."""
    ready = counts.lag - (counts.in_flight or 0) - (counts.delayed or 0)
    return {
        "topics": list(counts.topics),
        "lag": counts.lag,
        "ready": max(0, ready),
        "in_flight": counts.in_flight,
        "delayed": counts.delayed,
        "dead": counts.dead,
        "damaged": counts.damaged,
        "oldest_ms": counts.oldest_ms,
        "written": _drawn(rates.written(SPARK_POINTS)),
        "finished": _drawn(rates.finished(SPARK_POINTS)),
    }


def state_of(numbers: Json, members: int, paused: bool) -> QueueState:
    """What can be said of a queue with these numbers."""
    oldest_ms = numbers["oldest_ms"] if numbers["lag"] else None
    finished = numbers["finished"]
    return QueueState(
        members=members,
        paused=paused,
        lag=numbers["lag"],
        in_flight=numbers["in_flight"],
        delayed=numbers["delayed"],
        dead=numbers["dead"],
        damaged=numbers["damaged"],
        oldest_age_ms=None if oldest_ms is None else round(time.time() * 1000) - int(oldest_ms),
        finished_per_s=sum(finished) / len(finished) if finished else None,
    )


def _drawn(rates: list[float]) -> list[float]:
    """One number says that a queue has stood still: most of very many do."""
    return rates if any(rates) else rates[:1]
