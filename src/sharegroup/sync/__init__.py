"""The client for code that does not use asyncio: same names, same arguments, without ``await``.

::

    from sharegroup.sync import Producer, ShareConsumer

    with ShareConsumer("orders", group_id="billing") as consumer:
        for record in consumer:
            print(record.value, record.delivery_count)

A thin blocking front over one event loop in one background thread, which lives as long as some
client is open. It is not a second implementation made by machine (unasync), because a share
consumer has work to do while the program does its own: heartbeats keep it in the group, locks are
renewed, the next records are fetched. In a blocking client all of this would stand still for as
long as the program works on a record.

Ctrl-C ends the call that is waiting; leaving the ``with`` then releases what was not accepted. An
object may be used from one thread at a time.
"""

from __future__ import annotations

from sharegroup.sync.admin import Admin
from sharegroup.sync.consumer import ShareConsumer
from sharegroup.sync.producer import Delivery, Producer

__all__ = ["Admin", "Delivery", "Producer", "ShareConsumer"]
