"""Broker settings of transactions and of their log, ``__transaction_state``."""

from __future__ import annotations

from typing import Final

from sharegroup.broker.configs.define import flag, integer, short

_DAYS: Final = 24 * 60 * 60 * 1000

TRANSACTION_CONFIGS: Final = (
    integer(
        "transaction.max.timeout.ms",
        15 * 60 * 1000,
        1,
        "The longest transaction.timeout.ms that a producer may ask for.",
    ),
    integer(
        "transactional.id.expiration.ms",
        7 * _DAYS,
        1,
        "A transactional id without a transaction for this long is forgotten.",
    ),
    flag(
        "transaction.partition.verification.enable",
        True,
        "Refuse transactional records for a partition that is not part of the transaction.",
        dynamic=True,
    ),
    integer(
        "transaction.state.log.num.partitions",
        1,
        1,
        "Partitions of __transaction_state; fixed once it exists.",
        departs="one embedded node gains nothing from more (Kafka: 50)",
    ),
    short(
        "transaction.state.log.replication.factor",
        1,
        1,
        "Copies of __transaction_state; there is one copy, whatever it says.",
        departs="one embedded node holds one copy (Kafka: 3)",
    ),
    integer(
        "transaction.state.log.min.isr",
        1,
        1,
        "Copies that must exist before a write counts; there is one copy, whatever it says.",
        departs="one embedded node holds one copy (Kafka: 2)",
    ),
    integer(
        "transaction.state.log.segment.bytes",
        104_857_600,
        1,
        "Segment size of __transaction_state.",
    ),
)
