"""A login on one connection, without a socket: at its beginning, and anew between requests."""

from __future__ import annotations

from itertools import pairwise

import pytest

from sharegroup.client.core.protocol import ClientProtocol, Ready, ResponseArrived, Send
from sharegroup.model.errors import (
    IllegalSaslState,
    KafkaError,
    NetworkException,
    SaslAuthenticationFailed,
    TlsFailed,
    UnsupportedSaslMechanism,
    UnsupportedVersion,
)
from sharegroup.model.limits import SASL_ROUNDS_MAX
from sharegroup.sasl.client import Login, OAuthBearerLogin, PlainLogin, ScramLogin
from sharegroup.sasl.scram_keys import ScramMechanism
from sharegroup.wire.apis import (
    API_VERSIONS,
    DESCRIBE_CLUSTER,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
    Api,
)
from sharegroup.wire.codec import decode
from sharegroup.wire.framing import parse_request_header, response_frame
from sharegroup.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from sharegroup.wire.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from sharegroup.wire.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from sharegroup.wire.messages.sasl_handshake import SaslHandshakeResponse
from sharegroup.wire.schema import Message

SERVED = [
    ApiVersion(API_VERSIONS.key, 0, 4),
    ApiVersion(SASL_HANDSHAKE.key, 0, 1),
    ApiVersion(SASL_AUTHENTICATE.key, 0, 2),
    ApiVersion(DESCRIBE_CLUSTER.key, 0, 1),
]
OURS = {API_VERSIONS: (0, 4), DESCRIBE_CLUSTER: (0, 1)}
YES = SaslAuthenticateResponse(session_lifetime_ms=60_000)


class Dialogue:
    """The client's protocol, and what a test lets the broker answer to its requests."""

    def __init__(self, login: Login | None, served: list[ApiVersion] = SERVED) -> None:
        self.protocol: ClientProtocol[str] = ClientProtocol("b:1", "me", OURS, login)
        self.sent: list[tuple[int, int, int]] = []  # API key, version, correlation id
        self.messages: list[bytes] = []
        self.note(self.protocol.start())
        self.answer(API_VERSIONS, 4, ApiVersionsResponse(api_keys=served))

    def note(self, chunks: list[bytes] | tuple[bytes, ...]) -> None:
        """What the client has sent."""
        data = b"".join(chunks)
        while data:
            size = int.from_bytes(data[:4], "big")
            frame, data = data[4 : 4 + size], data[4 + size :]
            head = parse_request_header(frame)
            self.sent.append((head.api_key, head.version, head.correlation_id))
            if head.api_key == SASL_AUTHENTICATE.key:
                request = decode(SASL_AUTHENTICATE.request, head.version, frame, head.body)
                assert isinstance(request, SaslAuthenticateRequest)
                self.messages.append(bytes(request.auth_bytes))

    def answer(self, api: Api, version: int, response: Message) -> list[object]:
        """The broker answers the oldest request. Returns the answers to callers, and Ready."""
        key, sent_version, correlation_id = self.sent.pop(0)
        assert (key, sent_version) == (api.key, version)
        events: list[object] = []
        for data in response_frame(api, version, correlation_id, response):
            for event in self.protocol.receive(bytes(data)):
                if isinstance(event, ResponseArrived):
                    events.append(event.caller)
                    continue
                assert isinstance(event, Send | Ready)
                self.note(event.chunks)
                if isinstance(event, Ready):
                    events.append(Ready)
        return events

    def log_in(self) -> list[object]:
        """The broker lets a login by PLAIN in."""
        assert self.answer(SASL_HANDSHAKE, 1, SaslHandshakeResponse(mechanisms=["PLAIN"])) == []
        return self.answer(SASL_AUTHENTICATE, 2, YES)

    def ask(self, caller: str) -> None:
        """The program sends a request."""
        self.note(self.protocol.send(DESCRIBE_CLUSTER, DescribeClusterRequest(), caller))


def plain() -> PlainLogin:
    return PlainLogin("user", "password")


def test_a_login_comes_after_the_versions_and_before_all_requests() -> None:
    dialogue = Dialogue(plain())
    with pytest.raises(NetworkException, match="not connected"):
        dialogue.ask("too early")
    assert dialogue.log_in() == [Ready]
    assert dialogue.messages == [b"\0user\0password"]
    assert dialogue.protocol.login_due_s == 51.0


@pytest.mark.parametrize(
    ("lifetime_ms", "due_s"),
    [(0, None), (-1, None), (1, 1.0), (2_000, 1.7), (2**63 - 1, 86_400.0)],
)
def test_when_a_login_is_done_anew(lifetime_ms: int, due_s: float | None) -> None:
    dialogue = Dialogue(plain())
    dialogue.answer(SASL_HANDSHAKE, 1, SaslHandshakeResponse(mechanisms=["PLAIN"]))
    yes = SaslAuthenticateResponse(session_lifetime_ms=lifetime_ms)
    assert dialogue.answer(SASL_AUTHENTICATE, 2, yes) == [Ready]
    assert dialogue.protocol.login_due_s == due_s


def test_requests_wait_for_a_login_anew_and_come_in_their_order() -> None:
    dialogue = Dialogue(plain())
    dialogue.log_in()
    dialogue.ask("before")
    dialogue.note(dialogue.protocol.log_in_again(plain()))
    dialogue.ask("during 1")
    dialogue.ask("during 2")
    assert [key for key, *_ in dialogue.sent] == [DESCRIBE_CLUSTER.key, SASL_HANDSHAKE.key]
    assert not dialogue.protocol.idle
    told = DescribeClusterResponse()
    assert dialogue.answer(DESCRIBE_CLUSTER, 1, told) == ["before"]
    assert dialogue.log_in() == [Ready]
    assert [key for key, *_ in dialogue.sent] == [DESCRIBE_CLUSTER.key] * 2
    dialogue.ask("after")
    for caller in ("during 1", "during 2", "after"):
        assert dialogue.answer(DESCRIBE_CLUSTER, 1, told) == [caller]
    assert dialogue.protocol.idle


