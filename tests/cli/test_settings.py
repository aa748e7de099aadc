"""KEY=VALUE arguments, and which settings are a resource's own."""

from __future__ import annotations

import pytest

from sharegroup.cli.outcome import UsageError
from sharegroup.cli.settings import own_settings, parse_settings
from sharegroup.client.admin.descriptions import ConfigSetting


def test_settings() -> None:
    assert parse_settings(["a=1", " b = x=y ", "c="]) == {"a": "1", "b": "x=y", "c": ""}
    assert parse_settings([]) == {}


@pytest.mark.parametrize("pair", ["a", "", "=1", " =1"])
def test_invalid_pairs_are_refused(pair: str) -> None:
    with pytest.raises(UsageError, match="is not KEY=VALUE"):
        parse_settings([pair])


def test_inherited_settings_are_not_own() -> None:
    assert own_settings({str(source): setting(source) for source in range(9)}) == {
        "1": "value",
        "8": "value",
    }


def setting(source: int) -> ConfigSetting:
    return ConfigSetting(
        name="name",
        value="value",
        source=source,
        is_default=False,
        read_only=False,
        sensitive=False,
        documentation=None,
    )
