"""Membership of the share group: the member, and the parts that work with it."""

from __future__ import annotations

import asyncio
import logging
from typing import Final, NamedTuple

from sharegroup.client.core.acknowledgements import AckType
from sharegroup.client.errors import BootstrapError
from sharegroup.client.network.cluster import Cluster
from sharegroup.client.share.share_member import ShareMember
from sharegroup.model.errors import NetworkException, RetriableError
from sharegroup.spark.options.stream import ShareOptions
from sharegroup.spark.source.group_view import GroupQuestions, Offsets
from sharegroup.spark.source.holding.acknowledging import Acknowledging
from sharegroup.spark.source.holding.acquiring import Acquirer
from sharegroup.spark.source.holding.available_now import AvailableNow
from sharegroup.spark.source.holding.claim_ledger import ClaimLedger
from sharegroup.spark.source.holding.claiming import Claimer
from sharegroup.spark.source.holding.lock_renewal import LockRenewal
from sharegroup.spark.source.holding.outage import Outage
from sharegroup.spark.source.holding.prefetch import Prefetcher
from sharegroup.spark.source.settling.delayed_releases import HoldKeeper
from sharegroup.spark.source.settling.newest_batch import Settlement
from sharegroup.spark.source.subscription import StreamTopics

log = logging.getLogger("sharegroup.spark")

RETRY_SECONDS: Final = 0.5
REACH_SECONDS: Final = 8.0
"""How long, in seconds, connecting to a broker's advertised address may take."""
CLOSE_MS: Final = 1_500
"""How long leaving may take: Spark does not wait for a source that stops."""


class DriverMembership(NamedTuple):
    """The parts that live as long as the membership."""

    member: ShareMember
    outage: Outage
    run: AvailableNow
    claimer: Claimer | None
    locks: LockRenewal
    acquirer: Acquirer
    prefetcher: Prefetcher
    holds: HoldKeeper


def make_membership(
    cluster: Cluster,
    group: GroupQuestions,
    subscription: StreamTopics,
    settlement: Settlement,
    options: ShareOptions,
    member_id: str | None,
    targets: Offsets | None,
) -> DriverMembership:
    """Assemble the parts; :func:`join` joins the group."""
    ledger, turn, claims = settlement.ledger, settlement.turn, settlement.claims
    member = ShareMember(
        cluster,
        options.group_id,
        member_id=member_id,
        subscribed_topics=subscription.names,
        on_acknowledged=lambda outcome: acknowledging.note(outcome),
    )
    outage = Outage(member, options)
    run = AvailableNow(targets, member, ledger, group, subscription)
    acknowledging = Acknowledging(member, ledger, lambda: group.has_pauses)
    claimer = None
    if claims is not None and isinstance(ledger, ClaimLedger):
        claimer = Claimer(claims, ledger, acknowledging, subscription)
    locks = LockRenewal(member, ledger, turn, wanted=options.lock_renew)
    acquirer = Acquirer(
        member, ledger, acknowledging, claimer, locks, run, subscription, outage, turn, options
    )
    prefetcher = Prefetcher(acquirer, ledger, turn)
    holds = HoldKeeper(ledger, acquirer, acknowledging, turn)
    settlement.begin(acquirer, acknowledging, claimer, holds)
    return DriverMembership(member, outage, run, claimer, locks, acquirer, prefetcher, holds)


async def join(
    membership: DriverMembership, group: GroupQuestions, subscription: StreamTopics, is_new: bool
) -> None:
    """Join the group. Wait for a coordinator that is loading or away.

    Raises:
        NetworkException: the coordinator was away for longer than ``brokerOutageTimeout``.
        KafkaError: the group refuses.
    """
    while True:
        try:
            await group.prepare(subscription.names, is_new_query=is_new)
            await membership.member.start()
            return
        except RetriableError as error:
            log.warning("the group cannot be joined yet: %s", error)
            membership.outage.check()
            await asyncio.sleep(RETRY_SECONDS)


async def leave(membership: DriverMembership, settlement: Settlement) -> None:
    """Release the records that Spark was never given, and leave the group.

    Nothing is said about the records of a batch under way: the batch will run again, and must not
    count as given back. The broker frees its locks when the connection ends.
    """
    member, ledger = membership.member, settlement.ledger
    await settlement.end()
    membership.prefetcher.stop()
    membership.locks.stop()
    membership.holds.stop()
    in_progress = membership.claimer is None and ledger.statistics().in_batch > 0
    if membership.claimer is not None:
        await membership.claimer.finish()
    for partition, ranges in ledger.spare().items():
        # Spark never had most of them: the group's own pauses after a failure are not meant.
        member.pauses.note_ranges(partition, [(*one, 0) for one in ranges])
        for first, last in ranges:
            member.acknowledge(partition, first, last, bytes([AckType.RELEASE]))
    if in_progress:  # the close below sends nothing then
        await member.commit()
    await member.close(release=not in_progress, timeout_ms=CLOSE_MS)


async def reach(cluster: Cluster) -> None:
    """Connect to the cluster at its advertised addresses.

    Raises:
        BootstrapError: no broker answers; the text names the addresses.
    """
    await cluster.start()
    nodes = cluster.metadata.nodes
    attempts = {asyncio.create_task(cluster.connection(node_id)) for node_id in nodes}
    try:
        async with asyncio.timeout(REACH_SECONDS):
            for attempt in asyncio.as_completed(attempts):
                try:
                    await attempt
                    return
                except NetworkException as error:
                    log.info("%s", error)
    except TimeoutError:
        log.info("no broker was reached in %.0f s", REACH_SECONDS)
    finally:
        for task in attempts:
            task.cancel()
    bootstrap = ", ".join(map(str, cluster.bootstrap))
    told = ", ".join(str(node.address) for node in nodes.values())
    raise BootstrapError(
        f"the broker at {bootstrap} answers, but sends its clients to {told}, where nobody can be "
        "reached from here: correct its advertised.listeners, or make that address reachable"
    )