def test_a_connection_that_ends_during_a_login_tells_all_that_wait() -> None:
    dialogue = Dialogue(plain())
    dialogue.log_in()
    dialogue.ask("before")
    dialogue.note(dialogue.protocol.log_in_again(plain()))
    dialogue.ask("during")
    assert dialogue.protocol.end() == ["before", "during"]
    assert dialogue.protocol.end() == []
    with pytest.raises(NetworkException):
        dialogue.protocol.log_in_again(plain())


def test_a_refusal_anew_has_its_reason() -> None:
    dialogue = Dialogue(plain())
    dialogue.log_in()
    dialogue.note(dialogue.protocol.log_in_again(plain()))
    dialogue.answer(SASL_HANDSHAKE, 1, SaslHandshakeResponse(mechanisms=["PLAIN"]))
    no = SaslAuthenticateResponse(error_code=58, error_message="no\nmore")
    with pytest.raises(SaslAuthenticationFailed, match=r"b:1 refused .* PLAIN: no\\nmore"):
        dialogue.answer(SASL_AUTHENTICATE, 2, no)


def test_a_token_that_is_refused_has_the_servers_words() -> None:
    dialogue = Dialogue(OAuthBearerLogin("token"))
    dialogue.answer(SASL_HANDSHAKE, 1, SaslHandshakeResponse(mechanisms=["OAUTHBEARER"]))
    why = SaslAuthenticateResponse(auth_bytes=b'{"status":"invalid_token"}')
    dialogue.answer(SASL_AUTHENTICATE, 2, why)
    assert dialogue.messages[1:] == [b"\x01"]
    with pytest.raises(SaslAuthenticationFailed, match="OAUTHBEARER: invalid_token"):
        dialogue.answer(SASL_AUTHENTICATE, 2, SaslAuthenticateResponse(error_code=58))


@pytest.mark.parametrize(
    ("response", "error", "why"),
    [
        (
            SaslHandshakeResponse(error_code=33, mechanisms=["SCRAM-SHA-512", "GSSAPI"]),
            UnsupportedSaslMechanism,
            "does not offer the SASL mechanism PLAIN: it offers GSSAPI, SCRAM-SHA-512",
        ),
        (SaslHandshakeResponse(error_code=33), UnsupportedSaslMechanism, "it offers none"),
        (SaslHandshakeResponse(error_code=34), IllegalSaslState, "takes no login by SASL"),
    ],
)
def test_a_mechanism_that_is_refused(response: Message, error: type[KafkaError], why: str) -> None:
    with pytest.raises(error, match=why):
        Dialogue(plain()).answer(SASL_HANDSHAKE, 1, response)


@pytest.mark.parametrize(
    ("missing", "error", "why"),
    [
        (SASL_HANDSHAKE, IllegalSaslState, "b:1 takes no login by SASL"),
        (SASL_AUTHENTICATE, UnsupportedVersion, "b:1 does not serve SaslAuthenticate"),
    ],
)
def test_a_broker_without_sasl(missing: Api, error: type[KafkaError], why: str) -> None:
    served = [one for one in SERVED if one.api_key != missing.key]
    with pytest.raises(error, match=why):
        Dialogue(plain(), served).log_in()


def test_a_login_that_does_not_end_is_given_up() -> None:
    class Endless(PlainLogin):
        def next(self, message: bytes) -> bytes:
            return message

    dialogue = Dialogue(Endless("user", "password"))
    dialogue.answer(SASL_HANDSHAKE, 1, SaslHandshakeResponse(mechanisms=["PLAIN"]))
    for _ in range(SASL_ROUNDS_MAX - 1):
        dialogue.answer(SASL_AUTHENTICATE, 2, YES)
    with pytest.raises(SaslAuthenticationFailed, match="does not end"):
        dialogue.answer(SASL_AUTHENTICATE, 2, YES)


def test_a_server_that_lies_in_scram_is_named() -> None:
    dialogue = Dialogue(ScramLogin(ScramMechanism.SHA_256, "user", "password", "nonce"))
    dialogue.answer(SASL_HANDSHAKE, 1, SaslHandshakeResponse(mechanisms=["SCRAM-SHA-256"]))
    lie = SaslAuthenticateResponse(auth_bytes=b"r=another,s=AAAA,i=4096")
    with pytest.raises(SaslAuthenticationFailed, match=r"b:1: .* nonce"):
        dialogue.answer(SASL_AUTHENTICATE, 2, lie)


def test_a_tls_server_is_known_by_its_alert() -> None:
    protocol: ClientProtocol[str] = ClientProtocol("b:1", "me", OURS)
    protocol.start()
    with pytest.raises(TlsFailed, match="b:1 speaks TLS, and this client does not"):
        list(protocol.receive(b"\x15\x03\x03\0\2\2\x50"))
    closed: ClientProtocol[str] = ClientProtocol("b:1", "me", OURS)
    closed.start()
    assert "if it is a TLS port, set security.protocol" in str(closed.lost())


def test_correlation_ids_are_used_once() -> None:
    dialogue = Dialogue(plain())
    dialogue.log_in()
    dialogue.note(dialogue.protocol.log_in_again(plain()))
    dialogue.ask("during")
    dialogue.log_in()
    dialogue.ask("after")
    ids = [correlation_id for *_, correlation_id in dialogue.sent]
    assert all(a < b for a, b in pairwise(ids))
