"""A real broker for your tests: in this process, in memory, ready in milliseconds, and with a clock
that the test moves.

::

    from sharegroup.testing import broker

    def test_a_lock_expires():
        with broker(topics={"jobs": 1}) as kafka:
            kafka.produce("jobs", ["resize cat.jpg"])
            ...                            # any client: sharegroup, confluent-kafka, Java, Spark
            kafka.advance(seconds=31)      # its locks have run out when this returns

Nothing is mocked: it is the broker of ``sharegroup serve``, on a thread of its own and on a free
port. Under pytest the fixture ``sharegroup_broker`` is such a broker, a fresh one for each test.
``docs/testing.md`` has examples of everything.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sharegroup.testing.local_broker import BrokerNotRunning, LocalBroker, WaitedTooLong, broker
    from sharegroup.testing.views import GroupView, PartitionView, RangeView

__all__ = [
    "BrokerNotRunning",
    "GroupView",
    "LocalBroker",
    "PartitionView",
    "RangeView",
    "WaitedTooLong",
    "broker",
]

_VIEWS = {"GroupView", "PartitionView", "RangeView"}


def __getattr__(name: str) -> object:
    """Load on first use: pytest imports this package for its plugin in every run."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = "views" if name in _VIEWS else "local_broker"
    return getattr(import_module(f"sharegroup.testing.{home}"), name)
