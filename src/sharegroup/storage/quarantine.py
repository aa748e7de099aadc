"""The damaged ranges of one segment: finds, logs and saves them, and looks them up by offset."""

from __future__ import annotations

import logging
from bisect import bisect_right
from typing import Final

from sharegroup.model.environment import Disk
from sharegroup.storage import damage as damaged
from sharegroup.storage.batch_reader import BatchReader
from sharegroup.storage.damage import BrokenBatch, Damage

logger = logging.getLogger(__name__)

DAMAGED: Final = ".log.damaged"


class Quarantine:
    """The damages of one segment, ascending. ``path``: the segment's files without their suffix."""

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._path = path
        self.damages: list[Damage] = []

    def at(self, offset: int) -> Damage | None:
        """The damage that contains ``offset``, or None."""
        found = bisect_right(self.damages, offset, key=lambda damage: damage.first_offset) - 1
        if found >= 0 and offset <= self.damages[found].last_offset:
            return self.damages[found]
        return None

    def search(
        self, reader: BatchReader, start: int, expected: int, broken: BrokenBatch, end_offset: int
    ) -> list[Damage]:
        """Check every batch from the boundary ``start``, where ``expected`` is the next offset, up
        to the batch that a walk or a read found ``broken``. Returns the new damages, ascending.

        ``end_offset``: all offsets of the segment are below it.
        """
        known = {damage.position: damage for damage in self.damages}
        found: list[Damage] = []
        position = start
        while position <= broken.position and position < reader.size:
            damage = known.pop(position, None)
            if damage is None:
                try:
                    header = reader.batch(position, expected)
                except BrokenBatch:
                    damage = self._damage(reader, position, expected, end_offset)
                    found.append(damage)
                else:
                    position, expected = position + header.length, header.last_offset + 1
                    continue
            position, expected = damage.end_position, damage.last_offset + 1
        if found:
            self.add(found)
        return found

    def add(self, found: list[Damage]) -> None:
        """Log new damages and save them."""
        for damage in found:
            logger.error("%s.log %s", self._path, damage)
        self.damages = damaged.merged(self.damages, found)
        try:
            self.save()
        except OSError as error:  # the next process finds and logs the damage again
            logger.warning("%s cannot be written: %s", self._path + DAMAGED, error)

    def load(self) -> None:
        """Read the damages found earlier.

        Raises:
            ValueError: the side file itself is damaged.
        """
        path = self._path + DAMAGED
        if self._disk.exists(path):
            self.damages = damaged.from_json(self._disk.read_file(path))

    def save(self) -> None:
        """Save the damages durably; without damages, remove the file. Raises OSError."""
        if self.damages:
            self._disk.write_file(self._path + DAMAGED, damaged.to_json(self.damages))
        else:
            self._disk.remove(self._path + DAMAGED)

    @staticmethod
    def _damage(reader: BatchReader, position: int, expected: int, end_offset: int) -> Damage:
        valid = reader.next_valid(position, expected, end_offset)
        end, next_offset = valid or (reader.size, end_offset)
        return Damage(position, end, expected, next_offset - 1)
