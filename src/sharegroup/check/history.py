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
``reset``        ``group``, ``topic``, ``partition``, ``offset``: the group begins there again,
                 and skips what is before; told when it is asked for
``starts``       ``group``, ``topic``, ``partition``, ``offset``: the group's start offset (SPSO) is
                 seen. What was asked for before a reset is told before it
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
                 the member reads these hashes of keys, or with two fields: in turns with the
                 others; ``since``: when it may have got them, if that was before
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

from sharegroup.check.shapes import (
    ACKS,
    ACQUIRED,
    INTEGER,
    LEFT,
    MAYBE,
    NUMBER,
    OFFSET,
    OFFSET_OR_NONE,
    PARTITION,
    PARTS,
    PLACES,
    RANGES,
    READ,
    RECORD,
    RECORDS,
    RUNS,
    SINKS,
    TEXT,
    TEXTS,
    TRUTH,
    Shape,
)

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

FIELDS: Final[dict[str, dict[str, Shape]]] = {
    "settings": {"group": TEXT},
    "produce": {"n": INTEGER, "topic": TEXT, "id": TEXT},
    "produced": {"n": INTEGER},
    "poll": {"n": INTEGER, "group": TEXT, "member": TEXT},
    "polled": {"n": INTEGER, "acquired": ACQUIRED},
    "ack": {"n": INTEGER, "group": TEXT, "member": TEXT, "acks": ACKS},
    "acked": {"n": INTEGER, "results": TEXTS},
    "works": {
        "n": INTEGER,
        "group": TEXT,
        "member": TEXT,
        "topic": TEXT,
        "partition": PARTITION,
        "offset": RECORD,
        "id": TEXT,
        "count": INTEGER,
    },
    "worked": {"n": INTEGER, "result": TEXT},
    "leave": {"group": TEXT, "member": TEXT},
    "reset": {"group": TEXT, "topic": TEXT, "partition": PARTITION, "offset": OFFSET},
    "starts": {"group": TEXT, "topic": TEXT, "partition": PARTITION, "offset": OFFSET},
    "letter": {"group": TEXT, "topic": TEXT, "partition": PARTITION, "offset": OFFSET},
    "gone": {"topic": TEXT, "partition": PARTITION, "first": OFFSET, "last": OFFSET_OR_NONE},
    "compacts": {"topic": TEXT},
    "kill": {},
    "shaky": {"on": TRUTH},
    "calm": {},
    "read": {"group": TEXT, "member": TEXT, "records": READ},
    "owns": {"group": TEXT, "member": TEXT, "parts": PARTS},
    "commit": {"n": INTEGER, "group": TEXT, "member": TEXT, "offsets": RUNS},
    "committed": {"n": INTEGER, "result": TEXT},
    "fetched": {
        "group": TEXT,
        "topic": TEXT,
        "partition": PARTITION,
        "offset": OFFSET_OR_NONE,
        "ranges": RANGES,
        "since": NUMBER,
    },
    "sunk": {"sink": TEXT, "topic": TEXT, "partition": PARTITION, "offset": OFFSET},
    "end": {"drained": TEXTS},
}
"""Kind of event → what it must have, beside ``op`` and ``t``."""

MORE: Final[dict[str, dict[str, Shape]]] = {
    "settings": {
        "limit": MAYBE,
        "lock_ms": MAYBE,
        "locks": MAYBE,
        "ordering": TEXT,
        "isolation": TEXT,
        "letters": TRUTH,
        "unseen": TRUTH,
        "rests_ms": NUMBER,
    },
    "produce": {"key": TEXT},
    "produced": {"partition": PARTITION, "offset": RECORD, "result": TEXT},
    "polled": {"records": RECORDS, "since": NUMBER, "of": PLACES, "result": TEXT},
    "works": {"key": TEXT},
    "gone": {"done": TRUTH},
    "owns": {"since": NUMBER},
    "end": {"left": LEFT, "sinks": SINKS},
}
"""The same → what it may have."""

_SHAPES: Final = {op: {**fields, **MORE.get(op, {})} for op, fields in FIELDS.items()}
_ENDS: Final = "gone", "produced"

CALLS: Final = {
    "produced": "produce",
    "polled": "poll",
    "acked": "ack",
    "worked": "works",
    "committed": "commit",
}
"""Kind of answer → kind of the call that it answers."""


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
    op = event.get("op")
    if not isinstance(op, str) or op not in FIELDS:
        raise BadHistory(f"line {number}: op is {op!r}, not {', '.join(FIELDS)}")
    if not NUMBER.fits(event.get("t")):
        raise BadHistory(f"line {number}: t is not {NUMBER.says}")
    if not FIELDS[op].keys() <= event.keys():
        missing = next(name for name in FIELDS[op] if name not in event)
        raise BadHistory(f"line {number}: {op} needs {missing}")
    shapes = _SHAPES[op]
    for name, value in event.items():
        if name in shapes and not shapes[name].fits(value):
            raise BadHistory(f"line {number}: {name} of {op} is not {shapes[name].says}")
    if op in _ENDS:
        _check_ends(number, event)


def _check_ends(number: int, event: Event) -> None:
    """What one field alone does not show."""
    if event["op"] == "gone" and 0 <= event["last"] < event["first"]:
        raise BadHistory(f"line {number}: gone ends before it begins")
    if event["op"] == "produced" and "offset" in event and "partition" not in event:
        raise BadHistory(f"line {number}: produced needs partition")
