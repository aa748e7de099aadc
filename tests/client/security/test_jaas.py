"""sasl.jaas.config: any option comes back as it was written, any other text is one sentence."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sharegroup.client.security.jaas import parse_jaas
from sharegroup.model.errors import ConfigError

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
