"""The expressions that choose dead letters, such as
``cause == "rejected" and deliveries > 3 and age < 2d``.

Python's parser reads an expression, and a short list of its nodes is turned into functions: names
are the fields of a letter and nothing else; there are no calls, no attributes, no arithmetic. Two
words are not Python's: ``matches``, and durations such as ``2d``. They are replaced by something of
the same length before the parser sees them, so places in errors are places in the text.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from enum import Enum
from typing import Any, Final, NamedTuple

from sharegroup.client.core.dead_letter import DeadLetter
from sharegroup.model.errors import ConfigError

LENGTH_MAX: Final = 4_000
_SHOWN: Final = 40
"""The most characters before and after a wrong place that are shown."""
_UNITS_MS: Final = {
    "ms": 1,
    "s": 1_000,
    "m": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
    "w": 604_800_000,
}
_WORDS: Final = re.compile(
    r"""(?P<text>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')"""
    r"""|(?P<comment>\#)"""
    r"""|(?P<matches>(?<![\w.])matches(?!\w))"""
    r"""|(?P<duration>(?<![\w.])(?P<number>[0-9]+)(?P<unit>ms|[smhdw])(?!\w))"""
)
_DURATION: Final = re.compile(r"([0-9]+)(ms|[smhdw])")


class BadExpression(ConfigError):
    """The expression cannot be understood.

    Attributes:
        pointer: two lines: the expression, or the part of it around the place, and a mark below.
    """

    def __init__(self, why: str, text: str, at: int) -> None:
        at = max(0, min(at, len(text)))
        super().__init__(f"{why}: at character {at + 1} of {text!r}")
        begin = max(0, at - _SHOWN)
        self.pointer = text[begin : at + _SHOWN], f"{' ' * (at - begin)}^"


class _Kind(Enum):
    """What a part of an expression is. The value is how errors name it."""

    TEXT = "text"
    NUMBER = "a number"
    TIME = "a time"
    DURATION = "a duration such as 2d"
    HEADERS = "the headers"
    CHOICE = "a condition"
    NOTHING = "None"


class _Seen(NamedTuple):
    """What a function gets: a letter, and the time now."""

    letter: DeadLetter
    now_ms: int


_Read = Callable[[_Seen], Any]


class _Part(NamedTuple):
    """A part of the expression. ``constant``: its value, if it is one."""

    kind: _Kind
    read: _Read
    constant: Any = None


def _decoded(data: bytes | None) -> str | None:
    return None if data is None else data.decode(errors="replace")


_FIELDS: Final[Mapping[str, _Part]] = {
    "topic": _Part(_Kind.TEXT, lambda seen: seen.letter.topic),
    "partition": _Part(_Kind.NUMBER, lambda seen: seen.letter.partition),
    "offset": _Part(_Kind.NUMBER, lambda seen: seen.letter.offset),
    "cause": _Part(_Kind.TEXT, lambda seen: seen.letter.cause),
    "message": _Part(_Kind.TEXT, lambda seen: seen.letter.message),
    "member": _Part(_Kind.TEXT, lambda seen: seen.letter.member),
    "deliveries": _Part(_Kind.NUMBER, lambda seen: seen.letter.deliveries),
    "failed": _Part(_Kind.TIME, lambda seen: seen.letter.failed_ms),
    "age": _Part(_Kind.DURATION, lambda seen: seen.now_ms - seen.letter.failed_ms),
    "key": _Part(_Kind.TEXT, lambda seen: _decoded(seen.letter.key)),
    "headers": _Part(_Kind.HEADERS, lambda seen: seen.letter.headers),
}
FIELDS: Final = tuple(_FIELDS)
_OF_RECORD: Final = ("key", "headers")
"""The fields that a letter without a copy does not have."""

_ORDERS: Final[Mapping[type[ast.cmpop], Callable[[Any, Any], bool]]] = {
    ast.Eq: lambda one, other: bool(one == other),
    ast.NotEq: lambda one, other: bool(one != other),
    ast.Lt: lambda one, other: bool(one < other),
    ast.LtE: lambda one, other: bool(one <= other),
    ast.Gt: lambda one, other: bool(one > other),
    ast.GtE: lambda one, other: bool(one >= other),
}
_EQUALITIES: Final = (ast.Eq, ast.NotEq)


