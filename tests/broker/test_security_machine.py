"""Credentials, ACLs and quotas: what the log keeps of them, beside dictionaries."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharegroup.broker.coordination.security_machine import SecurityMachine
from sharegroup.model.errors import MalformedMessage
from sharegroup.sasl.scram_keys import ScramCredential, ScramMechanism
from sharegroup.wire.internal.security import (
    AclChange,
    AclRow,
    QuotaChange,
    ScramChange,
    SecurityRecord,
    decode_record,
    encode_record,
)

names = st.sampled_from(["alice", "bob", ""])
keys = st.binary(min_size=1, max_size=8)
credentials = st.builds(
    ScramCredential,
    salt=keys,
    stored_key=keys,
    server_key=keys,
    iterations=st.integers(4096, 16384),
)
acls = st.builds(
    AclRow,
    resource_type=st.sampled_from([2, 3, 4, 5]),
    resource_name=names,
    pattern_type=st.sampled_from([3, 4]),
    principal=names,
    host=names,
    operation=st.integers(2, 12),
    permission_type=st.sampled_from([2, 3]),
)
entities = st.sampled_from(
    [
        (("user", "alice"),),
        (("user", None),),
        (("client-id", "app"), ("user", None)),
        (("ip", "10.0.0.7"),),
    ]
)
records: st.SearchStrategy[SecurityRecord] = st.one_of(
    st.builds(ScramChange, names, st.sampled_from(ScramMechanism), st.none() | credentials),
    st.builds(AclChange, st.integers(1, 4).map(lambda at: UUID(int=at)), st.none() | acls),
    st.builds(
        QuotaChange,
        entities,
        st.sampled_from(["producer_byte_rate", "request_percentage"]),
        st.none() | st.floats(0, 1e9),
    ),
)


@given(records)
def test_a_record_is_read_as_it_was_written(record: SecurityRecord) -> None:
    assert decode_record(*encode_record(record)) == record


@given(st.lists(records, max_size=30))
def test_the_last_record_of_each_key_counts_and_a_rewrite_keeps_them(
    changes: list[SecurityRecord],
) -> None:
    machine = SecurityMachine()
    naive: dict[object, object] = {}
    for at, change in enumerate(changes):
        assert machine.replay(at, *encode_record(change))
        naive[(type(change), *change[:-1])] = change[-1]
    naive = {key: value for key, value in naive.items() if value is not None}
    again = SecurityMachine()
    rewritten = [record for step in machine.live_records() for record in step]
    for record in rewritten:
        again.replay(0, *encode_record(record))
    for one in (machine, again):
        assert one.size() == len(naive) == len(rewritten)
        assert {
            **{(ScramChange, *key): value for key, value in one.credentials.items()},
            **{(AclChange, key): value for key, value in one.acls.items()},
            **{(QuotaChange, *key): value for key, value in one.quotas.items()},
        } == naive
        one.check_invariants()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"", None),
        (b"\0\x63rest", None),
        (b"\0\x0b\0\x05al", None),
        (b"\0\x0b\0\x01a\x07", None),  # a credential of mechanism 7
        (encode_record(QuotaChange((("user", None),), "q", 1.0))[0], b"\2\x0e\0"),
        (encode_record(QuotaChange((("user", None),), "q", 1.0))[0], b"\1\x0b\0"),
        (encode_record(AclChange(UUID(int=1), None))[0], b"\1\x12\0short"),
    ],
)
def test_a_malformed_record_is_refused(key: bytes, value: bytes | None) -> None:
    with pytest.raises(MalformedMessage):
        decode_record(key, value)


def test_keys_are_in_no_repr() -> None:
    credential = ScramCredential(
        salt=b"salt", stored_key=b"canary", server_key=b"canary", iterations=4096
    )
    assert "canary" not in repr(ScramChange("alice", ScramMechanism.SHA_256, credential))
