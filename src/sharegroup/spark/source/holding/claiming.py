"""``ackMode`` claim: write acquired records to a file, then accept them, then acquire more.

The order keeps the promise: the file is durable before the broker gets the accept. A crash in
between leaves a claim, and a claim is always delivered.
"""

from __future__ import annotations

import asyncio
from typing import Final

from sharegroup.model.errors import ConfigError
from sharegroup.model.ids import TopicIdPartition
from sharegroup.spark.options.stream import ShareOptions
from sharegroup.spark.source.holding.acknowledging import Acknowledging
from sharegroup.spark.source.holding.claim_ledger import ClaimLedger
from sharegroup.spark.source.holding.claims import ClaimFolder
from sharegroup.spark.source.holding.ledger import Ledger
from sharegroup.spark.source.offsets import BatchOffset, ClaimPosition, Ranges
from sharegroup.spark.source.subscription import StreamTopics

LOCK_SECONDS: Final = 10.0
"""How long the source of a killed query may keep its lock: until its present call ends."""
LOCK_PAUSE_SECONDS: Final = 0.1


class Claimer:
    """See the module. Not thread-safe; the caller takes turns with other uses of the member.

    Args:
        folder: opened by :func:`open_claims`.
    """

    def __init__(
        self,
        folder: ClaimFolder,
        ledger: ClaimLedger,
        acknowledging: Acknowledging,
        subscription: StreamTopics,
    ) -> None:
        self._folder = folder
        self._ledger = ledger
        self._acknowledging = acknowledging
        self._subscription = subscription
        self._under_way: asyncio.Task[None] | None = None

    async def claim(self, targets: dict[TopicIdPartition, int] | None) -> None:
        """Claim the acquired records. If the caller is cancelled, the claim goes on: see
        :meth:`finish`.

        Args:
            targets: end offset per partition; records at or after it are left. None: no end.

        Raises:
            ClaimError: the claim could not be written; none of its records is accepted.
        """
        ranges = self._ledger.unclaimed(targets)
        if ranges:
            self._under_way = asyncio.create_task(self._claim(ranges), name="share-claim")
            await asyncio.shield(self._under_way)

    async def finish(self) -> None:
        """Wait for a claim under way: its records must not be released."""
        if self._under_way is not None:
            await asyncio.wait([self._under_way])

    async def settled(self, batch: BatchOffset) -> None:
        """Spark has committed this batch: delete the claims of the batches before it.

        Raises:
            ClaimError: old claims could not be deleted.
        """
        if batch.claims is not None:
            await asyncio.to_thread(self._folder.settled, batch.claims)

    async def _claim(self, ranges: Ranges) -> None:
        names = self._subscription.topics
        topics = {key.topic_id: names[key.topic_id] for key in ranges}
        claim = await asyncio.to_thread(self._folder.write, topics, ranges)
        await self._acknowledging.acknowledge(self._ledger.claimed(claim))


def make_claims(options: ShareOptions) -> ClaimFolder | None:
    """The claim folder for a stream's options."""
    if options.claim_location is None:
        return None
    return ClaimFolder(options.claim_location, options.group_id)


def make_ledger(options: ShareOptions) -> Ledger:
    """The ledger for a stream's options."""
    return Ledger() if options.claim_location is None else ClaimLedger()


async def open_claims(folder: ClaimFolder | None, ledger: Ledger, known: BatchOffset) -> None:
    """Lock the folder, and load the claims that Spark does not have into the ledger.

    Args:
        folder: None: the query does not claim.
        known: the newest offset of the checkpoint.

    Raises:
        ConfigError: folder and checkpoint do not match, or another source uses the folder.
        ClaimError: the disk fails.
    """
    if folder is None or not isinstance(ledger, ClaimLedger):
        if known.claims is not None:
            raise ConfigError(
                "the checkpoint was written with ackMode claim: give its claimLocation, where "
                "records wait that the broker does not have any more. To change the mode, let it "
                "end once with availableNow, then go on with a new checkpointLocation"
            )
        return
    until = asyncio.get_running_loop().time() + LOCK_SECONDS
    while not await asyncio.to_thread(folder.try_lock):
        if asyncio.get_running_loop().time() > until:
            raise ConfigError(
                f"claimLocation {folder} is in use by another query (process {folder.holder()}): "
                "give each query a folder of its own"
            )
        await asyncio.sleep(LOCK_PAUSE_SECONDS)
    claims = await asyncio.to_thread(folder.open, known.claims)
    first = claims[0].number if claims else folder.next
    ledger.load(claims, known.claims or ClaimPosition(folder.id, first, 0))
