from __future__ import annotations

import pytest

from sharegroup.broker.configs.listeners import Listener, parse_listeners, parse_protocols
from sharegroup.model.errors import InvalidConfig


def test_endpoints() -> None:
    texts = ["PLAINTEXT://:9092", "inner://[::1]:0", "CONTROLLER://localhost:9093"]
    found = parse_listeners("listeners", texts, ["controller"])
    assert found == [Listener("PLAINTEXT", "", 9092), Listener("INNER", "::1", 0)]
    assert [str(listener) for listener in found] == ["PLAINTEXT://:9092", "INNER://[::1]:0"]


@pytest.mark.parametrize(
    "text", ["localhost:9092", "PLAINTEXT://host", "PLAINTEXT://host:99999", "PLAINTEXT://::1:9092"]
)
def test_invalid_endpoints(text: str) -> None:
    with pytest.raises(InvalidConfig, match="is not PLAINTEXT://HOST:PORT"):
        parse_listeners("listeners", [text], [])


def test_a_name_twice() -> None:
    with pytest.raises(InvalidConfig, match="A occurs twice"):
        parse_listeners("listeners", ["A://x:1", "a://y:2"], [])


def test_protocols() -> None:
    assert parse_protocols(["a:plaintext", "B:SSL"]) == {"A": "PLAINTEXT", "B": "SSL"}
    with pytest.raises(InvalidConfig, match="is not NAME:PROTOCOL"):
        parse_protocols(["A"])
