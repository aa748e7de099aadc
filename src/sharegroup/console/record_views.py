"""Single records and dead letters as the page shows them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Final

from sharegroup.client.admin.admin import Admin
from sharegroup.client.admin.descriptions import OffsetSpec
from sharegroup.client.consumer import Consumer
from sharegroup.client.core.dead_letter import DeadLetter
from sharegroup.client.core.json_record import record_json
from sharegroup.client.core.letter_expression import LetterExpression
from sharegroup.client.core.letter_kinds import kind_of, letters_of_kind
from sharegroup.client.core.record import ConsumerRecord
from sharegroup.client.dead_letters.queue import dead_letter_queue
from sharegroup.client.log_reading import as_log_record
from sharegroup.client.network.cluster import Cluster
from sharegroup.console.causes import said_of
from sharegroup.console.letter_goals import waiting_letters
from sharegroup.console.limits import LETTERS_MAX
from sharegroup.console.payloads import Decode, beginning, decoded, shown
from sharegroup.model.errors import ConfigError, OffsetOutOfRange, UnknownTopicOrPartition
from sharegroup.model.ids import TopicPartition

READ_MS: Final = 5_000
"""How long a record is waited for."""
READ_LOOKS: Final = 25
"""So often it is looked meanwhile whether the end is reached: behind the last record there may be
marks of transactions alone."""

Json = dict[str, Any]


async def record_at(
    admin: Admin, cluster: Cluster, at: TopicPartition, offset: int, decode: Decode | None
) -> Json:
    """The record at this offset, or the first after it: compaction and markers leave holes.

    Args:
        decode: a user's function, which makes text of a value.

    Raises:
        KafkaError: there is no such partition or record, or it may not be read.
    """
    begin = (await admin.list_offsets([at], OffsetSpec.EARLIEST))[at].offset
    end = (await admin.list_offsets([at], OffsetSpec.LATEST))[at].offset
    if not begin <= offset < end:
        raise OffsetOutOfRange(f"{at} has the offsets {begin} to {end - 1}, and no {offset}")
    async with Consumer[bytes, bytes](
        cluster=cluster, auto_offset_reset="none", max_poll_records=1
    ) as consumer:
        consumer.assign([at])
        consumer.seek(at.topic, at.partition, offset)
        for _ in range(READ_LOOKS):
            for record in await consumer.poll(READ_MS // READ_LOOKS):
                return {**_record(record), **await decoded(record.value, decode)}
            if await consumer.position(at.topic, at.partition) >= end:
                break
    raise OffsetOutOfRange(
        f"{at} has no record at {offset} or after it that can be read: there is the mark of a "
        "transaction's end, or compaction has removed the record"
    )


def _record(record: ConsumerRecord[bytes, bytes]) -> Json:
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp,
        "key": shown(record.key),
        "value": shown(record.value),
        "headers": [{"name": name, **shown(data)} for name, data in record.headers],
    }


_NO_LETTERS: Final[Json] = {"causes": [], "letters": [], "more": False}


async def letters_of(admin: Admin, group: str, where: str | None) -> Json:
    """The dead letters of a group that are not done: by cause, and the oldest ones singly.

    Args:
        where: an expression that chooses letters; None: all.

    Raises:
        ConfigError: the expression is wrong.
        KafkaError: they cannot be read.
    """
    if where:
        LetterExpression(where)
    waiting = await waiting_letters(admin, group)
    try:
        letters = await admin.list_dead_letters(group, where=where or None, letters_max=LETTERS_MAX)
    except (ConfigError, UnknownTopicOrPartition) as error:
        unnamed = "The group keeps no dead letters: it names no topic for them."
        gone = "The topic that the group names for its dead letters does not exist."
        missing = unnamed if isinstance(error, ConfigError) else gone
        return {"group": group, "missing": missing, "waiting": waiting, **_NO_LETTERS}
    causes = Counter((one.cause, kind_of(one.message)) for one in letters)
    return {
        "group": group,
        "missing": None,
        "waiting": waiting,
        "causes": [
            {
                "cause": cause,
                "cause_said": said_of(cause),
                "message": message,
                "letters": number,
                "where": letters_of_kind(cause, message),
            }
            for (cause, message), number in causes.most_common()
        ],
        "letters": [_letter(one) for one in letters],
        "more": len(letters) == LETTERS_MAX,
    }


async def exported(cluster: Cluster, group: str, where: str | None) -> AsyncGenerator[bytes]:
    """The dead letters as ``sharegroup dead export`` prints them, some lines at a time.

    Raises:
        ConfigError: the expression is wrong, or the group names no dead-letter topic.
        KafkaError: they cannot be read.
    """
    wanted = LetterExpression(where) if where else None
    async with (
        dead_letter_queue(cluster, group, None) as queue,
        aclosing(queue.letters(wanted)) as steps,
    ):
        async for some in steps:
            lines = [json.dumps(record_json(as_log_record(one.record))) + "\n" for one in some]
            yield "".join(lines).encode()


def _letter(one: DeadLetter) -> Json:
    return {
        "letter": f"{one.place.partition}:{one.place_offset}",
        "letter_topic": one.place.topic,
        "topic": one.topic,
        "partition": one.partition,
        "offset": one.offset,
        "cause": one.cause,
        "cause_said": said_of(one.cause),
        "message": one.message,
        "member": one.member,
        "deliveries": one.deliveries,
        "failed_ms": one.failed_ms,
        "key": beginning(one.key),
        "value": beginning(one.value),
    }
