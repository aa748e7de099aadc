"""Names of record headers that the broker obeys."""

from __future__ import annotations

from typing import Final

EXPIRES_AT: Final = "sharegroup.expires.at"
"""When the record is worthless, in milliseconds since 1970, as decimal digits. KIP-1277 has no
header for that; RabbitMQ calls it ``expiration``."""

DELIVER_AT: Final = "sharegroup.deliver.at"
"""The record is not delivered before this time, in milliseconds since 1970, as decimal digits.
KIP-1277 (under discussion) has no header: it proposes a new field ``deliverAfter``, a time too, of
the record and of its batch."""
