"""Features that ApiVersions announces: name → (lowest, highest level).

Each feature is finalised at its highest level, except ``share.version``: its level is the setting
of that name. Level 0 is not listed.

``share.version`` 1 is Kafka's switch for share groups (4.2 and 4.3). The others are our own:

* ``share.acquire.without.records``: a ShareFetch may ask for the acquired ranges only (tagged field
  9000 of its request).
* ``share.wide.window``: the group config ``share.partition.wide.record.locks``.
* ``share.record.states``: DescribeShareGroupOffsets can return the state of each record in flight
  (tagged field 9000 of its request, 9001 and 9002 of its response). Two more tagged fields of that
  response need no feature: 9003 lists damaged ranges of the log, if any; 9004 lists archived
  records with their reasons, and comes with the states.
"""

from __future__ import annotations

from typing import Final

SHARE_VERSION: Final = "share.version"

FEATURES: Final = {
    SHARE_VERSION: (0, 1),
    "share.acquire.without.records": (0, 1),
    "share.wide.window": (0, 1),
    "share.record.states": (0, 1),
}


def finalized(share_version: int) -> dict[str, int]:
    """The finalised levels by feature, without features at level 0."""
    levels = {name: last for name, (_, last) in FEATURES.items()}
    levels[SHARE_VERSION] = share_version
    return {name: level for name, level in levels.items() if level}
