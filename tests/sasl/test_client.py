"""The client's logins: the vectors of the RFCs, and servers that lie."""

from __future__ import annotations

import base64

import pytest

from sharegroup.model.errors import SaslAuthenticationFailed
from sharegroup.model.limits import SCRAM_CLIENT_ITERATIONS_MAX, SCRAM_MESSAGE_BYTES_MAX
from sharegroup.sasl.client import OAuthBearerLogin, PlainLogin, ScramLogin
from sharegroup.sasl.scram_keys import ITERATIONS_MIN, ScramMechanism

# RFC 7677, section 3.
NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
SALT = "W22ZaJ0SNY7soEsUEjb6gQ=="
SERVER_FIRST = f"r={NONCE}{SERVER_NONCE},s={SALT},i=4096"
PROOF = "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
VERIFIER = "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def scram(password: str = "pencil") -> ScramLogin:
    return ScramLogin(ScramMechanism.SHA_256, "user", password, NONCE)


def test_plain_is_user_and_password() -> None:
    login = PlainLogin("tim", "tänstaaf")
    assert login.first() == b"\0tim\0t\xc3\xa4nstaaf"
    assert login.next(b"") == b""
    assert login.done


def test_scram_is_what_the_rfc_says() -> None:
    login = scram()
    assert login.first() == f"n,,n=user,r={NONCE}".encode()
    answer = login.next(SERVER_FIRST.encode())
    assert answer == f"c=biws,r={NONCE}{SERVER_NONCE},p={PROOF}".encode()
    assert not login.done
    assert login.next(f"v={VERIFIER}".encode()) == b""
    assert login.done


def test_a_name_with_signs_of_the_grammar_is_escaped() -> None:
    login = ScramLogin(ScramMechanism.SHA_512, "a=b,c", "pencil", NONCE)
    assert login.mechanism == "SCRAM-SHA-512"
    assert login.first() == f"n,,n=a=3Db=2Cc,r={NONCE}".encode()


def test_a_server_that_does_not_know_the_password_is_not_believed() -> None:
    login = scram()
    login.first()
    login.next(SERVER_FIRST.encode())
    wrong = base64.b64encode(bytes(32)).decode()
    with pytest.raises(SaslAuthenticationFailed, match="does not know this user's password"):
        login.next(f"v={wrong}".encode())
    assert not login.done


def test_a_servers_reason_is_told_without_control_characters() -> None:
    login = scram()
    login.next(SERVER_FIRST.encode())
    with pytest.raises(SaslAuthenticationFailed, match=r"refuses: invalid-proof\\x1b"):
        login.next(b"e=invalid-proof\x1b")


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (b"", "missing"),
        (b"r=x", "missing"),
        (b"m=ext," + SERVER_FIRST.encode(), "'r' is missing"),
        (f"r={NONCE},s={SALT},i=4096".encode(), "nonce"),
        (f"r=x{NONCE}{SERVER_NONCE},s={SALT},i=4096".encode(), "nonce"),
        (f"r={NONCE[:-1]},s={SALT},i=4096".encode(), "nonce"),
        (f"r={NONCE}x,s=,i=4096".encode(), "empty"),
        (f"r={NONCE}x,s=!!!!,i=4096".encode(), "base64"),
        (f"r={NONCE}x,s={SALT},i=".encode(), "not a number"),
        (f"r={NONCE}x,s={SALT},i=-1".encode(), "not a number"),
        (f"r={NONCE}x,s={SALT},i=4096.0".encode(), "not a number"),
        (f"r={NONCE}x,s={SALT},i={ITERATIONS_MIN - 1}".encode(), "iterations"),
        (f"r={NONCE}x,s={SALT},i={SCRAM_CLIENT_ITERATIONS_MAX + 1}".encode(), "iterations"),
        (f"r={NONCE}x,s={SALT},i=99999999999".encode(), "not a number"),
        (b"\xff\xfe", "not text"),
        (b"r" * (SCRAM_MESSAGE_BYTES_MAX + 1), "bytes long"),
    ],
)
def test_a_bad_challenge_ends_the_login(message: bytes, why: str) -> None:
    login = scram("a secret of mine")
    login.first()
    with pytest.raises(SaslAuthenticationFailed, match=why) as caught:
        login.next(message)
    assert "a secret of mine" not in str(caught.value)
    assert not login.done


@pytest.mark.parametrize("iterations", [ITERATIONS_MIN, SCRAM_CLIENT_ITERATIONS_MAX])
def test_iterations_within_the_bounds_are_done(iterations: int) -> None:
    login = scram()
    assert login.next(f"r={NONCE}x,s={SALT},i={iterations}".encode()).startswith(b"c=biws,")


def test_a_token_goes_as_the_rfc_says_and_nothing_more_is_needed() -> None:
    login = OAuthBearerLogin("vF9dft4qmT", {"logicalCluster": "lkc-1", "identityPoolId": "pool"})
    assert login.first() == (
        b"n,,\x01auth=Bearer vF9dft4qmT\x01logicalCluster=lkc-1\x01identityPoolId=pool\x01\x01"
    )
    assert login.next(b"") == b""
    assert login.done


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b'{"status":"invalid_token","scope":"kafka"}', "invalid_token, scope kafka"),
        (b'{"status":"insufficient_scope"}', "insufficient_scope"),
        (b"no JSON\n", r"no JSON\n"),
        (b"[]", "[]"),
    ],
)
def test_a_refusal_is_answered_by_one_byte_and_remembered(message: bytes, reason: str) -> None:
    login = OAuthBearerLogin("vF9dft4qmT")
    login.first()
    assert login.next(message) == b"\x01"
    assert not login.done
    assert login.refusal == reason
    with pytest.raises(SaslAuthenticationFailed):
        login.next(message)
