"""sasl.jaas.config: any option comes back as it was written, any other text is one sentence."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharegroup.model.errors import ConfigError
from sharegroup.sasl.login_module import parse_jaas

VALUES = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(st.dictionaries(st.from_regex(r"[a-zA-Z_]\w*", fullmatch=True), VALUES, max_size=4))
def test_options_come_back(options: dict[str, str]) -> None:
    written = " ".join(
        f'{name}="{value.replace(chr(92), chr(92) * 2).replace(chr(34), chr(92) + chr(34))}"'
        for name, value in options.items()
    )
    module = parse_jaas(f"a.b.PlainLoginModule required\n {written};")
    assert module.name == "PlainLoginModule"
    assert module.options == options
    assert not any(value in repr(module) for value in options.values() if len(value) > 16)


@given(st.text(max_size=60))
def test_any_text_is_a_module_or_a_sentence(text: str) -> None:
    said = "sasl.jaas.config is not a login module"
    try:
        parse_jaas(text)
    except ConfigError as error:
        said = str(error)
    assert said.startswith("sasl.jaas.config is not a login module")


@pytest.mark.parametrize(
    ("written", "password"),
    [
        ('"password"="p"', "p"),
        ("password = 'p'", "p"),
        ("password=p", "p"),
        ("/* of\nbob */ password=p // his", "p"),
        ('// his\n password = "a // b /* c */"', "a // b /* c */"),
        (r'password="\101\0601\7\n\v\\101\q"', "A01\a\n\v\\101q"),
        ('password="a=b;c\'d"', "a=b;c'd"),
        ('password="пароль\u2003"', "пароль\u2003"),
    ],
)
def test_it_is_read_as_java_reads_it(written: str, password: str) -> None:
    module = parse_jaas(f"  a.b.PlainLoginModule\n\tREQUIRED username=u {written}\n;\n")
    assert module.options == {"username": "u", "password": password}
