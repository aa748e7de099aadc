"""The settings of a consumer: each is explained once, with the default that it has."""

from __future__ import annotations

import ast
import inspect
import re
from dataclasses import fields
from typing import Any

import pytest

from sharegroup import client, sync
from sharegroup.client.group.settings import CheckedConsumerSettings, ConsumerSettings

DEFAULTS = {one.name: one.default for one in fields(CheckedConsumerSettings)}


def explained() -> dict[str, str]:
    """Setting → the text below it."""
    (body,) = ast.parse(inspect.getsource(ConsumerSettings)).body
    assert isinstance(body, ast.ClassDef)
    found: dict[str, str] = {}
    for setting, text in zip(body.body, body.body[1:], strict=False):
        if isinstance(setting, ast.AnnAssign) and isinstance(setting.target, ast.Name):
            assert isinstance(text, ast.Expr)
            found[setting.target.id] = " ".join(str(ast.literal_eval(text.value)).split())
    return found


def test_each_setting_is_explained_with_its_default() -> None:
    texts = explained()
    assert list(texts) == list(DEFAULTS)
    defaults = {name: re.search(r" Default: (.+)\.$", text) for name, text in texts.items()}
    said = {name: each and ast.literal_eval(each[1]) for name, each in defaults.items()}
    assert said == DEFAULTS


@pytest.mark.parametrize("kind", [client.Consumer, sync.Consumer])
def test_a_setting_that_there_is_not(kind: Any) -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'grop_id'"):
        kind("orders", grop_id="billing")
