"""The topics in the metadata of a consumer: the protocol type "consumer".

Source: Kafka's message definition ConsumerProtocolSubscription.json, version 0, which begins all
later versions.
"""

from __future__ import annotations

import struct

from sharegroup.model.errors import MalformedMessage


def subscribed_topics(metadata: bytes) -> frozenset[str]:
    """The topics that a consumer subscribes to.

    Raises:
        MalformedMessage: the bytes are no subscription.
    """
    topics = set()
    try:
        version, count = struct.unpack_from(">hi", metadata)
        position = 6
        if version < 0 or count < 0:
            raise MalformedMessage(f"a subscription of version {version} with {count} topics")
        for _ in range(count):
            (length,) = struct.unpack_from(">h", metadata, position)
            position += 2
            end = position + length
            if length < 0 or end > len(metadata):
                raise MalformedMessage(f"a topic name of {length} bytes in a subscription")
            topics.add(metadata[position:end].decode())
            position = end
    except (struct.error, UnicodeDecodeError) as error:
        raise MalformedMessage(f"no consumer subscription: {error}") from error
    return frozenset(topics)
