"""What a read has found before damage that the log has not seen: bytes that this process wrote are
not checked. The next read begins at the damage, and there the log looks.
"""

from __future__ import annotations

from sharegroup.model.errors import CorruptMessage
from sharegroup.wire.batch import Walk, parse_header, walk


def before_damage(data: bytes) -> bytes:
    """The batches before the first one with a broken header: a wrong magic or length. Empty if the
    very first is broken."""
    position = 0
    while position < len(data):
        try:
            header = parse_header(data, position)
        except CorruptMessage:
            break
        if header.length > len(data) - position:
            break
        position += header.length
    return data[:position]


def walked(data: bytes) -> tuple[bytes, Walk]:
    """The batches before the first broken header, and their walk.

    Raises:
        CorruptMessage: the first header is broken.
    """
    try:
        return data, walk(data)
    except CorruptMessage:
        good = before_damage(data)
        if not good:
            raise
        return good, walk(good)
