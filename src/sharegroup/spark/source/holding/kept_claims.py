"""Which claims a folder must hold.

The name of an empty file says which claims these are: ``kept-<first>-<last>``. The file is renamed
with every claim that is written, before the folder is synced, and before claims are deleted. So it
costs no sync of its own, and it shows when somebody has deleted a claim, even the first,
the newest, or all of them.

Spark's newest offset says it too (:class:`~sharegroup.spark.source.offsets.ClaimPosition`). This
finds an old copy of the folder, whose own files agree with one another. A folder that was begun by
an earlier version has no such file until it is opened; then only the offset, and gaps between the
numbers, show that claims are missing.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Final, NamedTuple

from sharegroup.spark.source.offsets import ClaimPosition

_FILES: Final = f"kept-{'[0-9]' * 12}-{'[0-9]' * 12}"


class KeptClaims(NamedTuple):
    """The claims ``first`` … ``last``; no claims if ``last`` is ``first - 1``."""

    first: int
    last: int

    @property
    def name(self) -> str:
        """The name of the file that says which claims are kept."""
        return f"kept-{self.first:012d}-{self.last:012d}"


def read(folder: Path) -> KeptClaims | None:
    """The claims that the folder's file names; None: there is no such file yet."""
    said = (KeptClaims(*map(int, path.name.split("-")[1:])) for path in folder.glob(_FILES))
    return max(said, key=lambda one: one.last, default=None)


def written(folder: Path, number: int) -> None:
    """The claim ``number`` is in the folder; the caller syncs the folder afterwards."""
    _say(folder, lambda said: said._replace(last=number))


def deleted_before(folder: Path, number: int) -> None:
    """The claims before ``number`` are about to be deleted."""
    _say(folder, lambda said: said._replace(first=number))


def missing(
    position: ClaimPosition | None, found: AbstractSet[int], said: KeptClaims
) -> AbstractSet[int]:
    """The claims that are not there, and whose records may be in no batch.

    Args:
        position: the position in Spark's newest offset; None: there is no offset.
        found: the claims in the folder, damaged ones among them.
        said: the claims that the folder's file names.
    """
    newest = max((*found, said.last))
    if position is None:  # no batch is known: whatever should be here is delivered
        return set(range(said.first, newest + 1)) - found
    needed = set(range(position.number, max(newest, position.newest) + 1))
    if position.taken:
        needed.add(position.number)
    # Batches have the records of these claims. But a folder that does not know them is an old copy:
    # it may lack newer claims as well.
    since = range(newest + 1, position.number)
    return (needed - found) | set(since)


def _say(folder: Path, change: Callable[[KeptClaims], KeptClaims]) -> None:
    said = read(folder)
    assert said is not None, "the folder is not open"
    (folder / said.name).rename(folder / change(said).name)
