"""Share groups as a machine of the runtime."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sharegroup.broker.coordination.membership_machine import Codec, MembershipMachine
from sharegroup.groups.share.groups import ShareGroups
from sharegroup.groups.share.records import ShareRecord
from sharegroup.groups.topics import TopicsImage
from sharegroup.wire.internal.groups import KEY_PREFIXES, decode_record, encode_record


class ShareGroupsMachine(MembershipMachine[ShareRecord]):
    """Implements ``machine.Machine``."""

    def __init__(
        self,
        groups: ShareGroups,
        image: Callable[[], TopicsImage],
        on_expired: Callable[[Sequence[ShareRecord]], None],
    ) -> None:
        super().__init__(
            groups, Codec(KEY_PREFIXES, decode_record, encode_record), image, on_expired
        )
        self.groups = groups
