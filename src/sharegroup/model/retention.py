"""What share groups still need of a log, for retention."""

from __future__ import annotations

from typing import NamedTuple


class Needed(NamedTuple):
    """What the share groups need of one log that its topic names in ``share.retention.groups``.

    ``finished`` is never larger than ``held_from``. It is smaller for a group that has not begun:
    such a group has finished nothing, and may need nothing either.
    """

    held_from: int
    """The first offset that one of the groups needs."""
    finished: int
    """All of the groups have finished the records below this offset."""


EVERYTHING = Needed(0, 0)
"""Nobody knows what the groups need, so they need everything."""
