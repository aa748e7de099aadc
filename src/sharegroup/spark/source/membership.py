"""Membership of the share group: the member, and the parts that work with it."""

from __future__ import annotations

import asyncio
import logging
from typing import Final, NamedTuple

from sharegroup.client.cluster import Cluster
from sharegroup.client.errors import BootstrapError
from sharegroup.client.share_member import ShareMember
from sharegroup.model.errors import NetworkException, RetriableError
from sharegroup.spark.ack_files import Inbox
from sharegroup.spark.options.stream import ShareOptions
from sharegroup.spark.source.acquiring import Acquirer
from sharegroup.spark.source.claim_ledger import ClaimLedger
from sharegroup.spark.source.claiming import Claimer
from sharegroup.spark.source.claims import ClaimFolder
from sharegroup.spark.source.delayed_releases import HoldKeeper
from sharegroup.spark.source.group_view import GroupView
from sharegroup.spark.source.ledger import Ledger
from sharegroup.spark.source.lock_renewal import LockKeeper
from sharegroup.spark.source.outage import Outage
from sharegroup.spark.source.prefetch import Prefetcher
from sharegroup.spark.source.settling import Settling
from sharegroup.spark.source.subscription import Subscription

log = logging.getLogger("sharegroup.spark")

RETRY_SECONDS: Final = 0.5
REACH_SECONDS: Final = 8.0
"""How long connecting to a broker's advertised address may take."""


class Membership(NamedTuple):
    """The parts that live as long as the membership."""

    member: ShareMember
    outage: Outage
    settling: Settling
    claimer: Claimer | None
    locks: LockKeeper
    acquirer: Acquirer
    prefetcher: Prefetcher
    holds: HoldKeeper


def make_membership(
    cluster: Cluster,
    subscription: Subscription,
    ledger: Ledger,
    turn: asyncio.Lock,
    options: ShareOptions,
    member_id: str | None,
    inbox: Inbox | None,
    claims: ClaimFolder | None,
) -> Membership:
    """Assemble the parts; :func:`join` joins the group."""
    member = ShareMember(
        cluster, options.group_id, member_id=member_id, subscribed_topics=subscription.names
    )
    outage = Outage(member, options)
    settling = Settling(member, ledger, inbox)
    claimer = None
    if claims is not None and isinstance(ledger, ClaimLedger):
        claimer = Claimer(claims, ledger, settling, subscription)
    locks = LockKeeper(member, ledger, turn, wanted=options.lock_renew)
    acquirer = Acquirer(
        member, ledger, settling, claimer, locks, subscription, outage, turn, options
    )
    prefetcher = Prefetcher(acquirer, ledger, turn)
    holds = HoldKeeper(ledger, settling, turn)
    return Membership(member, outage, settling, claimer, locks, acquirer, prefetcher, holds)


async def join(
    membership: Membership, group: GroupView, subscription: Subscription, is_new: bool
) -> None:
    """Join the group. Wait for a coordinator that is loading or away.

    Raises:
        NetworkException: it was away for longer than ``brokerOutageTimeout``.
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


async def reach(cluster: Cluster) -> None:
    """Connect to the cluster at its advertised addresses.

    Raises:
        BootstrapError: no broker answers; it names the addresses.
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
