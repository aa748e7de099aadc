"""How many connections and partitions the process has file descriptors for.

A partition needs one while its newest records are on their way to the disk; files that could do
without keep a bounded number (``storage.descriptors``). What is left is for connections, which are
refused before files have to do without.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sharegroup.model.errors import ConfigError, PolicyViolation
from sharegroup.model.limits import CONNECTIONS_RESERVED, DESCRIPTORS_RESERVED
from sharegroup.storage.descriptors import cached_files

_WHAT_TO_DO: Final = (
    "raise the limit to {wanted} or more (`ulimit -n {wanted}`, or LimitNOFILE={wanted} in the "
    "unit of systemd)"
)


class DescriptorBudget:
    """Args:
    limit: how many descriptors the process may have at this moment.
    """

    def __init__(self, limit: Callable[[], int]) -> None:
        self._limit = limit
        self.partitions: Callable[[], int] = lambda: 0
        """How many there are, those included that are being made."""

    def connections(self) -> int:
        """How many connections there may be; at least a few, whatever the limit has become."""
        limit = self._limit()
        return max(CONNECTIONS_RESERVED, limit - _others(limit) - self.partitions())

    def check_start(self, partitions: int) -> None:
        """Whether a data folder with so many partitions can be opened.

        Raises:
            ConfigError: there are too few descriptors for them.
        """
        limit, wanted = self._limit(), self._wanted(partitions)
        if wanted > limit:
            raise ConfigError(
                f"too few file descriptors: {wanted} are needed for {partitions} partitions, "
                f"connections and the rest, and this process may have {limit}: "
                + _WHAT_TO_DO.format(wanted=wanted)
            )

    def check_more(self, partitions: int) -> None:
        """Whether so many more partitions can be made.

        Raises:
            PolicyViolation: there are too few descriptors for them.
        """
        limit, wanted = self._limit(), self._wanted(self.partitions() + partitions)
        if wanted > limit:
            raise PolicyViolation(
                f"{partitions} more partitions would need {wanted} file descriptors, and the "
                f"broker may have {limit}: " + _WHAT_TO_DO.format(wanted=wanted)
            )

    def _wanted(self, partitions: int) -> int:
        return partitions + _others(self._limit()) + CONNECTIONS_RESERVED


def _others(limit: int) -> int:
    """What is neither a connection nor a partition's own."""
    return DESCRIPTORS_RESERVED + cached_files(limit)
