"""Broker settings of classic consumer groups."""

from __future__ import annotations

from typing import Final

from sharegroup.broker.configs.define import integer

CLASSIC_CONFIGS: Final = (
    integer(
        "group.min.session.timeout.ms",
        6_000,
        None,
        "The shortest session timeout that a member of a classic group may ask for.",
    ),
    integer(
        "group.max.session.timeout.ms",
        1_800_000,
        None,
        "The longest session timeout that a member of a classic group may ask for.",
    ),
    integer(
        "group.initial.rebalance.delay.ms",
        3_000,
        None,
        "How long an empty classic group waits for more members before it assigns partitions.",
    ),
    integer("group.max.size", 2_147_483_647, 1, "Members in a classic group."),
)
