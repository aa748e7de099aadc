"""Consumer groups as a machine of the runtime."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sharegroup.broker.coordination.membership_machine import Codec, MembershipMachine
from sharegroup.groups.consumer.membership import ConsumerGroups
from sharegroup.groups.consumer.records import ConsumerRecord
from sharegroup.groups.topics import TopicsImage
from sharegroup.wire.internal.consumer_groups import KEY_PREFIXES, decode_record, encode_record


class ConsumerGroupsMachine(MembershipMachine[ConsumerRecord]):
    """Implements ``machine.Machine``."""

    def __init__(
        self,
        groups: ConsumerGroups,
        image: Callable[[], TopicsImage],
        on_expired: Callable[[Sequence[ConsumerRecord]], None],
    ) -> None:
        super().__init__(
            groups, Codec(KEY_PREFIXES, decode_record, encode_record), image, on_expired
        )
        self.groups = groups
