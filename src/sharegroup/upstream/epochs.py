"""The last epoch that a map of the nodes has given out, which the cluster keeps: who remembers less
than that does not know the last map.

Clients and the durable state do not follow an epoch that goes back. The nodes remember the last
map, but those that do may all be gone.
"""

from __future__ import annotations

from typing import Final

from sharegroup.upstream.settings import ClusterSettings

FLEET: Final = "fleet"
LAST_EPOCH: Final = "last.epoch"
"""Kind and name of the setting."""


class Epochs:
    """See the module."""

    def __init__(self, settings: ClusterSettings) -> None:
        self._settings = settings

    async def last(self) -> int:
        """The last epoch; -1: there was none.

        Raises:
            KafkaError: the cluster cannot be asked.
        """
        await self._settings.read_to_end()
        return int(self._settings.of(FLEET).get(LAST_EPOCH, -1))

    async def keep(self, epoch: int) -> None:
        """Let this be the last epoch, durably, before anybody is told of it.

        Raises:
            KafkaStorageError: it cannot be written.
        """
        self._settings.put(FLEET, "", {LAST_EPOCH: str(epoch)})
        await self._settings.settled()
