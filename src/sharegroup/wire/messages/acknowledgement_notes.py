"""What a consumer says beside an acknowledgement, in tagged fields of Kafka's messages: why it
gives records back, and how long they are to rest.


The tags are ours; a broker that does not know them skips them (KIP-482).
"""

from __future__ import annotations

from sharegroup.wire.schema import Message, i32, i64, message, string


@message
class Reason(Message):
    """What a consumer says of the offsets ``first`` … ``last``, both included."""

    first: int = i64()
    last: int = i64()
    text: str = string()


@message
class Pause(Message):
    """How long the offsets ``first`` … ``last``, both included, are to rest, in milliseconds."""

    first: int = i64()
    last: int = i64()
    pause_ms: int = i32()
