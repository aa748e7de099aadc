"""What the steps of a script may be, how often each comes, and the versions that are spoken."""

from __future__ import annotations

VERSIONS: dict[str, tuple[int, ...]] = {
    "join_group": (3, 4, 5, 8, 9, 9),
    "sync_group": (3, 4, 5, 5),
    "heartbeat": (3, 4),
    "leave_group": (1, 3, 5, 5),
    "offset_commit": (4, 6, 8, 9, 10),
    "offset_fetch": (1, 2, 7, 8, 9, 10),
    "describe_groups": (4, 5, 6),
    "list_groups": (4, 5, 5),
    "delete_groups": (1, 2),
}

Choices = tuple[tuple[str, ...], ...]
"""For each value of a step, what it may be; what comes often stands there often."""

OFFSET_CASES = (
    *("member", "member", "member", "simple", "simple", "old generation", "stranger"),
    *("unknown topic", "unknown partition", "large metadata", "null metadata", "no topics"),
    *("no generation", "no member", "negative offset", "unknown group", "other instance"),
)
FETCH_CASES = (
    *("all", "all", "some", "some", "unknown topic", "unknown partition", "several groups"),
    *("unknown group", "stable", "stranger", "no topics", "member"),
)
# verb -> how often it comes, and what its values may be
CLASSIC: dict[str, tuple[int, Choices]] = {
    "join": (
        16,
        (
            ("own", "own", "own", "own", "own", "none", "stranger"),
            ("range", "range", "range", "range+sticky", "sticky", "none"),
            ("topic", "topic", "other", "garbage"),
            ("consumer",) * 9 + ("connect", ""),
            ("long",) * 15 + ("too short",),
        ),
    ),
    "sync": (
        12,
        (
            ("right",) * 8
            + ("old generation", "stranger", "other protocol", "other type", "no protocol")
            + ("to strangers", "other instance", "unknown group"),
        ),
    ),
    "settle": (10, ()),
    "heartbeat": (
        8,
        (("right",) * 3 + ("old generation", "stranger", "unknown group", "other instance"),),
    ),
    "leave": (
        6,
        (
            ("right",) * 5
            + ("stranger", "unknown group", "by instance", "other instance", "twice")
            + ("right and stranger", "nobody"),
        ),
    ),
}
OFFSETS: dict[str, tuple[int, Choices]] = {
    "commit": (12, (OFFSET_CASES, ("0", "1", "2"))),
    "fetch_offsets": (8, (FETCH_CASES,)),
    "delete_offsets": (
        4,
        (("topic", "topic", "unknown topic", "unknown partition", "unknown group", "two"),),
    ),
}
LOOKS: dict[str, tuple[int, Choices]] = {
    "describe": (6, (("group", "group", "group", "unknown group"),)),
    "list_groups": (
        3,
        (
            ("any", "any", "Stable", "Empty", "PreparingRebalance", "nonsense"),
            ("any", "classic", "Consumer", "nonsense"),
        ),
    ),
    "delete_group": (2, (("group", "unknown group", "no name"),)),
}
CONSUMER: dict[str, tuple[int, Choices]] = {
    "cg_join": (
        10,
        (
            ("topic", "topic", "topic", "topic", "nowhere", "none"),
            ("any", "any", "wanted", "wanted", "nobody's"),
            ("right",) * 8
            + ("no member id", "no topics", "no timeout", "no partitions", "owning")
            + ("no group name", "empty instance", "regex"),
        ),
    ),
    "cg_beat": (
        8,
        (
            (
                *("right", "right", "owned", "owned", "full", "old epoch", "future epoch"),
                *("odd epoch", "stranger", "other instance"),
            ),
        ),
    ),
    "cg_leave": (5, (("for good", "for good", "for good", "for a moment", "stranger"),)),
    "cg_settle": (10, ()),
    "cg_describe": (5, (("group", "group", "group", "unknown group"),)),
}
MIGRATION: dict[str, tuple[int, Choices]] = CONSUMER | {
    "cg_join": (
        10,
        (
            ("topic", "topic", "topic", "topic", "nowhere", "none"),
            ("any", "any", "wanted"),
            ("right",) * 8 + ("no member id", "no topics", "no partitions"),
        ),
    ),
    "join": (
        16,
        (
            ("own",) * 6 + ("none", "stranger"),
            ("range", "range", "range", "range+sticky", "sticky"),
            ("topic", "topic", "owning", "owning", "other"),
            ("consumer",) * 12 + ("connect",),
            ("long",),
        ),
    ),
    "sync": (
        12,
        (
            ("real",) * 8
            + ("old generation", "stranger", "other protocol", "other type", "no protocol")
            + ("other instance",),
        ),
    ),
    "settle": (14, (("real",),)),
    "heartbeat": CLASSIC["heartbeat"],
    "leave": CLASSIC["leave"],
}
"""Members of both protocols in one group, with assignments that the broker can read."""
PRODUCER_CASES = ("right",) * 8 + ("old epoch", "future epoch", "other producer", "unknown id")
TRANSACTIONS: dict[str, tuple[int, Choices]] = {
    "txn_init": (
        7,
        (
            ("new",) * 6
            + ("goes on", "goes on", "old epoch", "future epoch", "other producer")
            + ("no timeout", "huge timeout", "no name", "idempotent"),
        ),
    ),
    "txn_add": (
        8,
        ((*PRODUCER_CASES, "unknown topic", "unknown partition"), ("0", "0", "1")),
    ),
    "txn_produce": (
        16,
        (
            (*PRODUCER_CASES, "right", "right", "plain", "plain", "outside", "wrong sequence"),
            ("0", "0", "1"),
        ),
    ),
    "txn_add_offsets": (5, (PRODUCER_CASES,)),
    "txn_commit_offset": (
        6,
        (
            (*PRODUCER_CASES, "unknown topic", "unknown partition", "member", "old generation"),
            ("0", "1"),
        ),
    ),
    "txn_end": (12, (("commit", "commit", "abort"), PRODUCER_CASES)),
    "txn_describe": (5, (("right", "right", "unknown id"),)),
    "txn_list": (2, (("any", "Ongoing", "CompleteCommit", "nonsense"),)),
    "read": (10, (("0", "0", "1"), ("committed", "committed", "all"), ("0", "0", "1", "2"))),
}
SUBJECTS: dict[str, dict[str, tuple[int, Choices]]] = {
    "classic": CLASSIC | OFFSETS | LOOKS,
    "consumer": CONSUMER | OFFSETS | LOOKS,
    "both protocols": CLASSIC | CONSUMER | OFFSETS | LOOKS,
    "migration": MIGRATION | OFFSETS | LOOKS,
    "transactions": TRANSACTIONS | {verb: OFFSETS[verb] for verb in ("fetch_offsets", "commit")},
    "everything": CLASSIC | CONSUMER | OFFSETS | LOOKS | TRANSACTIONS,
}
TURNS = (
    *("classic", "classic", "consumer", "transactions", "transactions", "both protocols"),
    *("migration", "migration"),
)
"""The subjects of scripts, in turn; both protocols is sometimes everything."""
TRANSACTION_VERSIONS = (
    {"produce": 12, "end_txn": 5, "init_producer_id": 5, "txn_offset_commit": 5},
    {"produce": 11, "end_txn": 4, "init_producer_id": 4, "txn_offset_commit": 4},
)
"""Clients of transaction version 2, and of the one before."""
