"""Features that ApiVersions announces: name → (lowest, highest level); all are finalised at their
highest.

``share.version`` 1 is Kafka's switch for share groups (4.2 and 4.3).
``share.acquire.without.records`` is ours: a ShareFetch may ask for the acquired ranges only (tagged
field 9000 of its request).
``share.wide.window`` is ours too: the group config ``share.partition.wide.record.locks``.
"""

from __future__ import annotations

from typing import Final

FEATURES: Final = {
    "share.version": (0, 1),
    "share.acquire.without.records": (0, 1),
    "share.wide.window": (0, 1),
}
