"""What an operator may do from the page. Each act first says what it would change; a second request
does it. The broker authorises each as the request that it is, and has it in its audit log.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Final

from sharegroup.client.admin.descriptions import DecidedRecords, OffsetSpec
from sharegroup.client.core.dead_letter import LettersHandled, LettersProgress
from sharegroup.client.core.letter_expression import duration_ms
from sharegroup.console.act_fields import BadAct, Given, Said, offset, optional, text
from sharegroup.console.causes import count
from sharegroup.console.desk import Desk
from sharegroup.console.letter_goals import no_letter
from sharegroup.console.limits import PLACES_MAX
from sharegroup.console.queue_counts import QueueCounts
from sharegroup.console.queue_list import ends_of, topic_names
from sharegroup.console.topic_acts import (
    configure,
    create_topic,
    dead_letters,
    delete_topic,
    members_of,
)
from sharegroup.model.errors import UnknownTopicOrPartition
from sharegroup.model.ids import TopicPartition

Act = Callable[[Desk, Given, bool], Awaitable[str | Said]]
"""Takes the fields of a request, and whether to do it: otherwise it only says what it would do.
Returns a sentence."""


async def pause(desk: Desk, given: Given, do: bool) -> str:
    """Deliver nothing to the group until it is resumed."""
    group = text(given, "group")
    if do:
        await desk.admin.pause_group(group)
        return f"{group} is paused."
    members = (await desk.admin.describe_share_groups([group]))[group].members
    return (
        f"Deliver no records to {group} ({count(len(members), 'member')}), until it is resumed. "
        "What members hold can still be answered."
    )


async def resume(desk: Desk, given: Given, do: bool) -> str:
    """Deliver again."""
    group = text(given, "group")
    if do:
        await desk.admin.resume_group(group)
        return f"{group} gets records again."
    return f"Deliver records to {group} again."


async def purge(desk: Desk, given: Given, do: bool) -> str:
    """Give up what is not finished."""
    group, age = text(given, "group"), given.get("older_than") or None
    older_than_ms = None if age is None else duration_ms(text(given, "older_than"))
    if age is not None and older_than_ms is None:
        raise BadAct(f"{age!r} is no duration: write 12h or 2d, for instance")
    which = "all records" if age is None else f"all records older than {age}"
    if do:
        purged = await desk.admin.purge_group(group, older_than_ms=older_than_ms)
        return f"{_decided(list(purged.values()))} purged from {group}."
    offsets = await desk.admin.list_share_group_offsets(group)
    ends = await ends_of(desk.admin, {*offsets}, await topic_names(desk.admin))
    lag = QueueCounts.of(offsets, ends).lag
    return (
        f"Give up {which} of {group} that are not finished (of {count(lag, 'record')}), also "
        "those that members hold. They become no dead letters, and stay in the topic. It cannot "
        "be undone."
    )


async def fork(desk: Desk, given: Given, do: bool) -> str:
    """Let another group begin where this one stands."""
    group, name = text(given, "group"), text(given, "to")
    if do:
        copied = await desk.admin.fork_share_group(group, name)
        return f"{name} has the state of {group} in {count(len(copied), 'partition')}."
    return (
        f"Let the group {name} begin with the state that {group} has of every record. Its own "
        "state of these topics is dropped."
    )


async def decide(desk: Desk, given: Given, do: bool) -> str | Said:
    """Decide about single records."""
    group, how = text(given, "group"), text(given, "how")
    at = TopicPartition(text(given, "topic"), offset(given, "partition"))
    first, last = offset(given, "first"), offset(given, "last")
    if last < first:
        raise BadAct("last is before first")
    which = f"{at.topic}:{at.partition}, offsets {first} to {last}"
    if how not in _DECISIONS:
        raise BadAct(f"how is none of {', '.join(_DECISIONS)}")
    reason = optional(given, "reason")
    extend_ms = duration_ms(text(given, "extend")) if how == "extend" else None
    if how == "extend" and extend_ms is None:
        raise BadAct("extend is no duration: write 90s or 10m, for instance")
    if not do:
        longer = f" They keep them for {given['extend']} from now on." if how == "extend" else ""
        said = f"{_DECISIONS[how]} {group}: {which}.{longer}{_LATER.get(how, '')}"
        return Said(said, warning=await no_letter(desk.admin, group) if how == "archive" else None)
    if how == "accept":
        decided = await desk.admin.accept_records(group, at, first, last)
    elif how == "release":
        decided = await desk.admin.release_records(group, at, first, last)
    elif how == "archive":
        decided = await desk.admin.archive_records(group, at, first, last, reason=reason)
    else:
        decided = await desk.admin.extend_records(group, at, first, last, extend_ms=extend_ms or 0)
    return f"{_DONE[how]} {_decided([decided])}."


_LATE: Final = " If a member holds one of them, what it answers later is refused."
_LATER: Final = {
    "accept": _LATE,
    "release": _LATE + " The delivery counts towards share.delivery.count.limit.",
    "archive": _LATE,
}


_DECISIONS: Final = {
    "accept": "Finish these records, as if they were accepted, of",
    "release": "Let these records be delivered again at once, of",
    "archive": "Give these records up (they become dead letters if there is a topic for them), of",
    "extend": "Let the members that hold these records keep them longer, of",
}


_DONE: Final = {
    "accept": "Finished",
    "release": "Released",
    "archive": "Gave up",
    "extend": "Extended the locks of",
}


async def redrive(desk: Desk, given: Given, do: bool) -> str | Said:
    """Send the records of dead letters again. ``/api/v1/progress`` tells how far it is."""
    group, where = text(given, "group"), optional(given, "where")
    to = optional(given, "to")
    goal = f"the topic {to}" if to is not None else "where they are from"
    if to is not None:
        try:
            await desk.admin.describe_topics(to)
        except UnknownTopicOrPartition:
            raise BadAct(f"there is no topic {to}") from None
    with desk.telling(group) as told:
        found = await desk.admin.redrive_dead_letters(
            group, to=to, where=where, dry_run=not do, told=_telling(told)
        )
    if do:
        desk.queues.letters.acted()
        copies = [at._asdict() | {"offset": offset} for at, offset in found.copies]
        return Said(f"{_handled(found)} redriven.", records=copies, more=found.done - len(copies))
    if not found.done:
        return Said(f"No letter to send again: {_handled(found)}.", nothing=True)
    return f"Send the records of {_handled(found)} again, each once, to {goal}.{_news(found)}"


async def purge_letters(desk: Desk, given: Given, do: bool) -> str | Said:
    """Mark dead letters as done."""
    group, where = text(given, "group"), optional(given, "where")
    with desk.telling(group) as told:
        found = await desk.admin.purge_dead_letters(
            group, where=where, dry_run=not do, told=_telling(told)
        )
    if do:
        desk.queues.letters.acted()
        return f"{count(found.done, 'letter')} purged."
    if not found.done:
        return Said("There is no letter to purge.", nothing=True)
    return (
        f"Mark {count(found.done, 'letter')} of {group} as done: not shown or redriven any more. "
        f"They stay in their topic. It cannot be undone.{_news(found)}"
    )


def _news(found: LettersHandled) -> str:
    """Why there may be more of them than the page has said."""
    return " Letters that come until you confirm are included." if found.done > 1 else ""


def _telling(told: Callable[[str], None]) -> Callable[[LettersProgress], None]:
    return lambda one: told(
        f"{one.done:,} done, {one.records_read:,} of {one.records:,} letters read"
    )


async def reset(desk: Desk, given: Given, do: bool) -> str | Said:
    """Let a group begin elsewhere in a topic."""
    group, topic, to = text(given, "group"), text(given, "topic"), text(given, "to")
    described = (await desk.admin.describe_topics(topic))[topic]
    partitions = [TopicPartition(topic, one.partition) for one in described.partitions]
    first = await desk.admin.list_offsets(partitions, OffsetSpec.EARLIEST)
    end = await desk.admin.list_offsets(partitions, OffsetSpec.LATEST)
    read = ""
    if to in ("earliest", "latest"):
        goal = {at: (first if to == "earliest" else end)[at].offset for at in partitions}
    elif to == "time":
        moment_ms = _moment_ms(text(given, "time"))
        moment = datetime.fromtimestamp(moment_ms / 1000, UTC)
        read = f" The time is {moment:%Y-%m-%d %H:%M:%S} UTC."
        found = await desk.admin.list_offsets(partitions, moment_ms)
        goal = {
            at: found[at].offset if found[at].offset >= 0 else end[at].offset for at in partitions
        }
    else:
        raise BadAct("to is none of earliest, latest, time")
    if do:
        errors = await desk.admin.alter_share_group_offsets(group, goal)
        for error in filter(None, errors.values()):
            raise error
        return f"{group} begins at {_places(goal)}."
    left = sum(end[at].offset - offset for at, offset in goal.items())
    said = (
        f"Let {group} begin at {_places(goal)}: {count(left, 'record')} from there on. What it "
        f"knows of this topic's records is dropped.{read}"
    )
    members = await members_of(desk, group)
    if members:
        has = count(members, "member")
        why = f"{group} has {has}: stop its members first, then it can begin elsewhere."
        return Said(said, warning=why, nothing=True)
    return said


def _moment_ms(said: str) -> int:
    try:
        moment = datetime.fromisoformat(said)
    except ValueError:
        raise BadAct(f"{said[:40]!r} is no time: write 2026-11-21T08:30Z, for instance") from None
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def _places(goal: Mapping[TopicPartition, int]) -> str:
    shown = [f"{at.partition}@{offset}" for at, offset in sorted(goal.items())[:PLACES_MAX]]
    more = len(goal) - len(shown)
    topic = next(iter(goal)).topic
    return f"{topic}:{', '.join(shown)}" + (f" and {more} partitions more" if more else "")


ACTS: Final[Mapping[str, Act]] = {
    "pause": pause,
    "resume": resume,
    "purge": purge,
    "fork": fork,
    "decide": decide,
    "redrive": redrive,
    "purge-letters": purge_letters,
    "reset": reset,
    "configure": configure,
    "dead-letters": dead_letters,
    "create-topic": create_topic,
    "delete-topic": delete_topic,
}


def _decided(decided: list[DecidedRecords]) -> str:
    records, held = sum(one.records for one in decided), sum(one.held for one in decided)
    return count(records, "record") + (f" ({held:,} of them held)" if held else "")


def _handled(found: LettersHandled) -> str:
    left = found.gone + found.homeless
    without = f" ({left:,} are left out: their record or topic is gone)" if left else ""
    return count(found.done, "letter") + without
