"""The times that a date can hold."""

from __future__ import annotations

from typing import Final

NO_TIMESTAMP: Final = -1
"""What Kafka writes as the timestamp of a record that has no timestamp."""
DATE_MIN_MS: Final = -62_135_596_800_000
DATE_MAX_MS: Final = 253_402_300_799_999
"""The years 1 to 9999, as Python's dates and Spark's have them; in milliseconds since 1970."""
