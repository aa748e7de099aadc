"""How many connections and partitions the process has file descriptors for.

A partition needs one descriptor while its newest records are written to the disk. All other files
share a bounded number of descriptors (``storage.descriptors``). Connections get the rest: they are
refused before files run short.
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
    limit: returns the process's current limit on open descriptors.
    """

    def __init__(self, limit: Callable[[], int]) -> None:
        self._limit = limit
        self.partitions: Callable[[], int] = lambda: 0
        """The number of partitions, including those being created."""

    def connections(self) -> int:
        """The most connections allowed now; at least a few, however low the limit is."""
        limit = self._limit()
        return max(CONNECTIONS_RESERVED, limit - _others(limit) - self.partitions())

    def check_start(self, partitions: int) -> None:
        """Check that a data folder with ``partitions`` partitions can be opened.

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
        """Check that ``partitions`` more partitions can be created.

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
    """Descriptors that belong neither to a connection nor to a single partition."""
    return DESCRIPTORS_RESERVED + cached_files(limit)
