"""Which claims a folder must hold.

The folder says it by the name of an empty file, ``kept-<first>-<last>``, renamed with every claim
that is written, before the folder is synced, and before claims are deleted. So it costs no sync of
its own, and a claim that somebody deleted is missed, also the first, the newest, and all of them.

Spark's newest offset says it too (:class:`~sharegroup.spark.source.offsets.ClaimPosition`): that
finds an old copy of the folder, which agrees with itself. A folder that was begun by an earlier
version has no such file until it is opened; then only the offset and the gaps tell.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Final, NamedTuple

from sharegroup.spark.source.offsets import ClaimPosition

_FILES: Final = f"kept-{'[0-9]' * 12}-{'[0-9]' * 12}"


class Kept(NamedTuple):
    """The claims ``first`` … ``last``; none where ``last`` is ``first - 1``."""

    first: int
    last: int

    @property
    def name(self) -> str:
        """The name of the file that says so."""
        return f"kept-{self.first:012d}-{self.last:012d}"


def read(folder: Path) -> Kept | None:
    """What the folder says; None: nothing yet."""
    said = (Kept(*map(int, path.name.split("-")[1:])) for path in folder.glob(_FILES))
    return max(said, key=lambda one: one.last, default=None)


def written(folder: Path, number: int) -> None:
    """The claim ``number`` is in the folder, which the caller syncs."""
    _say(folder, lambda said: said._replace(last=number))


def deleted_before(folder: Path, number: int) -> None:
    """The claims before ``number`` are about to be deleted."""
    _say(folder, lambda said: said._replace(first=number))


def missing(
    position: ClaimPosition | None, found: AbstractSet[int], said: Kept
) -> AbstractSet[int]:
    """The claims that are not there, and whose records may be in no batch.

    Args:
        position: the one in Spark's newest offset; None: there is no offset.
        found: the claims in the folder, damaged ones among them.
        said: what the folder says.
    """
    newest = max((*found, said.last))
    if position is None:  # no batch is known: whatever should be here is delivered
        return set(range(said.first, newest + 1)) - found
    needed = set(range(position.number, max(newest, position.newest) + 1))
    if position.taken:
        needed.add(position.number)
    # Its claims are in batches, but newer ones were made than this copy of the folder knows.
    since = range(newest + 1, position.number)
    return (needed - found) | set(since)


def _say(folder: Path, change: Callable[[Kept], Kept]) -> None:
    said = read(folder)
    assert said is not None, "the folder is not open"
    (folder / said.name).rename(folder / change(said).name)
