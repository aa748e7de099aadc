"""Records of committed offsets: what is written by hand is what the codec writes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharegroup.groups.offsets import NONE, CommittedOffset, OffsetRecord
from sharegroup.model.errors import MalformedMessage
from sharegroup.wire.codec import encode_bytes
from sharegroup.wire.internal.offsets import (
    VALUE_VERSION,
    OffsetCommitKey,
    OffsetCommitValue,
    decode_record,
    encode_record,
)

int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
records = st.builds(
    OffsetRecord,
    st.text(max_size=40),
    st.text(max_size=300),
    int32,
    st.none()
    | st.builds(CommittedOffset, int64, int32, st.text(), int64, st.just(NONE), st.uuids()),
    st.just(NONE),
    st.just(NONE),
)


@given(records)
def test_written_as_the_codec_writes(record: OffsetRecord) -> None:
    key, value = encode_record(record)
    assert decode_record(key, value) == record
    expected = OffsetCommitKey(1, record.group_id, record.topic, record.partition)
    assert key == encode_bytes(expected, 0)
    if record.committed is not None:
        offset, epoch, metadata, commit_ms, _, topic_id = record.committed
        whole = OffsetCommitValue(offset, epoch, metadata, commit_ms, topic_id=topic_id)
        assert value == b"\0\4" + encode_bytes(whole, VALUE_VERSION)


@pytest.mark.parametrize("version", range(VALUE_VERSION + 1))
@pytest.mark.parametrize("key_type", [0, 1])
def test_every_version_is_read(key_type: int, version: int) -> None:
    key = encode_bytes(OffsetCommitKey(key_type, "g", "t", 3), 0)
    value = version.to_bytes(2, "big") + encode_bytes(
        OffsetCommitValue(5, 6, "text", 7, 8), version
    )
    assert decode_record(key, value) == OffsetRecord(
        "g",
        "t",
        3,
        CommittedOffset(5, 6 if version >= 3 else NONE, "text", 7, 8 if version == 1 else NONE),
    )


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"\0\1\0\1g", None),
        (b"\0\1\0\1g\0\1t\0\0\0\0", b""),
        (b"\0\1\0\1g\0\1t\0\0\0\0", b"\0\4\0"),
        (b"\0\1\0\1g\0\1t\0\0\0\0", b"\0\5" + b"\0" * 40),
        (b"\0\1\0\1g\0\1t\0\0\0\0", b"\0\3" + b"\0" * 12 + b"\0\1\xff" + b"\0" * 8),
    ],
)
def test_other_bytes_are_refused(key: bytes, value: bytes | None) -> None:
    with pytest.raises(MalformedMessage):
        decode_record(key, value)
