"""An answer as text, field by field: ids that a server has chosen become names, times are left out.

`members[m0#1].metadata='x'` is a field of the member that the script knows as m0's first id.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import MISSING, Field, fields
from typing import Any
from uuid import UUID

from sharegroup.groups.classic.embedded import decode_assignment, encode_assignment
from sharegroup.model.errors import ERRORS, MalformedMessage
from sharegroup.wire.schema import Message

LEFT_OUT = {
    "throttle_time_ms",
    "error_message",  # words are each server's own
    "heartbeat_interval_ms",
    "transaction_start_time_ms",
    "node_endpoints",
}
KEYS = ("member_id", "group_id", "name", "topic", "topic_name", "topic_id", "transactional_id")
CHOSEN = re.compile("-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
INDEXES = ("partition_index", "partition")


class Names:
    """What the script calls things: text, topic ids and producer ids to names."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.topic_ids: dict[UUID, str] = {}
        self._producers: dict[int, str] = {}

    def text(self, value: str) -> str:
        """A member id that no client has heard of yet is only known to be one."""
        return CHOSEN.sub("-?", self.texts.get(value, value)).replace(", ", " ")

    def data(self, value: bytes) -> str:
        """Bytes, with the script's topic under its name. Of an assignment of partitions only how
        many: which they are is the assignor's."""
        held = _partitions(value)
        if held is not None:
            return f"assignment of {held}"
        text = value.decode("latin-1")
        for known, name in self.texts.items():
            text = text.replace(known, name)
        return repr(text).replace(", ", " ")

    def producer(self, value: int) -> str:
        """Producer ids in the order in which they are seen."""
        if value < 0:
            return str(value)
        return self._producers.setdefault(value, f"producer{len(self._producers) + 1}")


def _partitions(value: bytes) -> int | None:
    """How many partitions an assignment has; None for other bytes."""
    try:
        found = decode_assignment(value)
    except MalformedMessage:
        return None
    is_one = len(value) > 2 and encode_assignment(found.partitions, value[:2]) == value
    return sum(map(len, found.partitions.values())) if is_one else None


def error_name(code: int) -> str:
    """Kafka's name of an error code."""
    return "ok" if code == 0 else ERRORS[code].name if code in ERRORS else str(code)


def rendered(message: Message, names: Names) -> list[str]:
    """`path=value` of every field that is not as a new message has it; errors always."""
    return list(_fields(message, names, ""))


def _fields(message: Message, names: Names, path: str) -> Iterator[str]:
    for field in fields(message):
        value = getattr(message, field.name)
        if field.name in LEFT_OUT or (field.name in KEYS and path):
            continue
        if field.name.endswith("error_code") or value != _default(field):
            yield from _value(value, names, f"{path}{field.name}", field.name)


def _default(field: Field[Any]) -> Any:
    if field.default_factory is not MISSING:
        return field.default_factory()
    return field.default


def _value(value: Any, names: Names, path: str, name: str) -> Iterator[str]:
    if isinstance(value, Message):
        yield from _fields(value, names, f"{path}.")
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes | memoryview):
        yield from _elements(value, names, path)
    else:
        yield f"{path}={_scalar(value, names, name)}"


def _elements(values: Sequence[Any], names: Names, path: str) -> Iterator[str]:
    if not any(isinstance(value, Message) for value in values):
        yield f"{path}=[{' '.join(sorted(_scalar(value, names, '') for value in values))}]"
        return
    told = []
    for value in values:
        element = f"{path}[{_key(value, names)}]"
        told.append((element, list(_fields(value, names, f"{element}.")) or [element]))
    for _, lines in sorted(told):
        yield from lines


def _key(value: Message, names: Names) -> str:
    """What a list's element is known by, whichever order the list has."""
    for name in KEYS:
        if getattr(value, name, None):
            return _scalar(getattr(value, name), names, name)
    return next((str(getattr(value, name)) for name in INDEXES if hasattr(value, name)), "")


def _scalar(value: Any, names: Names, name: str) -> str:
    if name.endswith("error_code"):
        return error_name(value)
    if name.endswith("producer_id"):
        return names.producer(value)
    if isinstance(value, UUID):
        return names.topic_ids.get(value, "another topic")
    if isinstance(value, bytes | memoryview):
        return names.data(bytes(value))
    return names.text(value) if isinstance(value, str) else str(value)
