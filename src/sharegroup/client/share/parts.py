"""The parts of a share consumer, plugged together.

No part holds a reference to the consumer: the tasks of the parts run until they are cut, and a
consumer that its application has dropped must be noticed all the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

from sharegroup.client.core.held_deliveries import Holdings
from sharegroup.client.core.setting_checks import check_topics
from sharegroup.client.network.cluster import Cluster
from sharegroup.client.network.metadata import PartitionNames
from sharegroup.client.records.decode import Decoding, decode_all, decoding_of
from sharegroup.client.share.commit_callback import CommitCallback
from sharegroup.client.share.committer import AcknowledgementCommitter
from sharegroup.client.share.fetcher import ShareFetcher, ShareFetchSettings
from sharegroup.client.share.lock_keeper import LockKeeper
from sharegroup.client.share.loop_exits import LoopExits
from sharegroup.client.share.receiver import Receiver
from sharegroup.client.share.settings import CheckedShareConsumerSettings
from sharegroup.client.share.share_member import ShareMember
from sharegroup.client.wakeup import WakeupCall


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareParts:
    """The parts of one share consumer, one of each kind."""

    settings: CheckedShareConsumerSettings
    cluster: Cluster
    owns_cluster: bool
    """The cluster was made for this consumer, and ends with it."""
    decoding: Decoding
    names: PartitionNames
    callback: CommitCallback
    member: ShareMember
    fetcher: ShareFetcher
    holdings: Holdings
    committer: AcknowledgementCommitter
    receiver: Receiver
    lock_keeper: LockKeeper
    leaving: LoopExits
    wakeup: WakeupCall


def share_parts(
    topics: Iterable[str], settings: CheckedShareConsumerSettings, cluster: Cluster | None = None
) -> ShareParts:
    """Make the parts of a share consumer. Nothing connects yet.

    Args:
        topics: the subscription.
        cluster: connections to share with other clients; None: its own.

    Raises:
        ConfigError: a topic's name or a setting is invalid.
    """
    topics = tuple(topics)
    check_topics(topics)
    owns_cluster = cluster is None
    if cluster is None:
        cluster = Cluster(
            settings.bootstrap_servers,
            client_id=settings.client_id,
            request_timeout_ms=settings.request_timeout_ms,
            security=settings.security,
            jitter=settings.jitter,
        )
    decoding = decoding_of(
        settings.check_crcs, settings.key_deserializer, settings.value_deserializer
    )
    names = PartitionNames(cluster.metadata)
    callback = CommitCallback(settings.acknowledgement_commit_callback, names.of)
    member = ShareMember(
        cluster,
        settings.group_id,
        rack_id=settings.client_rack or None,
        subscribed_topics=topics,
        poll_interval_max_ms=settings.max_poll_interval_ms,
        on_acknowledged=callback.note,
        shares_connections=not owns_cluster,
    )
    fetcher = ShareFetcher(
        member,
        ShareFetchSettings(
            max_records=settings.max_poll_records,
            max_bytes=settings.fetch_max_bytes,
            min_bytes=settings.fetch_min_bytes,
            max_wait_ms=settings.fetch_max_wait_ms,
            strict=settings.strict,
            decode=partial(decode_all, decoding=decoding),
        ),
    )
    holdings = Holdings(settings.mode)
    committer = AcknowledgementCommitter(holdings, member, callback)
    receiver = Receiver(member, fetcher, holdings, committer, callback, names)
    return ShareParts(
        settings=settings,
        cluster=cluster,
        owns_cluster=owns_cluster,
        decoding=decoding,
        names=names,
        callback=callback,
        member=member,
        fetcher=fetcher,
        holdings=holdings,
        committer=committer,
        receiver=receiver,
        lock_keeper=LockKeeper(holdings, member, receiver),
        leaving=LoopExits(holdings, committer, receiver),
        wakeup=WakeupCall(),
    )
