"""Share consumer, producer and admin client, on asyncio; ``sharegroup.sync`` has the same
without it.
"""

from sharegroup.client.consumer import ShareConsumer
from sharegroup.client.core.acknowledgements import AckType
from sharegroup.client.errors import (
    BootstrapError,
    BufferExhausted,
    CorruptRecordBatch,
    IllegalState,
)
from sharegroup.client.producer import Producer, RecordMetadata, SentRecord
from sharegroup.client.record import Record

__all__ = [
    "AckType",
    "BootstrapError",
    "BufferExhausted",
    "CorruptRecordBatch",
    "IllegalState",
    "Producer",
    "Record",
    "RecordMetadata",
    "SentRecord",
    "ShareConsumer",
]
