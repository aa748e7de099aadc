"""The settings of a share consumer stand once: names and words for programs, defaults for us."""

from __future__ import annotations

import ast
import inspect
from dataclasses import fields
from itertools import pairwise

import pytest

from sharegroup import ShareConsumer, sync
from sharegroup.client.share import settings
from sharegroup.client.share.settings import ShareConsumerSettings, ShareSettings
from sharegroup.model.errors import ConfigError

DEFAULTS = {one.name: one.default for one in fields(ShareSettings) if one.name != "group_id"}


def explained() -> dict[str, str]:
    """Each key of the ``TypedDict``, and the docstring under it."""
    tree = ast.parse(inspect.getsource(settings))
    [body] = [
        node.body
        for node in tree.body
        if isinstance(node, ast.ClassDef) and node.name == "ShareConsumerSettings"
    ]
    found = {}
    for key, text in pairwise(body):
        if isinstance(key, ast.AnnAssign) and isinstance(key.target, ast.Name):
            assert isinstance(text, ast.Expr)
            assert isinstance(text.value, ast.Constant)
            found[key.target.id] = " ".join(str(text.value.value).split())
    return found


def test_each_setting_has_a_default_and_words_that_name_it() -> None:
    assert list(ShareConsumerSettings.__annotations__) == list(DEFAULTS)
    words = explained()
    assert list(words) == list(DEFAULTS)
    for name, default in DEFAULTS.items():
        _, _, said = words[name].partition("Default: ``")
        assert ast.literal_eval(said.partition("``")[0]) == default, name


@pytest.mark.parametrize("kind", [ShareConsumer, sync.ShareConsumer])
@pytest.mark.parametrize(
    ("wrong", "hint"), [("max_poll_record", ". Did you mean 'max_poll_records'"), ("zzz", "$")]
)
def test_a_wrong_name_is_refused(kind: type, wrong: str, hint: str) -> None:
    with pytest.raises(TypeError, match=f"unexpected keyword argument '{wrong}'{hint}"):
        kind("jobs", group_id="workers", **{wrong: 1})


def test_the_group_must_be_named() -> None:
    with pytest.raises(TypeError, match="group_id"):
        ShareConsumer("jobs")  # type: ignore[call-arg]
    with pytest.raises(ConfigError, match="group_id is empty"):
        ShareConsumer("jobs", group_id="")
