"""The settings of a producer: each is explained once, with the default that it has."""

from __future__ import annotations

import ast
import inspect
import re
from dataclasses import fields
from typing import Any

import pytest

from sharegroup import client, sync
from sharegroup.client.producer.settings import CheckedProducerSettings, ProducerSettings

DEFAULTS = {one.name: one.default for one in fields(CheckedProducerSettings)}


def explained() -> dict[str, str]:
    """Setting → the text below it."""
    (body,) = ast.parse(inspect.getsource(ProducerSettings)).body
    assert isinstance(body, ast.ClassDef)
    found: dict[str, str] = {}
    for setting, text in zip(body.body, body.body[1:], strict=False):
        if isinstance(setting, ast.AnnAssign) and isinstance(setting.target, ast.Name):
            assert isinstance(text, ast.Expr)
            found[setting.target.id] = " ".join(str(ast.literal_eval(text.value)).split())
    return found


def shown(default: object) -> str:
    """The default, as a text says it: a number with its underscores, a function by its name."""
    if isinstance(default, int) and not isinstance(default, bool):
        return f"{default:_}"
    return str(getattr(default, "__name__", repr(default)))


def test_each_setting_is_explained_with_its_default() -> None:
    texts = explained()
    assert list(texts) == list(DEFAULTS) == list(ProducerSettings.__annotations__)
    said = {name: re.search(r" Default: (.+)\.$", text) for name, text in texts.items()}
    assert {name: found and found[1] for name, found in said.items()} == {
        name: shown(default) for name, default in DEFAULTS.items()
    }


@pytest.mark.parametrize("kind", [client.Producer, sync.Producer])
def test_a_setting_that_there_is_not(kind: Any) -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'acs'"):
        kind("127.0.0.1:1", acs=1)
