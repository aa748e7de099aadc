"""The response that refuses a whole request: each of its parts says the same error.

Kafka writes this response by hand for each API (``AbstractRequest.getErrorResponse``). Here it
follows from the two message classes, since a response names the things that its request names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields
from functools import cache, partial
from operator import attrgetter
from typing import Any, Final

from sharegroup.model.errors import KafkaError
from sharegroup.wire.schema import FieldSchema, Message

IDENTIFYING: Final = frozenset(
    ("index", "partition", "partition_index", "producer_id", "resource_type")
)
"""The numbers that say which part of a request a part of its response is about. Strings and UUIDs
always do."""

_Fill = Callable[[Any, KafkaError], Any]
"""``(the request, or the part of it that is refused, the error)`` → a field's value."""


def refuser(response: type[Message]) -> Callable[[Any, KafkaError], Any]:
    """``failure(request, error)`` of a handler: a ``response`` in which every field for an error
    says ``error``. Fields that identify the parts come from ``request``, all others have their
    defaults."""

    def failure(request: Any, error: KafkaError) -> Any:
        filled = (*_errors(response), *_parts(type(request), response))
        return response(**{name: fill(request, error) for name, fill in filled})

    return failure


def says_errors(kind: type) -> bool:
    """Whether messages of this class have a field for an error, at any depth."""
    schemas = _schemas(kind)
    return "error_code" in schemas or any(map(says_errors, _arrays(kind).values()))


def _errors(kind: type) -> Iterator[tuple[str, _Fill]]:
    if "error_code" in _schemas(kind):
        yield "error_code", lambda _, error: error.code
    if "error_message" in _schemas(kind):
        yield "error_message", lambda _, error: error.message


def _parts(source: type, kind: type) -> Iterator[tuple[str, _Fill]]:
    for name, element in _arrays(kind).items():
        if says_errors(element):
            yield name, partial(_refused, attrgetter(_array_for(name, source)), element)


def _refused(
    parts: Callable[[Any], Any], element: type, source: Any, error: KafkaError
) -> list[Any]:
    return [
        element(**{name: fill(each, error) for name, fill in _filled_part(each.__class__, element)})
        for each in parts(source) or ()
    ]


@cache
def _filled_part(source: Any, kind: Any) -> list[tuple[str, _Fill]]:
    errors = [*_errors(kind)]
    # If a part has an error of its own, nobody has looked at the parts below it.
    return [*_named(source, kind), *(errors or _parts(source, kind))]


def _named(source: Any, kind: Any) -> Iterator[tuple[str, _Fill]]:
    """The fields of ``kind`` that identify a part."""
    if not issubclass(source, Message):  # an array of names or numbers: the first field has it
        first = next(name for name in _schemas(kind) if not name.startswith("error_"))
        yield first, lambda part, _: part
        return
    mine = _schemas(source)
    for name, schema in _schemas(kind).items():
        identifies = schema.kind in ("string", "uuid") or name in IDENTIFYING
        if identifies and name in mine and name != "error_message":
            yield name, _taken(name)


def _taken(name: str) -> _Fill:
    take = attrgetter(name)
    return lambda source, _: take(source)


def _array_for(name: str, source: type) -> str:
    """The array of the request that ``name`` of the response answers: of the same name, or the only
    one."""
    mine = [one for one, schema in _schemas(source).items() if schema.kind == "array"]
    if name in mine:
        return name
    (only,) = mine
    return only


@cache
def _schemas(kind: Any) -> dict[str, FieldSchema]:
    return {one.name: one.metadata["wire"] for one in fields(kind)}


def _arrays(kind: type) -> dict[str, type]:
    """The arrays of structs."""
    return {
        name: schema.element
        for name, schema in _schemas(kind).items()
        if schema.kind == "array" and isinstance(schema.element, type)
    }
