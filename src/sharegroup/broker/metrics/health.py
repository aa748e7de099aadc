"""Whether a broker can do its work, for the supervisors that restart it or send clients to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sharegroup.broker.parts import BrokerParts

NAMED_PARTITIONS_MAX: Final = 10
"""The most out-of-service partitions named in an answer; the rest are only counted."""


def why_not_ready(parts: BrokerParts | None) -> str:
    """One line that says why the broker is not ready for work; empty if it is ready.

    ``parts`` is None until the data folder is recovered and it accepts connections.
    """
    if parts is None:
        return "starting: the data folder is being read"
    if parts.waiters.closed:
        return "stopping"
    failed = parts.store.out_of_service()
    if failed:
        return f"partitions out of service: {_named([str(key) for key in failed])}"
    return ""


def _named(names: Sequence[str]) -> str:
    more = len(names) - NAMED_PARTITIONS_MAX
    text = ", ".join(names[:NAMED_PARTITIONS_MAX])
    return f"{text} and {more} more" if more > 0 else text
