"""The pauses that a consumer asks for when it releases records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sharegroup.model.errors import InvalidRequest
from sharegroup.model.limits import PAUSE_MS_MAX

if TYPE_CHECKING:  # messages are loaded with the handlers that have them
    from sharegroup.wire.messages.acknowledgement_notes import Pause


def checked_pauses(pauses: Sequence[Pause]) -> list[tuple[int, int, int]]:
    """First and last offset, and milliseconds, of each pause.

    Raises:
        InvalidRequest: a range is none, or a pause is not between 0 and PAUSE_MS_MAX.
    """
    for one in pauses:
        if not 0 <= one.first <= one.last or not 0 <= one.pause_ms <= PAUSE_MS_MAX:
            raise InvalidRequest(
                f"A pause of {one.pause_ms} ms for the offsets {one.first} to {one.last}; 0 to "
                f"{PAUSE_MS_MAX} ms is possible."
            )
    return [(one.first, one.last, one.pause_ms) for one in pauses]
