from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharegroup.model.config import (
    ConfigDef,
    ConfigEntry,
    ConfigSource,
    ConfigTable,
    ConfigType,
    ConfigValue,
    format_value,
    nearest_name,
)
from sharegroup.model.errors import InvalidConfig


def definition(kind: ConfigType, **more: object) -> ConfigDef:
    return ConfigDef(name="the.name", type=kind, default=None, doc="", **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (ConfigType.BOOLEAN, " TRUE ", True),
        (ConfigType.BOOLEAN, "false", False),
        (ConfigType.INT, "-7", -7),
        (ConfigType.INT, "+2147483647", 2_147_483_647),
        (ConfigType.LONG, "-9223372036854775808", -(2**63)),
        (ConfigType.DOUBLE, "0.5", 0.5),
        (ConfigType.STRING, " a b ", "a b"),
        (ConfigType.LIST, "a, b,c", ("a", "b", "c")),
        (ConfigType.LIST, "", ()),
        (ConfigType.PASSWORD, "secret", "secret"),
    ],
)
def test_parse(kind: ConfigType, text: str, value: ConfigValue) -> None:
    assert definition(kind).parse(text) == value


@pytest.mark.parametrize(
    ("kind", "text", "reason"),
    [
        (ConfigType.BOOLEAN, "yes", "Expected value to be either true or false"),
        (ConfigType.INT, "2147483648", "Not a number of type INT"),
        (ConfigType.INT, "1_000", "Not a number of type INT"),
        (ConfigType.INT, "", "Not a number of type INT"),
        (ConfigType.INT, "١", "Not a number of type INT"),
        (ConfigType.LONG, "9223372036854775808", "Not a number of type LONG"),
        (ConfigType.DOUBLE, "half", "Not a number of type DOUBLE"),
    ],
)
def test_invalid_values_are_refused_with_kafkas_messages(
    kind: ConfigType, text: str, reason: str
) -> None:
    with pytest.raises(InvalidConfig) as refused:
        definition(kind).parse(text)
    assert refused.value.message == f"Invalid value {text} for configuration the.name: {reason}"


def test_bounds_choices_and_checks() -> None:
    bounded = definition(ConfigType.INT, minimum=1, maximum=3)
    assert [bounded.parse(text) for text in "123"] == [1, 2, 3]
    with pytest.raises(InvalidConfig, match="Value must be at least 1"):
        bounded.parse("0")
    with pytest.raises(InvalidConfig, match="Value must be no more than 3"):
        bounded.parse("4")
    with pytest.raises(InvalidConfig, match="String must be one of: a, b"):
        definition(ConfigType.LIST, choices=("a", "b")).parse("a,c")
    checked = definition(ConfigType.STRING, check=lambda value: None if value else "it is empty")
    with pytest.raises(InvalidConfig, match="it is empty"):
        checked.parse("")


@given(
    st.one_of(
        st.tuples(st.just(ConfigType.BOOLEAN), st.booleans()),
        st.tuples(st.just(ConfigType.INT), st.integers(-(2**31), 2**31 - 1)),
        st.tuples(st.just(ConfigType.LONG), st.integers(-(2**63), 2**63 - 1)),
        st.tuples(st.just(ConfigType.DOUBLE), st.floats(allow_nan=False)),
        st.tuples(
            st.just(ConfigType.LIST),
            st.lists(st.text("abc.-", min_size=1), min_size=1).map(tuple),
        ),
    )
)
def test_formatted_values_parse_back(pair: tuple[ConfigType, ConfigValue]) -> None:
    kind, value = pair
    assert definition(kind).parse(format_value(value)) == value


def test_no_value_is_the_empty_string() -> None:
    assert format_value(None) == ""


def test_a_table_knows_old_names_and_refuses_a_name_twice() -> None:
    old = ConfigDef(name="new", type=ConfigType.INT, default=1, doc="", aliases=("old",))
    table = ConfigTable([old])
    assert (list(table), table.today("old"), table.today("new")) == (["new"], "new", None)
    with pytest.raises(AssertionError, match="old is defined twice"):
        ConfigTable([old, ConfigDef(name="old", type=ConfigType.INT, default=1, doc="")])


def test_nearest_name() -> None:
    known = ["num.partitions", "num.io.threads"]
    assert nearest_name("num.partition", known) == "num.partitions"
    assert nearest_name("colour", known) is None


def test_an_unset_entry_has_its_default() -> None:
    entry = ConfigEntry(
        name="n", value="1", source=ConfigSource.DEFAULT, type=ConfigType.INT, doc=""
    )
    assert entry.is_default
