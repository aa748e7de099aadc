"""Settings of listeners that do nothing are told of."""

from __future__ import annotations

import pytest

from sharegroup.app.listener_warnings import listener_warnings
from sharegroup.broker.configs.broker import load

TWO = "listeners=SASL_SSL://:9092,INNER://127.0.0.1:9093"
MAP = "listener.security.protocol.map=SASL_SSL:SASL_SSL,INNER:SSL"


def warnings(*settings: str) -> list[str]:
    config = load("", (TWO, MAP, *settings))
    return listener_warnings(config, config.listeners)


@pytest.mark.parametrize(
    ("setting", "warning"),
    [
        (
            "listener.name.outer.ssl.keystore.location=a.pem",
            (
                "listener.name.outer.ssl.keystore.location does nothing: no listener has the name "
                "outer, only inner, sasl_ssl"
            ),
        ),
        (
            "listener.name.INNER.ssl.client.auth=required",
            (
                "listener.name.INNER.ssl.client.auth does nothing: write "
                "listener.name.inner.ssl.client.auth"
            ),
        ),
        (
            "ssl.client.auth=required",
            (
                "ssl.client.auth does nothing for SASL_SSL, which speaks SASL_SSL; to ask its "
                "clients for a certificate too, write listener.name.sasl_ssl.ssl.client.auth"
            ),
        ),
    ],
)
def test_what_does_nothing(setting: str, warning: str) -> None:
    assert warnings(setting) == [warning]


@pytest.mark.parametrize(
    "setting",
    [
        "listener.name.inner.ssl.client.auth=required",
        "listener.name.sasl_ssl.ssl.client.auth=required",
        "ssl.keystore.location=a.pem",
    ],
)
def test_what_has_an_effect(setting: str) -> None:
    assert warnings(setting) == []


def test_users_who_cannot_log_in() -> None:
    assert warnings("sasl.users.file=users") == []
    config = load("", ["sasl.users.file=users"])
    assert listener_warnings(config, config.listeners) == [
        "users do nothing: no listener speaks SASL_SSL or SASL_PLAINTEXT (sasl.users.file)"
    ]
