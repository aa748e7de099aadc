"""Queues (share groups) as the page shows them: asked of the broker by its admin requests."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

from sharegroup.client.admin.admin import Admin
from sharegroup.client.admin.descriptions import (
    MemberDescription,
    OffsetSpec,
    PartitionRecords,
    RecordRange,
    ShareGroupOffset,
    ShareGroupSummary,
)
from sharegroup.client.admin.hand_requests import PAUSED
from sharegroup.console.causes import QueueState, likely_causes
from sharegroup.console.limits import RANGES_MAX
from sharegroup.console.rates import SPARK_POINTS, Counts, Rates
from sharegroup.console.settings import settings_of
from sharegroup.model.errors import KafkaError, SharegroupError
from sharegroup.model.ids import TopicPartition

Offsets = Mapping[TopicPartition, ShareGroupOffset]
Json = dict[str, Any]


class QueueViews:
    """Asks about queues, and remembers what is needed for their rates."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin
        self._rates: dict[str, Rates] = {}

    async def all(self) -> Json:
        """All share groups, with one line each, and the consumer groups by name."""
        listed = await self._admin.list_groups()
        shares = {one.group_id: one.state for one in listed if one.type.lower() == "share"}
        self._rates = {group: self._rates.get(group, Rates()) for group in shares}
        summaries = await self._admin.summarize_share_groups(shares)
        ends = await self._ends(
            {
                at
                for one in summaries.values()
                if not isinstance(one, KafkaError)
                for at in one.offsets
            }
        )
        return {
            "at_ms": _now_ms(),
            "queues": [
                self._line(group, state, summaries[group], ends)
                for group, state in shares.items()
                if group in summaries
            ],
            "consumer_groups": [
                {"group": one.group_id, "type": one.type, "state": one.state}
                for one in listed
                if one.type.lower() != "share"
            ],
        }

    def _line(
        self,
        group: str,
        state: str,
        found: ShareGroupSummary | KafkaError,
        ends: Mapping[TopicPartition, int],
    ) -> Json:
        line = {"group": group, "state": state}
        if isinstance(found, KafkaError):
            return {**line, "error": str(found)}
        counts = self._counts(group, found.offsets, ends)
        return {**line, "members": found.members, "error": None, **counts}

    async def one(self, group: str) -> Json:
        """One share group, whole.

        Raises:
            KafkaError: there is no such group, or it may not be seen.
        """
        described = (await self._admin.describe_share_groups([group]))[group]
        summary = (await self._admin.summarize_share_groups([group]))[group]
        if isinstance(summary, KafkaError):
            raise summary
        offsets = summary.offsets
        ends = await self._ends(offsets)
        states, no_states = await self._states(group)
        settings, no_settings = await settings_of(self._admin, "group", group)
        counts = self._counts(group, offsets, ends)
        held = _held_by_member(states)
        assigned = {at for member in described.members for at in member.assignment}
        paused = any(one["name"] == PAUSED and one["value"] == "true" for one in settings)
        behind = [
            at for at, one in offsets.items() if _lag(one, ends.get(at)) and at not in assigned
        ]
        state = QueueState(
            members=len(described.members),
            paused=paused,
            lag=counts["lag"],
            in_flight=counts["in_flight"],
            delayed=counts["delayed"],
            dead=counts["dead"],
            blocked=sum(_size(r) for one in states.values() for r in one.ranges if r.blocked),
            oldest_age_ms=None
            if counts["oldest_ms"] is None
            else _now_ms() - int(counts["oldest_ms"]),
            finished_per_s=counts["finished"][-1] if counts["finished"] else 0.0,
            unassigned=len(behind),
            damaged=counts["damaged"],
        )
        return {
            "at_ms": _now_ms(),
            "group": group,
            "state": described.state,
            "paused": paused,
            **counts,
            "history": _history(self._rates[group]),
            "causes": likely_causes(state),
            "members": [_member(one, held.get(one.member_id, [])) for one in described.members],
            "partitions": [
                _partition(at, one, ends.get(at), states.get(at)) for at, one in offsets.items()
            ],
            "states_missing": no_states,
            "settings": settings,
            "settings_missing": no_settings,
        }

    async def _states(
        self, group: str
    ) -> tuple[Mapping[TopicPartition, PartitionRecords], str | None]:
        """The states of records, or why they are not known."""
        try:
            return await self._admin.describe_record_states(group), None
        except SharegroupError as error:
            return {}, str(error)

    async def _ends(self, wanted: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The ends of these partitions; of topics that are gone, none."""
        there = {one.name for one in await self._admin.list_topics()}
        known = [at for at in wanted if at.topic in there]
        if not known:
            return {}
        try:
            found = await self._admin.list_offsets(known, OffsetSpec.LATEST)
        except KafkaError:
            return {}  # a partition may be gone meanwhile: the next look finds the others
        return {at: one.offset for at, one in found.items()}

    def _counts(self, group: str, offsets: Offsets, ends: Mapping[TopicPartition, int]) -> Json:
        """The numbers of a group, over all partitions."""
        lags = {at: _lag(one, ends.get(at)) for at, one in offsets.items()}
        lag = _sum(lags.values()) or 0
        in_flight = _sum(one.in_flight for one in offsets.values())
        delayed = _sum(one.delayed for one in offsets.values())
        written = sum(ends[at] for at, own in lags.items() if own is not None and at in ends)
        rates = self._rates.setdefault(group, Rates())
        again = _sum(one.redelivered for one in offsets.values())
        rates.add(Counts(time.monotonic(), written, written - lag, again or 0))
        return {
            "topics": sorted({at.topic for at in offsets}),
            "lag": lag,
            "ready": max(0, lag - (in_flight or 0) - (delayed or 0)),
            "in_flight": in_flight,
            "delayed": delayed,
            "dead": _sum(one.dead for one in offsets.values()),
            "damaged": sum(r.last - r.first + 1 for one in offsets.values() for r in one.damaged),
            "oldest_ms": min(
                (
                    one.oldest_ms
                    for at, one in offsets.items()
                    if one.oldest_ms is not None and lags[at]
                ),
                default=None,
            ),
            "written": rates.written(SPARK_POINTS),
            "finished": rates.finished(SPARK_POINTS),
        }


def _history(rates: Rates) -> Json:
    now_ms = _now_ms()
    return {
        "at_ms": [now_ms - round(age_s * 1000) for age_s in rates.ages_s()],
        "written": rates.written(),
        "finished": rates.finished(),
        "redelivered": rates.redelivered(),
        "lag": rates.lags(),
    }


def _now_ms() -> int:
    return round(time.time() * 1000)


def _lag(one: ShareGroupOffset, end: int | None) -> int | None:
    """Records that are not finished, as the metric of the broker counts them; None: not known.
    Where the group has finished none yet, the broker tells where it begins, and no lag."""
    if one.lag is None and one.begins_at is not None and end is not None:
        return max(0, end - one.begins_at)
    return one.lag


def _sum(numbers: Iterable[int | None]) -> int | None:
    """The sum; None: the broker tells none of them."""
    known = [one for one in numbers if one is not None]
    return sum(known) if known else None


def _size(one: RecordRange) -> int:
    return one.last - one.first + 1


def _held_by_member(
    states: Mapping[TopicPartition, PartitionRecords],
) -> dict[str, list[tuple[TopicPartition, RecordRange]]]:
    found: dict[str, list[tuple[TopicPartition, RecordRange]]] = {}
    for at, records in states.items():
        for one in records.ranges:
            if one.member_id is not None:
                found.setdefault(one.member_id, []).append((at, one))
    return found


def _member(member: MemberDescription, held: list[tuple[TopicPartition, RecordRange]]) -> Json:
    locks = [one.lock_ms for _, one in held if one.lock_ms is not None]
    return {
        "member": member.member_id,
        "client": member.client_id,
        "host": member.client_host,
        "partitions": [f"{at.topic}:{at.partition}" for at in member.assignment],
        "holds": sum(_size(one) for _, one in held),
        "shortest_lock_ms": min(locks, default=None),
    }


def _partition(
    at: TopicPartition,
    offset: ShareGroupOffset,
    end: int | None,
    records: PartitionRecords | None,
) -> Json:
    ranges = () if records is None else records.ranges
    return {
        "topic": at.topic,
        "partition": at.partition,
        "start": offset.start_offset if offset.start_offset is not None else offset.begins_at,
        "end": end,
        "lag": _lag(offset, end),
        "in_flight": offset.in_flight,
        "error": None if offset.error is None else str(offset.error),
        "ranges": [_range(one) for one in ranges[:RANGES_MAX]],
        "more_ranges": max(0, len(ranges) - RANGES_MAX),
        "locks_known": records is not None and records.locks_known,
    }


def _range(one: RecordRange) -> Json:
    state = "archiving" if one.archiving else one.state.name.lower()
    if one.blocked:
        state = "blocked"
    elif state == "available" and one.lock_ms is not None:
        state = "delayed"
    return {
        "first": one.first,
        "last": one.last,
        "state": state,
        "deliveries": one.delivery_count,
        "member": one.member_id,
        "lock_ms": one.lock_ms,
        "reason": one.reason,
    }
