"""A history: one JSON object a line, in the order in which the recorder saw it.

Every object has ``op`` and ``t``, the recorder's clock in milliseconds. A call is two lines with
the same number ``n``: one when it is made, and one when it has returned. A call that has not
returned, or whose result is ``unknown``, may or may not have had its effect.

===============  =================================================================================
``settings``     ``group``, and what holds from now on: ``limit`` (deliveries), ``lock_ms``,
                 ``locks`` (records in flight of a partition), ``ordering`` (``key``),
                 ``isolation`` (``read_committed``), ``letters`` (true: what is given up becomes a
                 dead letter), ``unseen`` (true: members fetch ahead, so records may be delivered
                 to them and given up without being seen), ``rests_ms`` (the longest time that a
                 failed record rests)
``produce``      ``n``, ``topic``, ``id``, perhaps ``key``: a record is sent
``produced``     ``n``, ``partition``, ``offset``, and with ``result`` ``aborted``: its transaction
                 was aborted; or ``result``: ``failed`` or ``unknown``
``poll``         ``n``, ``group``, ``member``
``polled``       ``n``, ``acquired``: [topic, partition, first, last, delivery count] each,
                 ``records``: [topic, partition, offset, id] each, ``since``: when the client may
                 have asked for them, if that was before the call (it fetches ahead), and of a poll
                 that came back empty ``of``: [topic, partition] that it has asked
``ack``          ``n``, ``group``, ``member``, ``acks``: [topic, partition, first, last, type] each,
                 with the type ``accept``, ``release``, ``reject`` or ``renew``
``acked``        ``n``, ``results``: for each of the acks ``ok``, the name of an error, or
                 ``unknown``
``works``        ``n``, ``group``, ``member``, ``topic``, ``partition``, ``offset``, ``id``,
                 ``count``, perhaps ``key``: a worker's handler gets a record
``worked``       ``n``, ``result``: the handler has ended: ``ok``, ``failed``, ``rejected`` or
                 ``cancelled``. What the broker was told of it is not known
``leave``        ``group``, ``member``: its session ends, by its own will or with its process
``reset``        ``group``, ``topic``, ``partition``, ``offset``: the group begins there again
``starts``       ``group``, ``topic``, ``partition``, ``offset``: the group's start offset (SPSO) is
                 seen
``letter``       ``group``, ``topic``, ``partition``, ``offset``: the record has a dead letter
``gone``         ``topic``, ``partition``, ``first``, ``last`` (-1: all that follow, and the topic):
                 these records may be gone: they are being deleted, or a disk has damaged them; with
                 ``done`` (true): they are deleted, and nobody gets them from now on
``compacts``     ``topic``: a record may be gone once a later one of its key is there
``kill``         the broker was killed, or lost its power
``shaky``        ``on``: the broker cannot write its state from now on (true), or can again (false).
                 Meanwhile it may lose locks and delivery counts
``calm``         from now on nothing fails, and each member polls: what is there must come
``read``         ``group``, ``member``, ``records``: [topic, partition, offset, id, key] each: a
                 member of a consumer group that shares partitions (KIP-X) has got them
``owns``         ``group``, ``member``, ``parts``: [topic, partition, first, last] each: from now on
                 the member reads these hashes of keys, or with two fields: in turns with the others;
                 ``since``: when it may have got them, if that was before
``commit``       ``n``, ``group``, ``member``, ``offsets``: [topic, partition, first, last] each
``committed``    ``n``, ``result``: ``ok``, the name of an error, or ``unknown``
``fetched``      ``group``, ``topic``, ``partition``, ``offset``, ``ranges``: [first, last] each:
                 what the group has committed, and ``since``: when that was asked for
``sunk``         ``sink``, ``topic``, ``partition``, ``offset``: a sink has the record
``end``          ``drained``: groups that have read all there was, ``left``: the others, with the
                 number of records that they have left though nothing hinders them, and ``sinks``:
                 {name: topics} of those that must have all
===============  =================================================================================
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, Final

Event = dict[str, Any]

ACCEPT: Final = "accept"
RELEASE: Final = "release"
REJECT: Final = "reject"
RENEW: Final = "renew"
OK: Final = "ok"
UNKNOWN: Final = "unknown"
ENDED: Final = "ok", "rejected"
"""Results of a handler by which it is done with its record."""
ABORTED: Final = "aborted"
COMMITTED: Final = "read_committed"

FIELDS: Final[dict[str, dict[str, type | tuple[type, ...]]]] = {
    "settings": {"group": str},
    "produce": {"n": int, "topic": str, "id": str},
    "produced": {"n": int},
    "poll": {"n": int, "group": str, "member": str},
    "polled": {"n": int, "acquired": list},
    "ack": {"n": int, "group": str, "member": str, "acks": list},
    "acked": {"n": int, "results": list},
    "works": {
        "n": int,
        "group": str,
        "member": str,
        "topic": str,
        "partition": int,
        "offset": int,
        "id": str,
        "count": int,
    },
    "worked": {"n": int, "result": str},
    "leave": {"group": str, "member": str},
    "reset": {"group": str, "topic": str, "partition": int, "offset": int},
    "starts": {"group": str, "topic": str, "partition": int, "offset": int},
    "letter": {"group": str, "topic": str, "partition": int, "offset": int},
    "gone": {"topic": str, "partition": int, "first": int, "last": int},
    "compacts": {"topic": str},
    "kill": {},
    "shaky": {"on": bool},
    "calm": {},
    "read": {"group": str, "member": str, "records": list},
    "owns": {"group": str, "member": str, "parts": list},
    "commit": {"n": int, "group": str, "member": str, "offsets": list},
    "committed": {"n": int, "result": str},
    "fetched": {
        "group": str,
        "topic": str,
        "partition": int,
        "offset": int,
        "ranges": list,
        "since": (int, float),
    },
    "sunk": {"sink": str, "topic": str, "partition": int, "offset": int},
    "end": {"drained": list},
}
"""Kind of event → what it must have, beside ``op`` and ``t``."""


class BadHistory(Exception):
    """A line is not what it should be; the text names it and says why."""


def events(lines: Iterable[str | bytes]) -> Iterator[tuple[int, Event]]:
    """Number of the line, from 1 on, and its event.

    Raises:
        BadHistory: a line cannot be read.
    """
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            event = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise BadHistory(f"line {number} is no JSON: {error}") from None
        check(number, event)
        yield number, event


def check(number: int, event: Any) -> None:
    """Raises BadHistory unless this is an event."""
    if not isinstance(event, dict):
        raise BadHistory(f"line {number} is no JSON object")
    fields = FIELDS.get(event.get("op", ""))
    if fields is None:
        raise BadHistory(f"line {number}: op is {event.get('op')!r}, not {', '.join(FIELDS)}")
    if not isinstance(event.get("t"), int | float):
        raise BadHistory(f"line {number}: t is no number")
    for name, kind in fields.items():
        if not isinstance(event.get(name), kind):
            raise BadHistory(f"line {number}: {event['op']} needs {name}")
