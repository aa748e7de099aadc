"""Bootstrap servers as people write them."""

from __future__ import annotations

import pytest

from sharegroup.client.network.addresses import Address, parse_addresses
from sharegroup.model.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("a:1", [Address("a", 1)]),
        ("a", [Address("a", 9092)]),
        (" a:1 , b:2,", [Address("a", 1), Address("b", 2)]),
        (["a:1", "b"], [Address("a", 1), Address("b", 9092)]),
        ("[::1]:5", [Address("::1", 5)]),
        ("[::1]", [Address("::1", 9092)]),
        ("::1", [Address("::1", 9092)]),
        ("SASL_SSL://a:1,PLAINTEXT://[::1]:5", [Address("a", 1), Address("::1", 5)]),
        ("bücher.example:1", [Address("bücher.example", 1)]),
    ],
)
def test_parse(text: str | list[str], addresses: list[Address]) -> None:
    assert parse_addresses(text) == addresses


@pytest.mark.parametrize(
    "text",
    [
        "",
        " , ",
        "a:b",
        "a:0",
        "a:70000",
        ":1",
        "a..b:1",
        ".a:1",
        f"{'a' * 64}.b:1",
        "a:1 b:2",
        "a:1;b:2",
        "u@a:1",
    ],
)
def test_invalid_addresses_are_quoted_in_the_error(text: str) -> None:
    with pytest.raises(ConfigError, match="bootstrap_servers"):
        parse_addresses(text)


def test_text_of_an_address() -> None:
    assert str(Address("::1", 5)) == "[::1]:5"
    assert str(Address("a", 5)) == "a:5"
