"""``sharegroup groups records … --accept | --release | --archive | --extend``: what an operator
decides about the records that the command shows."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Final

import typer

from sharegroup.cli.outcome import ExitCode, UsageError, complain
from sharegroup.cli.tables import count, print_json, print_line
from sharegroup.client.admin.admin import Admin
from sharegroup.client.admin.descriptions import DecidedRecords
from sharegroup.client.core.letter_expression import duration_ms
from sharegroup.cooperative.intervals import common, normal
from sharegroup.model.ids import TopicPartition
from sharegroup.model.limits import PAUSE_MS_MAX
from sharegroup.share.record_state import AckType

Partitions = Annotated[
    list[int] | None,
    typer.Option("--partition", "-p", min=0, help="Only this partition. Repeatable."),
]
Offsets = Annotated[
    list[str] | None,
    typer.Option("--offsets", metavar="FIRST[-LAST],…", help="Only these offsets, as in 7,20-29."),
]
Accept = Annotated[bool, typer.Option("--accept", help="Finish these records.")]
Release = Annotated[bool, typer.Option("--release", help="Let them be delivered again at once.")]
Archive = Annotated[bool, typer.Option("--archive", help="Never deliver them again.")]
Extend = Annotated[
    str | None,
    typer.Option(
        "--extend", metavar="DURATION", help="Let their holders keep them so long, as in 10m."
    ),
]
Reason = Annotated[
    str | None,
    typer.Option("--reason", metavar="TEXT", help="With --archive: for their dead letters."),
]
UNFINISHED: Final = frozenset({"available", "acquired", "delayed", "blocked"})
CONCERNED: Final = {
    AckType.ACCEPT: UNFINISHED,
    AckType.RELEASE: UNFINISHED - {"available"},
    AckType.REJECT: UNFINISHED,
    AckType.RENEW: frozenset({"acquired"}),
}
"""The states of records that a decision changes, as the command shows them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    """What is to be done with records."""

    kind: AckType
    word: str
    """As in ``3 records accepted``."""
    reason: str | None = None
    extend_ms: int | None = None

    @property
    def question(self) -> str:
        """What the user is asked, before the number of records."""
        return {
            AckType.ACCEPT: "accept",
            AckType.RELEASE: "release",
            AckType.REJECT: "archive, and never deliver again,",
            AckType.RENEW: "extend the locks of",
        }[self.kind]

    def concerns(self, row: dict[str, Any]) -> bool:
        """Whether it changes the records of this line."""
        return row["state"] in CONCERNED[self.kind]


def deed_of(
    *, accept: bool, release: bool, archive: bool, extend: str | None, reason: str | None
) -> Deed | None:
    """What the options say; None: nothing but a look.

    Raises:
        UsageError: the options do not go together, or a duration is none.
    """
    chosen = [accept, release, archive, extend is not None]
    if sum(chosen) > 1:
        raise UsageError("take one of --accept, --release, --archive and --extend")
    if reason is not None and not archive:
        raise UsageError("--reason goes with --archive")
    if accept:
        return Deed(kind=AckType.ACCEPT, word="accepted")
    if release:
        return Deed(kind=AckType.RELEASE, word="released")
    if archive:
        return Deed(kind=AckType.REJECT, word="archived", reason=reason)
    if extend is None:
        return None
    extend_ms = duration_ms(extend)
    if extend_ms is None or not 0 < extend_ms <= PAUSE_MS_MAX:
        raise UsageError(f"--extend {extend}: write a duration up to 7d, such as 10m")
    return Deed(kind=AckType.RENEW, word="extended", extend_ms=extend_ms)


def parse_offsets(texts: Sequence[str] | None) -> tuple[tuple[int, int], ...] | None:
    """The ranges of ``["7,20-29", …]``; None: all offsets.

    Raises:
        UsageError: a part is no offset and no range.
    """
    if texts is None:
        return None
    found = []
    for part in (part.strip() for text in texts for part in text.split(",")):
        first, dash, last = part.partition("-")
        if not (first.isdecimal() and (last.isdecimal() if dash else True)) or len(part) > 39:
            raise UsageError(f"--offsets {part}: write an offset or a range, such as 7,20-29")
        if dash and int(last) < int(first):
            raise UsageError(f"--offsets {part}: the range ends before it begins")
        found.append((int(first), int(last if dash else first)))
    return normal(found)


def within(
    rows: Sequence[dict[str, Any]], offsets: tuple[tuple[int, int], ...] | None
) -> list[dict[str, Any]]:
    """The lines, cut to these offsets."""
    if offsets is None:
        return list(rows)
    return [
        {**row, "first": first, "last": last, "records": last - first + 1}
        for row in rows
        for first, last in common(((row["first"], row["last"]),), offsets)
    ]


async def do(
    admin: Admin, group: str, deed: Deed, rows: Sequence[dict[str, Any]], *, as_json: bool
) -> ExitCode:
    """Decide about the records of these lines, and say how many they were."""
    acts: dict[AckType, Callable[..., Awaitable[DecidedRecords]]] = {
        AckType.ACCEPT: admin.accept_records,
        AckType.RELEASE: admin.release_records,
        AckType.REJECT: partial(admin.archive_records, reason=deed.reason),
        AckType.RENEW: partial(admin.extend_records, extend_ms=deed.extend_ms or 0),
    }
    act = acts[deed.kind]
    records = held = 0
    ranges: dict[TopicPartition, list[tuple[int, int]]] = {}
    for row in rows:
        at = TopicPartition(row["topic"], row["partition"])
        ranges.setdefault(at, []).append((row["first"], row["last"]))
    for at, own in ranges.items():
        for first, last in normal(own):
            decided = await act(group, at, first, last)
            records, held = records + decided.records, held + decided.held
    if as_json:
        print_json({"group": group, deed.word: records, "held": held})
    else:
        were_held = f", {held:,} of them held by members" if held else ""
        print_line(f"{count(records, 'record')} {deed.word}{were_held}")
    if not records:
        complain("none of them was left to decide about")
    return ExitCode.DONE if records else ExitCode.REFUSED
