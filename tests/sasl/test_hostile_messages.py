"""Whatever a server sends in a login, the client ends with one kind of error or goes on."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharegroup.model.errors import SaslAuthenticationFailed
from sharegroup.sasl.client import Login, OAuthBearerLogin, PlainLogin, ScramLogin
from sharegroup.sasl.scram_keys import ScramMechanism

LOGINS: list[Callable[[], Login]] = [
    lambda: PlainLogin("user", "password"),
    lambda: ScramLogin(ScramMechanism.SHA_256, "user", "password", "nonce"),
    lambda: ScramLogin(ScramMechanism.SHA_512, "user", "password", "nonce"),
    lambda: OAuthBearerLogin("token"),
]
PIECES = st.sampled_from(
    ["r=nonce", "x", ",", "s=", "QUFBQQ==", "i=4096", "v=", "e=", "=", "{", '"status":', "\x01"]
)
MESSAGES = st.one_of(st.binary(max_size=64), st.lists(PIECES).map(lambda p: "".join(p).encode()))


@pytest.mark.parametrize("new", LOGINS)
@given(messages=st.lists(MESSAGES, max_size=4))
def test_any_messages(new: Callable[[], Login], messages: list[bytes]) -> None:
    login = new()
    login.first()
    said = ""
    try:
        for message in messages:
            login.next(message)
    except SaslAuthenticationFailed as error:
        said = str(error)
    assert "password" not in said.replace("this user's password", "")
    if login.mechanism.startswith("SCRAM"):
        assert not login.done  # nobody here knows the password
