"""The last epoch that a map of the nodes has given out, which the cluster keeps: who remembers less
than that does not know the last map.

Clients and the durable state do not follow an epoch that goes back. The nodes remember the last
map, but those that do may all be gone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sharegroup.upstream.settings import ClusterSettings

FLEET: Final = "fleet"
LAST_EPOCH: Final = "last.epoch"
"""Kind and name of the setting."""
EARLIER_SINCE_S: Final = 1_700_000_000
"""Brokers of 2026-11 kept no epoch. Theirs were not above the seconds since then."""


class Epochs:
    """See the module.

    Args:
        wall_ms: milliseconds since 1970.
    """

    def __init__(self, settings: ClusterSettings, wall_ms: Callable[[], int]) -> None:
        self._settings = settings
        self._wall_ms = wall_ms

    async def last(self) -> int:
        """The last epoch, or one that no earlier broker has given out.

        Raises:
            KafkaError: the cluster cannot be asked.
        """
        await self._settings.read_to_end()
        kept = self._settings.of(FLEET).get(LAST_EPOCH)
        return self._wall_ms() // 1000 - EARLIER_SINCE_S if kept is None else int(kept)

    async def keep(self, epoch: int) -> None:
        """Let this be the last epoch, durably, before anybody is told of it.

        Raises:
            KafkaStorageError: it cannot be written.
        """
        self._settings.put(FLEET, "", {LAST_EPOCH: str(epoch)})
        await self._settings.settled()
