"""One connection's protocol, without a socket: however the bytes are cut, whatever is wrong."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from itertools import pairwise
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharegroup.client.core.protocol import ClientProtocol, Ready, ResponseArrived, Send
from sharegroup.model.errors import (
    ClusterAuthorizationFailed,
    ErrorSource,
    KafkaError,
    NetworkException,
    UnsupportedVersion,
)
from sharegroup.model.limits import HANDSHAKE_BYTES_MAX
from sharegroup.wire.apis import API_VERSIONS, DESCRIBE_CLUSTER, FETCH, METADATA, Api
from sharegroup.wire.framing import parse_request_header, response_frame
from sharegroup.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from sharegroup.wire.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from sharegroup.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from sharegroup.wire.messages.metadata import MetadataRequest
from sharegroup.wire.schema import Message

OURS = {API_VERSIONS: (0, 4), FETCH: (13, 17), DESCRIBE_CLUSTER: (0, 1), METADATA: (10, 13)}
THEIRS = [
    ApiVersion(API_VERSIONS.key, 0, 4),
    ApiVersion(FETCH.key, 4, 16),
    ApiVersion(DESCRIBE_CLUSTER.key, 0, 1),
    ApiVersion(METADATA.key, 0, 9),
]
TRUNCATED = b"\0\0\0\x64\0\0\0\1"
WELCOME = b"".join(response_frame(API_VERSIONS, 4, 1, ApiVersionsResponse(api_keys=THEIRS)))
REQUESTS: dict[Api, Message] = {FETCH: FetchRequest(), DESCRIBE_CLUSTER: DescribeClusterRequest()}
VERSIONS = {FETCH: 16, DESCRIBE_CLUSTER: 1}

Outcome = tuple[str, object]


def fetched(records: bytes) -> FetchResponse:
    part = PartitionData(records=records)
    return FetchResponse(
        responses=[FetchableTopicResponse(topic_id=UUID(int=7), partitions=[part])]
    )


ANSWERS = st.lists(
    st.one_of(
        st.text(max_size=9).map(
            lambda name: (DESCRIBE_CLUSTER, DescribeClusterResponse(error_message=name))
        ),
        st.sampled_from([0, 9, 70_000]).map(lambda size: (FETCH, fetched(bytes(size)))),
    ),
    max_size=5,
)
ENDS = st.sampled_from(
    [
        b"",
        TRUNCATED,
        b"\xff\xff\xff\xff",
        b"\0\0\0\2\0\0",
        struct.pack(">ii", 4, 99),
        struct.pack(">ii", 4, 2),
    ]
)


def new() -> ClientProtocol[str]:
    return ClientProtocol("b:1", "me", OURS)


def ready() -> ClientProtocol[str]:
    """Past the handshake; the next request is number 2."""
    protocol = new()
    protocol.start()
    assert list(protocol.receive(WELCOME)) == [Ready()]
    return protocol


def outcomes(chunks: Iterable[bytes], asked: Iterable[Api]) -> list[Outcome]:
    """All that comes of a connection whose program sends its requests as soon as it may."""
    protocol = new()
    protocol.start()
    found: list[Outcome] = []
    try:
        for chunk in chunks:
            for event in protocol.receive(chunk):
                if isinstance(event, Ready):
                    for number, api in enumerate(asked):
                        protocol.send(api, REQUESTS[api], f"{api.name} {number}")
                    found.append(("ready", protocol.version_of(FETCH)))
                elif isinstance(event, ResponseArrived):
                    found.append((event.caller, told(event.response)))
        found.append(("lost", str(protocol.lost())))
    except KafkaError as error:
        found.append((error.name, str(error)))
    found.append(("unanswered", protocol.end()))
    return found


def told(response: Message) -> object:
    """What a response says."""
    if isinstance(response, FetchResponse):
        return bytes(response.responses[0].partitions[0].records or b"")
    assert isinstance(response, DescribeClusterResponse)
    return response.error_message


def cut(stream: bytes, cuts: Iterable[int]) -> Iterator[bytes]:
    edges = [0, *sorted({one for one in cuts if 0 < one < len(stream)}), len(stream)]
    return (stream[start:end] for start, end in pairwise(edges))


@given(
    answers=ANSWERS, end=ENDS, cuts=st.lists(st.integers(0, 300), max_size=40), far=st.floats(0, 1)
)
def test_any_split_of_the_bytes_gives_the_same_events(
    answers: list[tuple[Api, Message]], end: bytes, cuts: list[int], far: float
) -> None:
    stream = WELCOME + end_of(answers) + end
    asked = [api for api, _ in answers] + [DESCRIBE_CLUSTER]
    whole = outcomes([stream], asked)
    assert [one[1] for one in whole[1 : 1 + len(answers)]] == [told(one) for _, one in answers]
    assert outcomes(cut(stream, [*cuts, int(far * len(stream))]), asked) == whole


def end_of(answers: list[tuple[Api, Message]]) -> bytes:
    """What a broker sends after the handshake."""
    return b"".join(
        chunk
        for number, (api, answer) in enumerate(answers, start=2)
        for chunk in response_frame(api, VERSIONS[api], number, answer)
    )


@given(answers=ANSWERS)
def test_exact_reads_give_one_event_at_a_time(
    answers: list[tuple[Api, Message]],
) -> None:
    stream = memoryview(WELCOME + end_of(answers))
    protocol = new()
    protocol.start()
    events: list[object] = []
    while stream:
        data, stream = stream[: protocol.wanted], stream[protocol.wanted :]
        found = list(protocol.receive(bytes(data)))
        assert len(found) <= 1
        if found == [Ready()]:
            for api, _ in answers:
                protocol.send(api, REQUESTS[api], api.name)
        events += [
            (one.caller, told(one.response)) for one in found if isinstance(one, ResponseArrived)
        ]
    assert events == [(api.name, told(answer)) for api, answer in answers]


def test_exact_reads_do_not_copy_a_long_response() -> None:
    protocol = ready()
    protocol.send(FETCH, FetchRequest(), "me")
    stream = b"".join(response_frame(FETCH, 16, 2, fetched(bytes(100_000))))
    length, rest = stream[: protocol.wanted], memoryview(stream)[protocol.wanted :]
    assert list(protocol.receive(length)) == []
    assert protocol.wanted == len(rest)
    [event] = protocol.receive(rest)  # type: ignore[arg-type]  # as a driver passes it on
    assert isinstance(event, ResponseArrived)
    assert isinstance(event.response, FetchResponse)
    data = event.response.responses[0].partitions[0].records
    assert isinstance(data, memoryview)
    assert data.obj is rest.obj


# --- the handshake --------------------------------------------------------------------------------


def asked_version(chunks: list[bytes]) -> int:
    header = parse_request_header(b"".join(chunks)[4:])
    assert header.api_key == API_VERSIONS.key
    return header.version


def refusal(keys: list[ApiVersion], number: int = 1, code: int = 35) -> bytes:
    """KIP-511: of a version that the broker does not have, it is in version 0."""
    response = ApiVersionsResponse(error_code=code, api_keys=keys)
    return b"".join(response_frame(API_VERSIONS, 0 if code == 35 else 4, number, response))


@pytest.mark.parametrize(
    ("keys", "again"),
    [
        ([ApiVersion(API_VERSIONS.key, 0, 2), ApiVersion(METADATA.key, 0, 9)], 2),
        ([], 0),  # before Kafka 2.4
    ],
    ids=["it says which it has", "it says nothing"],
)
def test_a_refused_version_is_asked_again_with_the_brokers(
    keys: list[ApiVersion], again: int
) -> None:
    protocol = new()
    assert asked_version(protocol.start()) == 4
    [event] = protocol.receive(refusal(keys))
    assert isinstance(event, Send)
    assert asked_version(event.chunks) == again
    with pytest.raises(NetworkException, match="not connected"):
        protocol.send(METADATA, MetadataRequest(), "early")
    welcome = ApiVersionsResponse(api_keys=THEIRS)
    assert list(protocol.receive(b"".join(response_frame(API_VERSIONS, again, 2, welcome)))) == [
        Ready()
    ]
    assert protocol.version_of(FETCH) == 16


@pytest.mark.parametrize(
    ("keys", "code", "kind", "source", "text"),
    [
        ([ApiVersion(18, 6, 7)], 35, UnsupportedVersion, "local", "serves ApiVersions 6-7.*0-4"),
        (THEIRS, 31, ClusterAuthorizationFailed, "broker", "b:1 refused ApiVersions"),
    ],
    ids=["no version in common", "refused"],
)
def test_a_handshake_that_fails(
    keys: list[ApiVersion], code: int, kind: type[KafkaError], source: str, text: str
) -> None:
    protocol = new()
    protocol.start()
    with pytest.raises(kind, match=text) as caught:
        list(protocol.receive(refusal(keys, code=code)))
    assert caught.value.source == source
    assert protocol.end() == []


def test_a_broker_that_refuses_its_own_version() -> None:
    protocol = new()
    protocol.start()
    assert len(list(protocol.receive(refusal(THEIRS)))) == 1
    with pytest.raises(UnsupportedVersion, match="b:1 refused ApiVersions") as caught:
        list(protocol.receive(refusal(THEIRS, number=2)))
    assert caught.value.source is ErrorSource.BROKER


def test_another_protocol_is_detected_by_its_first_bytes() -> None:
    protocol = new()
    protocol.start()
    with pytest.raises(NetworkException, match=f"the limit is {HANDSHAKE_BYTES_MAX}"):
        list(protocol.receive(b"HTTP"))
    assert list(ready().receive(b"HTTP")) == []  # a response to a fetch may be long


# --- requests -------------------------------------------------------------------------------------


def test_incompatible_versions() -> None:
    protocol = ready()
    text = "serves Metadata 0-9, this client speaks 10-13"
    with pytest.raises(UnsupportedVersion, match=text) as caught:
        protocol.send(METADATA, MetadataRequest(), "me")
    assert caught.value.source is ErrorSource.LOCAL
    assert protocol.idle


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (struct.pack(">iib", 5, 99, 0), "a response to request 99 instead of 2"),
        (struct.pack(">i", -2), "a frame of -2 bytes"),
        (b"\0\0\0\2\0\0", "shorter than its header"),
        (struct.pack(">iib", 5, 2, 0), "DescribeClusterResponse v1"),
    ],
    ids=["another request's", "negative length", "no header", "no body"],
)
def test_an_invalid_response_breaks_the_connection(data: bytes, text: str) -> None:
    protocol = ready()
    protocol.send(DESCRIBE_CLUSTER, DescribeClusterRequest(), "first")
    protocol.send(FETCH, FetchRequest(), "second")
    with pytest.raises(NetworkException, match=text) as caught:
        list(protocol.receive(data))
    assert caught.value.source is ErrorSource.CONNECTION
    assert protocol.end() == ["first", "second"]
    with pytest.raises(NetworkException, match="not connected to b:1"):
        protocol.send(DESCRIBE_CLUSTER, DescribeClusterRequest(), "third")
    assert list(protocol.receive(data)) == []


def test_an_unexpected_response_breaks_the_connection() -> None:
    with pytest.raises(NetworkException, match="a response without a request"):
        list(ready().receive(struct.pack(">ii", 4, 2)))


def test_a_connection_that_ends_inside_a_response_is_reported() -> None:
    protocol = ready()
    protocol.send(FETCH, FetchRequest(), "me")
    hint = " (if it wants a login, set security.protocol to SASL_SSL or SASL_PLAINTEXT)"
    assert str(protocol.lost()) == f"the connection to b:1 was lost, waiting for Fetch{hint}"
    for byte in TRUNCATED:
        assert list(protocol.receive(bytes([byte]))) == []
        lost = protocol.lost("reset by peer")
        assert "lost inside a response, waiting for Fetch: reset by peer" in str(lost)
    assert lost.source is ErrorSource.CONNECTION
