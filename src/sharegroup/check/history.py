"""A history: one JSON object a line, in the order in which the recorder saw it.

Every object has ``op`` and ``t``, the recorder's clock in milliseconds. A call is two lines with
the same number ``n``: one when it is made, and one when it has returned. A call that has not
returned, or whose result is ``unknown``, may or may not have had its effect.

===============  =================================================================================
``settings``     ``group``, and what holds from now on: ``limit`` (deliveries), ``lock_ms``,
                 ``locks`` (records in flight of a partition), ``ordering`` (``key``),
                 ``isolation`` (``read_committed``), ``letters`` (true: what is given up becomes a
                 dead letter), ``unseen`` (true: members fetch ahead, so records may be delivered
                 to them and given up without being seen)
``produce``      ``n``, ``topic``, ``id``, perhaps ``key``: a record is sent
``produced``     ``n``, ``partition``, ``offset``, and with ``result`` ``aborted``: its transaction
                 was aborted; or ``result``: ``failed`` or ``unknown``
``poll``         ``n``, ``group``, ``member``
``polled``       ``n``, ``acquired``: [topic, partition, first, last, delivery count] each,
                 ``records``: [topic, partition, offset, id] each, and ``since``: when the client
                 may have asked for them, if that was before the call (it fetches ahead)
``ack``          ``n``, ``group``, ``member``, ``acks``: [topic, partition, first, last, type] each,
                 with the type ``accept``, ``release``, ``reject`` or ``renew``
``acked``        ``n``, ``results``: for each of the acks ``ok``, the name of an error, or
                 ``unknown``
``leave``        ``group``, ``member``: its session ends, by its own will or with its process
``reset``        ``group``, ``topic``, ``partition``, ``offset``: the group begins there again
``starts``       ``group``, ``topic``, ``partition``, ``offset``: the group's start offset (SPSO) is
                 seen
``letter``       ``group``, ``topic``, ``partition``, ``offset``: the record has a dead letter
``kill``         the broker was killed, or lost its power
``shaky``        ``on``: the broker cannot write its state from now on (true), or can again (false).
                 Meanwhile it may lose locks and delivery counts
``end``          ``drained``: groups that have read all there was, and ``left``: the others, with
                 the number of records that they have left though nothing hinders them
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
    "leave": {"group": str, "member": str},
    "reset": {"group": str, "topic": str, "partition": int, "offset": int},
    "starts": {"group": str, "topic": str, "partition": int, "offset": int},
    "letter": {"group": str, "topic": str, "partition": int, "offset": int},
    "kill": {},
    "shaky": {"on": bool},
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
