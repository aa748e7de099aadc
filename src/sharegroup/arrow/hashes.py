"""The key hashes of records (KIP-X), as ``records/key_hashes.py`` defines them, for all records of
a fetch at once: no Python object per record, and no compiler.

MurmurHash2 takes a key four bytes at a time. The n-th four bytes of all keys are taken together,
the longest keys first, so that the keys with more bytes to come are always the first ones. 0.1 µs a
record with keys of 10 bytes.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from sharegroup.arrow.records import Bytes, FieldColumns, Ints
from sharegroup.records.key_hashes import (
    FIRST_MULTIPLIER,
    MURMUR_MULTIPLIER,
    OFFSET_SALT,
    SECOND_MULTIPLIER,
    SEEDS,
    hash_of_key,
)

Words: TypeAlias = npt.NDArray[np.uint32]

KEYS_IN_STEP_MIN: Final = 64
"""From this many keys on, their n-th four bytes are taken together. With fewer, each key is hashed
by itself: a step costs the same for one key as for a hundred, and one key may have megabytes."""
WORD_BYTES: Final = 4
_M: Final = np.uint32(MURMUR_MULTIPLIER)


def hashes_of(fields: FieldColumns) -> Ints:
    """The hash of each record: the hash of its key, or of its offset if it has no key."""
    keyed = np.flatnonzero(fields.key_lengths >= 0)
    if len(keyed) == len(fields):
        return _of_keys(fields.data, fields.key_starts, fields.key_lengths)
    hashes = _of_offsets(fields.offsets)
    if len(keyed):
        hashes[keyed] = _of_keys(fields.data, fields.key_starts[keyed], fields.key_lengths[keyed])
    return hashes


def _of_offsets(offsets: Ints) -> Ints:
    return _mixed(offsets.astype(np.uint64) + np.uint64(OFFSET_SALT))


def _of_keys(data: Bytes, starts: Ints, lengths: Ints) -> Ints:
    order = np.argsort(-lengths, kind="stable")  # no change if all have one length
    starts, lengths = starts[order], lengths[order]
    whole = lengths // WORD_BYTES
    high, low = (np.uint32(seed) ^ lengths.astype(np.uint32) for seed in SEEDS)
    words = np.ndarray((max(len(data) - WORD_BYTES + 1, 0),), "<u4", data, strides=(1,))
    step = 0
    while (still := int(np.searchsorted(-whole, -step, "left"))) >= KEYS_IN_STEP_MIN:
        word = words[starts[:still] + step * WORD_BYTES].astype(np.uint32) * _M
        word = (word ^ (word >> np.uint32(24))) * _M
        for part in (high, low):
            part[:still] *= _M
            part[:still] ^= word
        step += 1
    # A key's last one to three bytes are read as the end of the four bytes before the key's end.
    # The first of these four may lie before the key: a record has at least five bytes there.
    over = (lengths % WORD_BYTES).astype(np.uint32)
    rest = words[starts + lengths - WORD_BYTES] >> (-over % np.uint32(WORD_BYTES) * np.uint32(8))
    high, low = (np.where(over, (part ^ rest) * _M, part) for part in (high, low))
    found = _mixed(_ended(high).astype(np.uint64) << np.uint64(32) | _ended(low))
    for at in range(still):  # the few keys that have bytes left
        start = int(starts[at])
        found[at] = hash_of_key(data[start : start + int(lengths[at])].tobytes())
    hashes = np.empty(len(found), np.int64)
    hashes[order] = found
    return hashes


def _ended(part: Words) -> Words:
    part = (part ^ (part >> np.uint32(13))) * _M
    return part ^ (part >> np.uint32(15))


def _mixed(x: npt.NDArray[np.uint64]) -> Ints:
    x = (x ^ (x >> np.uint64(30))) * np.uint64(FIRST_MULTIPLIER)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(SECOND_MULTIPLIER)
    return ((x ^ (x >> np.uint64(31))) >> np.uint64(1)).astype(np.int64)
