"""How a message class declares its wire format.

A message is a slotted dataclass whose fields are made by the functions below. Each field carries
the versions it exists in, the versions in which it may be null, and its tag when it is a tagged
field (KIP-482); ``wire.codec`` turns a class and a version into a reader and a writer. One class
serves all versions of its API: a field that a version lacks keeps its default when read and is left
out when written.

Versions are written as in Kafka's own message definitions: ``"0+"``, ``"3-7"``, ``"5"``. Types:
Kafka's ``clients/src/main/resources/common/message/README.md``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, TypeVar, dataclass_transform
from uuid import UUID

from sharegroup.model.ids import NULL_TOPIC_ID

VERSION_MAX = 32_767
M = TypeVar("M")


@dataclass(frozen=True, slots=True)
class Versions:
    """An interval of versions, both ends included; empty when ``last < first``."""

    first: int
    last: int

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.first <= version <= self.last


NO_VERSIONS = Versions(0, -1)


def parse_versions(text: str) -> Versions:
    """Parse ``"0+"``, ``"3-7"``, ``"5"`` or ``"none"``."""
    if text == "none":
        return NO_VERSIONS
    if text.endswith("+"):
        return Versions(int(text[:-1]), VERSION_MAX)
    first, _, last = text.partition("-")
    return Versions(int(first), int(last or first))


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldSchema:
    """What one field is on the wire."""

    kind: str
    """I8 i16 i32 i64 u16 u32 f64 bool uuid string bytes records struct array."""

    versions: Versions
    nullable: Versions
    tag: int | None
    tagged: Versions
    element: Any = None
    """Struct: its class; array: a kind's name or a class."""
    most: int | None = None
    """Array: more elements are malformed; None for the bound of all arrays."""


def element_schema(array_schema: FieldSchema) -> FieldSchema:
    """The schema of one element of an array of strings or bytes; elements are never null."""
    return FieldSchema(
        kind=array_schema.element,
        versions=array_schema.versions,
        nullable=NO_VERSIONS,
        tag=None,
        tagged=NO_VERSIONS,
    )


class Message:
    """Base of all message classes; a nested struct is a message class, too."""

    __slots__ = ()

    FLEXIBLE: ClassVar[int] = 0
    """First flexible version.

    Nested structs follow the message they stand in.
    """

    __match_args__: ClassVar[tuple[str, ...]] = ()

    def __eq__(self, other: object) -> bool:
        """Whether both are of one class with equal fields."""
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__match_args__)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """As a dataclass prints itself."""
        shown = (f"{name}={getattr(self, name)!r}" for name in self.__match_args__)
        return f"{type(self).__qualname__}({', '.join(shown)})"


@dataclass_transform()
def message(cls: type[M]) -> type[M]:
    """Make a message class of its fields: a slotted dataclass.

    There are 350 message classes, and a process uses few of them. So :class:`Message` compares and
    prints, and ``__init__`` is made when it is first called: this takes 0.2 s off each start.
    """
    made = dataclass(slots=True, eq=False, repr=False, init=False)(cls)

    def first_init(self: Any, *values: Any, **named: Any) -> None:
        made.__init__ = _init_of(made)  # type: ignore[method-assign]
        made.__init__(self, *values, **named)

    made.__init__ = first_init  # type: ignore[method-assign]
    return made


def _init_of(cls: type[Any]) -> Callable[..., None]:
    """The ``__init__`` that a dataclass would have. All fields have plain defaults."""
    own = fields(cls)
    arguments = "".join(f", {each.name}=defaults[{at}]" for at, each in enumerate(own))
    body = "".join(f"\n self.{each.name} = {each.name}" for each in own) or "\n pass"
    made: dict[str, Any] = {"defaults": [each.default for each in own]}
    exec(f"def __init__(self{arguments}):{body}", made)
    init: Callable[..., None] = made["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    return init


def _wire(
    kind: str,
    versions: str,
    default: Any,
    tag: int | None,
    tagged: str | None,
    nullable: str,
    element: Any = None,
    most: int | None = None,
) -> Any:
    schema = FieldSchema(
        kind=kind,
        versions=parse_versions(versions),
        nullable=parse_versions(nullable),
        tag=tag,
        tagged=NO_VERSIONS if tag is None else parse_versions(tagged or versions),
        element=element,
        most=most,
    )
    return field(default=default, metadata={"wire": schema})


def _primitive(kind: str, zero: Any) -> Any:
    def make(
        versions: str = "0+",
        *,
        default: Any = zero,
        tag: int | None = None,
        tagged: str | None = None,
        nullable: str = "none",
    ) -> Any:
        return _wire(kind, versions, default, tag, tagged, nullable)

    make.__name__ = kind
    make.__doc__ = f"A field of Kafka's type {kind}."
    return make


i8 = _primitive("i8", 0)
i16 = _primitive("i16", 0)
i32 = _primitive("i32", 0)
i64 = _primitive("i64", 0)
u16 = _primitive("u16", 0)
u32 = _primitive("u32", 0)
f64 = _primitive("f64", 0.0)
boolean = _primitive("bool", False)
uuid = _primitive("uuid", NULL_TOPIC_ID)
string = _primitive("string", "")
data = _primitive("bytes", b"")
records = _primitive("records", None)


def struct(
    element: type[Message],
    versions: str = "0+",
    *,
    default: Any = None,
    tag: int | None = None,
    tagged: str | None = None,
    nullable: str = "none",
) -> Any:
    """A nested struct; None stands for "all its defaults" where the version does not allow null."""
    return _wire("struct", versions, default, tag, tagged, nullable, element)


def array(
    element: type[Message] | str,
    versions: str = "0+",
    *,
    default: Any = (),
    tag: int | None = None,
    tagged: str | None = None,
    nullable: str = "none",
    most: int | None = None,
) -> Any:
    """An array of structs (a class) or of primitives (a kind's name). A message with more than
    ``most`` elements is malformed: it is refused before the first element is read."""
    return _wire("array", versions, default, tag, tagged, nullable, element, most)


__all__ = [
    "UUID",
    "FieldSchema",
    "Message",
    "Versions",
    "array",
    "boolean",
    "data",
    "element_schema",
    "f64",
    "i8",
    "i16",
    "i32",
    "i64",
    "parse_versions",
    "records",
    "string",
    "struct",
    "u16",
    "u32",
    "uuid",
]
