"""The client for code that does not use asyncio: same names, same arguments, without ``await``.

::

    from sharegroup.sync import Producer, ShareConsumer

    with ShareConsumer("orders", group_id="billing") as consumer:
        for record in consumer:
            print(record.value, record.delivery_count)

A thin blocking front over one event loop in one background thread. The thread lives while any
client is open. The code is not generated from the asyncio client (unasync), because a share
consumer must work in the background: send heartbeats, renew locks, fetch the next records. A purely
blocking client would do none of this while the program processes a record. Only ``Admin``, which
does nothing in the background, is written by a script (``scripts/write_sync_admin.py``).

Ctrl-C ends the call that is waiting; leaving the ``with`` then releases the records that were not
accepted. An object may be used from one thread at a time.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sharegroup.sync.admin import Admin
    from sharegroup.sync.consumer import Consumer
    from sharegroup.sync.crossing import Delivery
    from sharegroup.sync.producer import Producer
    from sharegroup.sync.share_consumer import ShareConsumer

__all__ = ["Admin", "Consumer", "Delivery", "Producer", "ShareConsumer"]

_HOMES = {
    "Admin": "admin",
    "Consumer": "consumer",
    "Delivery": "crossing",
    "Producer": "producer",
    "ShareConsumer": "share_consumer",
}


def __getattr__(name: str) -> object:
    """Load a client when it is first named: Spark's source needs nothing here but the loop."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
