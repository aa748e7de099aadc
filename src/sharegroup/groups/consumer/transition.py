"""The steps of a heartbeat or a leave. Each emits records and applies them at once.

Nothing is checked here: requests are checked completely before the first step (``groups.py``,
``classic_members.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from typing import TypeAlias

from sharegroup.cooperative.hash_split import WHOLE
from sharegroup.groups.change import GroupChange
from sharegroup.groups.classic.embedded import EmbeddedSubscription
from sharegroup.groups.classic.requests import Join
from sharegroup.groups.consumer.assignors import assign
from sharegroup.groups.consumer.group import (
    AWAY_EPOCH,
    ConsumerGroup,
    current_assignment,
    member_metadata,
)
from sharegroup.groups.consumer.heartbeat import UNCHANGED, ConsumerHeartbeat
from sharegroup.groups.consumer.member import ConsumerMember
from sharegroup.groups.consumer.migration import classic_metadata
from sharegroup.groups.consumer.patterns import Matches
from sharegroup.groups.consumer.reconciliation import Goal, Owned, reconcile
from sharegroup.groups.consumer.records import (
    ConsumerRecord,
    ConsumerTargetAssignmentMember,
    Parts,
    ResolvedRegex,
)
from sharegroup.groups.modern_group import JOIN_EPOCH
from sharegroup.groups.topics import TopicsImage
from sharegroup.model.errors import InvalidRegularExpression

Sees: TypeAlias = Callable[[str], bool]
"""Whether the sender of a heartbeat may know of a topic. Without such a function it may know of all
topics."""


class ConsumerTransition(GroupChange[ConsumerGroup, ConsumerRecord]):
    """The steps that the module describes."""

    def come_back(self, away: ConsumerMember, member_id: str) -> None:
        """A static member comes back under a new member id. It keeps its partitions."""
        group_id = self.group.group_id
        target = self.group.targets.get(away.member_id, {})
        parts = self.group.target_parts.get(away.member_id, {})
        self.bury(away.member_id)
        back = replace(away, member_id=member_id, epoch=0, previous_epoch=0)
        self.emit(member_metadata(group_id, back))
        self.emit(
            ConsumerTargetAssignmentMember(
                group_id=group_id, member_id=member_id, assignment=target, parts=parts
            )
        )
        self.emit(current_assignment(group_id, back))

    def describe(self, request: ConsumerHeartbeat) -> bool:
        """Add or update a member; returns whether the group's subscriptions changed."""
        known = self.group.members.get(request.member_id)
        before = known or ConsumerMember(member_id=request.member_id)
        regex = request.subscribed_regex
        names = request.subscribed_topics
        timeout_ms = request.rebalance_timeout_ms
        joins = request.member_epoch == JOIN_EPOCH
        after = replace(
            before,
            instance_id=request.instance_id or before.instance_id,
            rack_id=request.rack_id or before.rack_id,
            client_id=request.client_id,
            client_host=request.client_host,
            subscribed_topics=before.subscribed_topics
            if names is None
            else tuple(sorted(set(names))),
            subscribed_regex=before.subscribed_regex if regex is None else regex or None,
            rebalance_timeout_ms=before.rebalance_timeout_ms
            if timeout_ms == UNCHANGED
            else timeout_ms,
            server_assignor=request.server_assignor or before.server_assignor,
            classic=None,
            takes_ranges=request.takes_ranges or (before.takes_ranges and not joins),
            cooperative=request.cooperative or (before.cooperative and not joins),
        )
        return self._described(known, before, after)

    def describe_classic(
        self, request: Join, member_id: str, subscription: EmbeddedSubscription
    ) -> bool:
        """Add or update a member that joins by the classic protocol; returns whether the group's
        subscriptions changed."""
        known = self.group.members.get(member_id)
        before = known or ConsumerMember(member_id=member_id)
        after = replace(
            before,
            instance_id=request.instance_id or before.instance_id,
            rack_id=subscription.rack_id or before.rack_id,
            client_id=request.client_id,
            client_host=request.client_host,
            subscribed_topics=tuple(sorted(set(subscription.topics))),
            subscribed_regex=None,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            classic=classic_metadata(request.session_timeout_ms, request.protocols),
            takes_ranges=False,
            cooperative=False,
        )
        return self._described(known, before, after)

    def _described(
        self, known: ConsumerMember | None, before: ConsumerMember, after: ConsumerMember
    ) -> bool:
        if known is None or after != before:
            self.emit(member_metadata(self.group.group_id, after))
        if before.takes_ranges and not after.takes_ranges:
            self._give_up_parts(after)
        return (before.subscribed_topics, before.subscribed_regex, before.takes_ranges) != (
            after.subscribed_topics,
            after.subscribed_regex,
            after.takes_ranges,
        )

    def _give_up_parts(self, member: ConsumerMember) -> None:
        """A member that took key ranges has joined again, owns nothing, and takes whole partitions
        only: it must not be told of its parts while the next assignment waits."""
        group_id, member_id = self.group.group_id, member.member_id
        parts = self.group.target_parts.get(member_id, {})
        whole = {
            topic_id: tuple(p for p in partitions if p not in parts.get(topic_id, ()))
            for topic_id, partitions in self.group.targets.get(member_id, {}).items()
        }
        target = {topic_id: partitions for topic_id, partitions in whole.items() if partitions}
        if parts:
            self.emit(
                ConsumerTargetAssignmentMember(
                    group_id=group_id, member_id=member_id, assignment=target
                )
            )
        if any(part != WHOLE for _, part in member.parts_held()):
            self.emit(current_assignment(group_id, member.without_partitions()))

    def resolve(
        self, topics: TopicsImage, matches: Matches, sees: Sees | None, *, again: bool
    ) -> bool:
        """Find the topics of the regular expressions that have no topics yet, or, with ``again``,
        of all. Returns whether topics changed. Expressions that nobody subscribes to any more are
        forgotten.
        """
        group = self.group
        self.forget_regexes()
        found = {}
        for regex in group.unresolved(again=again):
            with suppress(InvalidRegularExpression):
                # An expression that an earlier release accepted, and this one refuses
                # (model/regex.py): its members keep the topics that they had.
                found[regex] = matches.of(regex, topics)
        if sees is not None:
            hidden = {name for name in set().union(*found.values()) if not sees(name)}
            found = {
                regex: tuple(name for name in names if name not in hidden)
                for regex, names in found.items()
            }
        changed = False
        for regex, names in found.items():
            if group.regexes.get(regex) != names:
                self.emit(ResolvedRegex(group_id=group.group_id, regex=regex, topics=names))
                changed = True
        return changed

    def retarget(self, topics: TopicsImage, assignor: str) -> None:
        """Compute the target assignment for the group epoch. Only changed targets are written."""
        group = self.group
        new, parts = assign(assignor, group, topics)
        self.set_targets(
            ConsumerTargetAssignmentMember(
                group_id=group.group_id,
                member_id=member_id,
                assignment=new[member_id],
                parts=parts.get(member_id, {}),
            )
            for member_id in sorted(new)
            if group.targets.get(member_id) != new[member_id]
            or group.target_parts.get(member_id, {}) != parts.get(member_id, {})
        )

    def reconcile(
        self,
        member_id: str,
        topics: TopicsImage,
        owned: Owned | None,
        *,
        changed: bool,
        owned_parts: Parts | None = None,
    ) -> bool:
        """Move a member towards its target; returns whether it changed."""
        group = self.group
        member = group.members[member_id]
        if member.is_reconciled_to(group.assignment_epoch) and not changed:
            return False
        after = reconcile(
            member,
            Goal(
                epoch=group.assignment_epoch,
                target=group.targets.get(member_id, {}),
                subscribed=topics.ids(group.topics_of(member)),
                owned=owned,
                taken=lambda topic_id, partition: group.taken(topic_id, partition, member_id),
                subscription_changed=changed,
                target_parts=group.target_parts.get(member_id, {}),
                owned_parts=owned_parts or {},
            ),
        )
        if after == member:
            return False
        self.emit(current_assignment(group.group_id, after))
        return True

    def leave_for_a_while(self, member: ConsumerMember) -> None:
        """A static member leaves and keeps its partitions until its session ends."""
        away = replace(member, epoch=AWAY_EPOCH, revoking={}, revoking_parts={})
        self.emit(current_assignment(self.group.group_id, away))

    def remove(self, member_ids: Iterable[str], topics: TopicsImage) -> None:
        """Remove members that leave or are fenced."""
        for member_id in member_ids:
            self.bury(member_id)
        self.forget_regexes()
        self.members_gone(topics)

    def forget_regexes(self) -> None:
        """Forget the regular expressions that nobody subscribes to any more."""
        group = self.group
        for regex in sorted(group.regexes.keys() - group.subscribed_regexes().keys()):
            self.delete(ResolvedRegex.key_type, regex)
