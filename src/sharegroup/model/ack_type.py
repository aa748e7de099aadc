"""How a consumer acknowledges a record."""

from __future__ import annotations

from enum import IntEnum


class AckType(IntEnum):
    """An acknowledgement, by the application or by the client itself (GAP). Kafka class
    AcknowledgeType (KIP-932; RENEW: KIP-1222). The numbers are on the wire.
    """

    GAP = 0
    """There is no such record: compacted away, or a control record."""
    ACCEPT = 1
    """Processed: it will not come again."""
    RELEASE = 2
    """Not processed: deliver it again, to any member, if its delivery count allows."""
    REJECT = 3
    """Cannot be processed: archive it."""
    RENEW = 4
    """Processing goes on: renew the acquisition lock."""
