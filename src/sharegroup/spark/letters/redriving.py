"""Redrives the dead letters that the rows of an Arrow table name."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

from sharegroup.client.core.dead_letter import LettersHandled
from sharegroup.client.core.letter_places import LetterPlace, LetterPlaces
from sharegroup.client.dead_letters.handling import Handling, handle
from sharegroup.client.dead_letters.queue import ISOLATION, dead_letter_queue
from sharegroup.model.errors import ConfigError
from sharegroup.spark.options.letters import LetterOptions

log = logging.getLogger("sharegroup.spark")

_PLACE: Final = ("letter_partition", "letter_offset", "offset")


async def redrive_rows(
    options: LetterOptions, table: Any, *, to: str | None = None, rate: float | None = None
) -> LettersHandled:
    """As :func:`sharegroup.spark.redrive`, for a ``pyarrow.Table`` with its columns.

    Raises:
        ConfigError: a row is a letter of another group or topic, or names no letter.
    """
    cluster = options.cluster()
    async with cluster, dead_letter_queue(cluster, options.group_id, options.topic) as queue:
        places = _places(table, {"group_id": options.group_id, "letter_topic": queue.topic})
        if not places:
            return LettersHandled()
        if await queue.reads_uncommitted():
            log.warning(
                "group %s reads records of transactions that are broken off: if this redrive is "
                "killed, some records come twice; %s=read_committed prevents that",
                options.group_id,
                ISOLATION,
            )
        wanted = Handling(redrive=True, to=to, where=places, rate=rate, letters_max=len(places))
        return await handle(queue, wanted)


def _places(table: Any, expected: Mapping[str, str]) -> LetterPlaces:
    """The places that the rows name.

    Args:
        expected: column → the one value that it may have.

    Raises:
        ConfigError: a row is of another group or topic, or names no place.
    """
    for name, value in expected.items():
        others = [one for one in table[name].unique().to_pylist() if one != value]
        if others:
            raise ConfigError(
                f"there are rows with {name} {others[0]!r}, and only those with {value!r} can be "
                "redriven with these options: filter them, and call once for each"
            )
    columns = [table[name] for name in _PLACE]
    if any(column.null_count for column in columns):
        raise ConfigError(f"{', '.join(_PLACE)} is null in a row: pass the columns on as read")
    values = (column.to_pylist() for column in columns)
    return LetterPlaces(map(LetterPlace._make, zip(*values, strict=True)))