class LetterExpression:
    """An expression over the fields of a letter (:data:`FIELDS`).

    A comparison with a field that a letter does not have is false, except ``== None`` and ``!=``.

    Raises:
        BadExpression: the text is no expression over these fields.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        parts = _Parts(text)
        self._chooses = parts.whole()
        self.needs_record = any(name in parts.used for name in _OF_RECORD)
        """Whether it asks for what only the record has, and not each letter."""

    def chooses(self, letter: DeadLetter, now_ms: int) -> bool:
        """Whether the expression is true for the letter."""
        return bool(self._chooses(_Seen(letter, now_ms)))


def duration_ms(text: str) -> int | None:
    """Milliseconds of ``90s``, ``15m``, ``2d`` …; None: the text is no duration."""
    found = _DURATION.fullmatch(text.strip())
    return None if found is None else int(found[1][:15]) * _UNITS_MS[found[2]]


class _Parts:
    """Turns the nodes of an expression into functions.

    Attributes:
        used: the names of fields in it.
    """

    def __init__(self, text: str) -> None:
        self._text = "".join(one if one.isprintable() else " " for one in text).strip()
        self._durations: dict[int, int] = {}
        self.used: set[str] = set()

    def whole(self) -> _Read:
        """The function of the whole expression."""
        if len(self._text) > LENGTH_MAX:
            begin = self._text[:_SHOWN]
            raise BadExpression(f"the expression has more than {LENGTH_MAX} characters", begin, 0)
        python = _WORDS.sub(self._replaced, self._text)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # "\d" in a regular expression
                node = ast.parse(python, mode="eval").body
        except SyntaxError as error:
            at = error.offset or 0
            if at < 1 or error.lineno != 1:  # more was expected
                at = len(self._text) + 1
            raise self._wrong_at(at - 1, "this is not an expression") from None
        except (ValueError, RecursionError, MemoryError):
            raise self._wrong_at(0, "this is not an expression") from None
        try:
            part = self._part(node)
        except RecursionError:
            raise self._wrong_at(0, "this is nested too deeply") from None
        return self._condition(node, part).read

    def _replaced(self, found: re.Match[str]) -> str:
        if found["text"] is not None:
            return found["text"]
        if found["comment"] is not None:  # Python would not read what follows
            raise self._wrong_at(found.start(), "this is not an expression")
        if found["matches"] is not None:
            return "@".ljust(len("matches"))
        # A complex number has the same length, and no other use here.
        self._durations[len(self._text[: found.start()].encode())] = (
            int(found["number"][:15]) * _UNITS_MS[found["unit"]]
        )
        return f"{found['number']}j".ljust(len(found[0]))

    # --- nodes ------------------------------------------------------------------------------------

    def _part(self, node: ast.expr) -> _Part:
        match node:
            case ast.BoolOp(op=op, values=values):
                reads = [self._condition(one, self._part(one)).read for one in values]
                chosen = all if isinstance(op, ast.And) else any
                return _Part(_Kind.CHOICE, lambda seen: chosen(read(seen) for read in reads))
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                negated = self._condition(operand, self._part(operand)).read
                return _Part(_Kind.CHOICE, lambda seen: not negated(seen))
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() as number)) if (
                type(number) is int
            ):
                return _constant(_Kind.NUMBER, -number)
            case ast.Compare():
                return self._comparison(node)
            case ast.BinOp(op=ast.MatMult(), left=left, right=right):
                return self._match(left, right)
            case ast.Name(id=name):
                return self._field(node, name)
            case ast.Subscript(value=ast.Name(id="headers"), slice=index):
                return self._header(index)
            case ast.Constant(value=value):
                return self._literal(node, value)
            case _:
                raise self._wrong(
                    node,
                    "only comparisons, in, matches, and, or, not of a letter's fields are known",
                )

    def _field(self, node: ast.expr, name: str) -> _Part:
        part = _FIELDS.get(name)
        if part is None:
            raise self._wrong(node, f"{name} is no field; the fields are {', '.join(FIELDS)}")
        self.used.add(name)
        return part

    def _header(self, index: ast.expr) -> _Part:
        self.used.add("headers")
        if not isinstance(index, ast.Constant) or not isinstance(index.value, str):
            raise self._wrong(index, 'write the name of a header, as in headers["trace"]')
        wanted = index.value

        def read(seen: _Seen) -> str | None:
            found = [data for name, data in seen.letter.headers if name == wanted]
            return _decoded(found[-1]) if found else None

        return _Part(_Kind.TEXT, read)

    def _literal(self, node: ast.Constant, value: object) -> _Part:
        duration = self._durations.get(node.col_offset)
        if isinstance(value, complex) and duration is not None:
            return _constant(_Kind.DURATION, duration)
        if isinstance(value, str):
            return _constant(_Kind.TEXT, value)
        if type(value) in (int, float):
            return _constant(_Kind.NUMBER, value)
        if value is None:
            return _constant(_Kind.NOTHING, None)
        raise self._wrong(node, "write text in quotes, a number, a duration such as 2d, or None")

    def _condition(self, node: ast.expr, part: _Part) -> _Part:
        if part.kind is not _Kind.CHOICE:
            raise self._wrong(node, f"this is {part.kind.value}, and no condition: compare it")
        return part

    def _match(self, left: ast.expr, right: ast.expr) -> _Part:
        text, pattern = self._part(left), self._part(right)
        if text.kind is not _Kind.TEXT:
            raise self._wrong(left, f"this is {text.kind.value}, and only text can match")
        if not isinstance(pattern.constant, str):
            raise self._wrong(right, "write a regular expression in quotes")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                search = re.compile(pattern.constant).search
        except (re.error, RecursionError, OverflowError) as error:
            raise self._wrong(right, f"this is no regular expression: {error}") from None

        def read(seen: _Seen) -> bool:
            found = text.read(seen)
            return found is not None and search(found) is not None

        return _Part(_Kind.CHOICE, read)

    def _comparison(self, node: ast.Compare) -> _Part:
        sides = [node.left, *node.comparators]
        reads = [
            self._compared(one, op, other)
            for one, op, other in zip(sides, node.ops, sides[1:], strict=False)
        ]
        return _Part(_Kind.CHOICE, lambda seen: all(read(seen) for read in reads))

    def _compared(self, left: ast.expr, op: ast.cmpop, right: ast.expr) -> _Read:
        if isinstance(op, ast.In | ast.NotIn):
            inside = self._inside(left, right)
            return inside if isinstance(op, ast.In) else lambda seen: not inside(seen)
        order = _ORDERS.get(type(op))
        if order is None:
            raise self._wrong(right, "write == or !=, and not is")
        one, other = self._alike(left, self._part(left), right, self._part(right))
        if _Kind.NOTHING in (one.kind, other.kind) and not isinstance(op, _EQUALITIES):
            raise self._wrong(right, "None has no order: write == None or != None")
        first, second, compares = one.read, other.read, order
        if isinstance(op, _EQUALITIES):
            return lambda seen: compares(first(seen), second(seen))

        def ordered(seen: _Seen) -> bool:
            a, b = first(seen), second(seen)
            return a is not None and b is not None and compares(a, b)

        return ordered

    def _inside(self, left: ast.expr, right: ast.expr) -> _Read:
        one = self._part(left)
        if isinstance(right, ast.Tuple | ast.List | ast.Set):
            values = set()
            for each in right.elts:
                _, other = self._alike(left, one, each, self._part(each))
                if not isinstance(each, ast.Constant | ast.UnaryOp):
                    raise self._wrong(each, "write constants here")
                values.add(other.constant)
            return lambda seen: one.read(seen) in values
        within = self._part(right)
        if one.kind is not _Kind.TEXT or within.kind not in (_Kind.TEXT, _Kind.HEADERS):
            raise self._wrong(right, 'write a list such as ("a", "b"), or look for text in text')
        if within.kind is _Kind.HEADERS:
            return lambda seen: any(name == one.read(seen) for name, _ in within.read(seen))

        def found(seen: _Seen) -> bool:
            part, whole = one.read(seen), within.read(seen)
            return part is not None and whole is not None and part in whole

        return found

    def _alike(
        self, left: ast.expr, one: _Part, right: ast.expr, other: _Part
    ) -> tuple[_Part, _Part]:
        """Both sides of a comparison, of one kind: text beside a time or a duration is one, too."""
        if isinstance(one.constant, str):
            one = self._as(left, one, other.kind)
        elif isinstance(other.constant, str):
            other = self._as(right, other, one.kind)
        if _Kind.HEADERS in (one.kind, other.kind):
            raise self._wrong(left, 'name a header, as in headers["trace"]')
        if one.kind is not other.kind and _Kind.NOTHING not in (one.kind, other.kind):
            raise self._wrong(right, f"this is {other.kind.value}, beside {one.kind.value}")
        return one, other

    def _as(self, node: ast.expr, part: _Part, kind: _Kind) -> _Part:
        """A text constant, taken for a time or a duration if the other side is one."""
        text: str = part.constant
        if kind is _Kind.TIME:
            try:
                moment = datetime.fromisoformat(text)
                moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
                return _constant(kind, round(moment.timestamp() * 1000))
            except (ValueError, OverflowError):
                raise self._wrong(node, "write a time, as in 2026-11-27T08:30 (UTC)") from None
        if kind is _Kind.DURATION:
            found = duration_ms(text)
            if found is None:
                raise self._wrong(node, "write a duration, as in 90s, 15m, 12h, 2d")
            return _constant(kind, found)
        return part

    # --- errors -----------------------------------------------------------------------------------

    def _wrong(self, node: ast.expr, why: str) -> BadExpression:
        before = self._text.encode()[: node.col_offset].decode(errors="ignore")
        return self._wrong_at(len(before), why)

    def _wrong_at(self, at: int, why: str) -> BadExpression:
        return BadExpression(why, self._text, at)


def _constant(kind: _Kind, value: Any) -> _Part:
    return _Part(kind, lambda _: value, value)
