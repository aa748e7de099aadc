"""The server's SASL machines: the vectors of the RFCs, and what hostile clients send."""

from __future__ import annotations

import base64

import pytest

from sharegroup.sasl.scram_keys import (
    ScramCredential,
    ScramMechanism,
    client_key,
    credential,
    salt_password,
)
from sharegroup.sasl.server import (
    LoginRefused,
    ScramServer,
    parse_bearer,
    parse_plain,
    token_refusal,
)

SHA_256 = ScramMechanism.SHA_256
# RFC 7677, section 3
SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
CLIENT_NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
FIRST = f"n,,n=user,r={CLIENT_NONCE}".encode()
FINAL = (
    f"c=biws,r={CLIENT_NONCE}{SERVER_NONCE},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
).encode()


def kept(mechanism: ScramMechanism = SHA_256, password: str = "pencil") -> ScramCredential:
    return credential(mechanism, salt_password(mechanism, password, SALT, 4096), SALT, 4096)


def server(nonce: str = SERVER_NONCE) -> ScramServer:
    return ScramServer(SHA_256, lambda _: kept(), nonce)


def test_the_exchange_of_rfc_7677() -> None:
    machine = server()
    assert machine.first(FIRST) == (
        f"r={CLIENT_NONCE}{SERVER_NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode()
    )
    assert machine.final(FINAL) == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert machine.user == "user"


def test_names_are_escaped() -> None:
    machine = server()
    machine.first(b"n,a=a=2Cb=3Dc,n=a=2Cb=3Dc,r=x")
    assert machine.user == "a,b=c"


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"n=user,r=x",  # no GS2 header
        b"x,,n=user,r=x",
        b"p=tls-unique,,n=user,r=x",  # channel binding is not offered
        b"n,,n=user",
        b"n,,n=,r=x",
        b"n,,n=us=er,r=x",  # not escaped
        b"n,,n=user,r=",
        b"n,,n=user,r=a b",
        b"n,,r=x,n=user",
        b"n,,m=ext,n=user,r=x",
        b"n,,n=user,r=x,m=ext",
        b"n,,n=user,r=x,tokenauth=true",
        b"n,a=other,n=user,r=x",
        b"n,b=user,n=user,r=x",
        b"\xff,,n=user,r=x",
    ],
)
def test_first_messages_that_are_refused(first: bytes) -> None:
    with pytest.raises(LoginRefused):
        server().first(first)


def changed(old: bytes, new: bytes) -> bytes:
    assert old in FINAL
    return FINAL.replace(old, new)


@pytest.mark.parametrize(
    "final",
    [
        b"",
        b"c=biws,p=AAAA",
        changed(SERVER_NONCE.encode(), b""),  # truncated to the client's own part
        changed(SERVER_NONCE.encode(), SERVER_NONCE.encode() + b"x"),
        changed(CLIENT_NONCE.encode(), b"another"),
        changed(b"c=biws", b"c=eSws"),  # another GS2 header than in the first message
        changed(b"c=biws", b"c=!"),
        changed(b"p=dH", b"p=dI"),
        FINAL.partition(b",p=")[0],
        FINAL.partition(b",p=")[0] + b",p=",
        FINAL.partition(b",p=")[0] + b",p=" + base64.b64encode(bytes(31)),
        FINAL.partition(b",p=")[0] + b",p=" + base64.b64encode(bytes(33)),
    ],
)
def test_last_messages_that_are_refused(final: bytes) -> None:
    machine = server()
    machine.first(FIRST)
    with pytest.raises(LoginRefused):
        machine.final(final)


def test_a_recorded_exchange_proves_nothing_a_second_time() -> None:
    machine = server("another")
    machine.first(FIRST)
    with pytest.raises(LoginRefused, match="nonce of another exchange"):
        machine.final(FINAL)


@pytest.mark.parametrize("mechanism", list(ScramMechanism))
def test_both_mechanisms(mechanism: ScramMechanism) -> None:
    machine = ScramServer(mechanism, lambda _: kept(mechanism, "é"), "S")
    answer = machine.first(b"y,,n=user,r=C").decode()
    without_proof = "c=eSws,r=CS"
    seen = f"n=user,r=C,{answer},{without_proof}".encode()
    proof = proof_of(mechanism, "é", seen)
    assert machine.final(f"{without_proof},p={proof}".encode()).startswith(b"v=")


def proof_of(mechanism: ScramMechanism, password: str, seen: bytes) -> str:
    """By the formulas of RFC 5802, section 3."""
    import hashlib
    import hmac

    key = client_key(mechanism, salt_password(mechanism, password, SALT, 4096))
    stored = hashlib.new(mechanism.hash_name, key).digest()
    signature = hmac.digest(stored, seen, mechanism.hash_name)
    return base64.b64encode(bytes(a ^ b for a, b in zip(key, signature, strict=True))).decode()


def test_secrets_are_in_no_repr() -> None:
    assert "hunter2" not in repr(parse_plain(b"\0alice\0hunter2"))
    assert "abc.def" not in repr(parse_bearer(b"n,,\x01auth=Bearer abc.def\x01\x01"))


def test_plain() -> None:
    claimed = parse_plain("\0älice\0pässword".encode())
    assert (claimed.user, claimed.password) == ("älice", "pässword")
    assert parse_plain(b"alice\0alice\0x").user == "alice"


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"alice",
        b"\0alice",
        b"\0\0x",
        b"\0alice\0",
        b"bob\0alice\0x",
        b"\0a\0b\0c",
        b"\0\xff\0x",
    ],
)
def test_plain_messages_that_are_refused(message: bytes) -> None:
    with pytest.raises(LoginRefused):
        parse_plain(message)


def test_bearer() -> None:
    shown = parse_bearer(b"n,a=alice,\x01auth=Bearer a.b-c_d\x01traceId=1\x01\x01")
    assert (shown.token, shown.authorization_id) == ("a.b-c_d", "alice")
    assert parse_bearer(b"n,,\x01auth=bearer x\x01\x01").token == "x"
    assert token_refusal() == b'{"status":"invalid_token"}'
    assert b"insufficient_scope" in token_refusal("read")


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x01",
        b"n,,\x01\x01",
        b"n,,\x01auth=Basic x\x01\x01",
        b"n,,\x01auth=Bearer \x01\x01",
        b"n,,\x01auth=Bearer x y\x01\x01",
        b"p=tls-unique,,\x01auth=Bearer x\x01\x01",
        b"n,,auth=Bearer x\x01\x01",
        b"n,,\x01auth=Bearer x\x01",
        b"\xffn,,\x01auth=Bearer x\x01\x01",
    ],
)
def test_bearer_messages_that_are_refused(message: bytes) -> None:
    with pytest.raises(LoginRefused):
        parse_bearer(message)


def test_a_long_name_is_cut_in_the_log() -> None:
    machine = ScramServer(SHA_256, lambda _: kept(), "S")
    machine.first(b"n,,n=" + b"u" * 10_000 + b",r=C")
    with pytest.raises(LoginRefused) as refused:
        machine.final(b"c=biws,r=CS,p=" + base64.b64encode(bytes(32)))
    assert len(str(refused.value)) < 200
