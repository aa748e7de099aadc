"""What may be open to other machines, and what may not."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from sharegroup.app.addresses import listeners
from sharegroup.app.open_listeners import check_alterations, check_exposure
from sharegroup.broker.configs.broker import load
from sharegroup.broker.configs.listeners import Listener
from sharegroup.broker.server import Broker
from sharegroup.model.errors import ConfigError, InvalidConfig
from tests.broker.running import run

TRUST = "ssl.truststore.location=ca.pem"
NAMED = "listener.security.protocol.map=OUTER:{},PLAINTEXT:PLAINTEXT"


def check(
    *settings: str,
    listen: str | None = None,
    metrics: tuple[str, int] | None = None,
    insecure: bool = False,
) -> None:
    config = load("", settings)
    opened = listeners(listen, config)
    check_exposure(config.listening(opened), opened, metrics, insecure=insecure)


@pytest.mark.parametrize(
    "settings",
    [
        (),
        ("listeners=PLAINTEXT://127.0.0.1:9092",),
        ("listeners=PLAINTEXT://localhost:9092",),
        ("listeners=PLAINTEXT://[::1]:9092",),
        ("listeners=PLAINTEXT://127.3.2.1:9092",),
        ("listeners=SASL_SSL://:9092",),
        ("listeners=SASL_PLAINTEXT://0.0.0.0:9092",),
        ("listeners=SSL://:9092", "ssl.client.auth=required", TRUST),
        ("listeners=SSL://:9092", "listener.name.ssl.ssl.client.auth=required", TRUST),
        ("listeners=OUTER://:9092", NAMED.format("SASL_SSL")),
        ("listeners=SASL_SSL://:9092,PLAINTEXT://127.0.0.1:9093",),
    ],
)
def test_what_may_be_open(settings: tuple[str, ...]) -> None:
    check(*settings, metrics=("127.0.0.1", 9404))


@pytest.mark.parametrize(
    "settings",
    [
        ("listeners=PLAINTEXT://:9092",),
        ("listeners=PLAINTEXT://0.0.0.0:9092",),
        ("listeners=PLAINTEXT://[::]:9092",),
        ("listeners=PLAINTEXT://10.0.0.5:9092",),
        ("listeners=PLAINTEXT://broker.example.org:9092",),
        ("listeners=SSL://:9092",),
        ("listeners=SSL://:9092", "ssl.client.auth=requested"),
        (
            "listeners=SSL://:9092",
            "ssl.client.auth=required",
            "listener.name.ssl.ssl.client.auth=none",
        ),
        ("listeners=OUTER://:9092", NAMED.format("PLAINTEXT")),
        ("listeners=SASL_SSL://:9092,PLAINTEXT://:9093",),
    ],
)
def test_what_may_not_be_open(settings: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError) as refused:
        check(*settings)
    sentence = str(refused.value)
    for way_out in ("SASL_SSL://", "127.0.0.1", "--insecure"):
        assert way_out in sentence
    check(*settings, insecure=True)


def test_the_sentence_has_an_address_that_can_be_used() -> None:
    with pytest.raises(ConfigError, match=r"--listen SASL_SSL://\[::\]:9092 "):
        check("listeners=PLAINTEXT://[::]:9092")


def test_the_address_of_the_command_line_counts() -> None:
    with pytest.raises(ConfigError, match="--insecure"):
        check(listen="0.0.0.0:9092")
    with pytest.raises(ConfigError, match="--insecure"):
        check("listeners=SASL_SSL://:9092", listen="PLAINTEXT://:9092")
    check("listeners=PLAINTEXT://:9092", listen="127.0.0.1:9092")
    check(listen="sasl_ssl://0.0.0.0:9092")


def test_metrics() -> None:
    with pytest.raises(ConfigError, match=r"^metrics on 0\.0\.0\.0:9404 .* --insecure"):
        check(metrics=("0.0.0.0", 9404))
    check(metrics=("0.0.0.0", 9404), insecure=True)


def test_passwords_in_clear_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    check("listeners=SASL_PLAINTEXT://:9092")
    assert not caplog.text  # SCRAM does not send passwords
    check("listeners=SASL_PLAINTEXT://:9092", "sasl.enabled.mechanisms=PLAIN")
    assert "unencrypted" in caplog.text


def test_certificates_of_public_authorities_prove_nothing() -> None:
    settings = ("listeners=SSL://:9092", "ssl.client.auth=required")
    with pytest.raises(ConfigError, match=r"public authority: set ssl\.truststore\.location"):
        check(*settings)
    check(*settings, insecure=True)
    check(*settings, listen="SSL://127.0.0.1:9092")


def test_a_listener_cannot_be_opened_while_the_broker_runs(tmp_path: Path) -> None:
    """Nor by what an earlier start has kept."""
    opened = {"listener.name.ssl.ssl.client.auth": "none"}

    async def scenario(broker: Broker, _port: int) -> None:
        reached = [Listener("SSL", "0.0.0.0", 9093)]
        secured = load("", ["listeners=SSL://:9093", "ssl.client.auth=required", TRUST])
        broker.parts.configs.broker = secured
        check_alterations(broker, reached)
        with pytest.raises(InvalidConfig, match="would let in whoever reaches it"):
            broker.parts.configs.set_broker(opened, validate_only=False)
        with pytest.raises(InvalidConfig, match="public authority"):
            broker.parts.configs.set_broker({"ssl.truststore.location": ""}, validate_only=True)
        broker.parts.configs.set_broker({"max.connections": "9"}, validate_only=False)
        broker.parts.configs.broker = secured.altered(opened)
        with pytest.raises(ConfigError, match="would let in whoever reaches it"):
            check_alterations(broker, reached)

    run(tmp_path, scenario)
