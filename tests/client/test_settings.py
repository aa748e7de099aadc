"""The settings of a client stand once: names and words for programs, defaults for us."""

from __future__ import annotations

import ast
import inspect
import re
from dataclasses import MISSING, fields
from datetime import timedelta
from typing import Any

import numpy as np
import pytest

from sharegroup import client, sync
from sharegroup.client.core.setting_checks import check_kind
from sharegroup.client.group.settings import CheckedConsumerSettings, ConsumerSettings
from sharegroup.client.producer.settings import CheckedProducerSettings, ProducerSettings
from sharegroup.client.share.settings import CheckedShareConsumerSettings, ShareConsumerSettings
from sharegroup.model.errors import ConfigError


def explained(settings: type) -> dict[str, str]:
    """Setting → the text below it."""
    (body,) = ast.parse(inspect.getsource(settings)).body
    assert isinstance(body, ast.ClassDef)
    found: dict[str, str] = {}
    for setting, text in zip(body.body, body.body[1:], strict=False):
        if isinstance(setting, ast.AnnAssign) and isinstance(setting.target, ast.Name):
            assert isinstance(text, ast.Expr)
            found[setting.target.id] = " ".join(str(ast.literal_eval(text.value)).split())
    return found


def said(text: str) -> str | None:
    """The default that the text of a setting names at its end, with or without a remark."""
    found = re.search(r" Default: (?:``(.+?)``.*|(.+))\.$", text)
    return found and (found[1] or found[2])


def shown(default: object) -> str:
    """The default, as a text says it: a number with its underscores, a function by its name."""
    if isinstance(default, int) and not isinstance(default, bool):
        return f"{default:_}"
    return str(getattr(default, "__name__", repr(default)))


@pytest.mark.parametrize(
    ("given", "checked"),
    [
        (ConsumerSettings, CheckedConsumerSettings),
        (ProducerSettings, CheckedProducerSettings),
        (ShareConsumerSettings, CheckedShareConsumerSettings),
    ],
)
def test_each_setting_is_explained_with_its_default(given: Any, checked: Any) -> None:
    defaults = {one.name: one.default for one in fields(checked) if one.default is not MISSING}
    texts = explained(given)
    assert list(texts) == list(defaults) == list(given.__annotations__)
    assert {name: said(text) for name, text in texts.items()} == {
        name: shown(default) for name, default in defaults.items()
    }


@pytest.mark.parametrize("module", [client, sync])
@pytest.mark.parametrize(
    ("name", "wrong", "near"),
    [
        ("Consumer", "grop_id", "group_id"),
        ("Producer", "acs", "acks"),
        ("ShareConsumer", "max_poll_record", "max_poll_records"),
    ],
)
def test_a_wrong_name_is_refused(module: Any, name: str, wrong: str, near: str) -> None:
    kind = getattr(module, name)
    needed = {"group_id": "workers"} if name == "ShareConsumer" else {}
    refused = rf"unexpected keyword argument '{wrong}'\. Did you mean '{near}'"
    with pytest.raises(TypeError, match=refused):
        kind(**needed, **{wrong: 1})
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'zzz'$"):
        kind(**needed, zzz=1)


NUMBER = "write an int, such as 1000"


@pytest.mark.parametrize("module", [client, sync])
@pytest.mark.parametrize(
    ("name", "setting", "value", "words"),
    [
        ("Producer", "request_timeout_ms", "30000", NUMBER),
        ("Producer", "batch_size", "16384", NUMBER),
        ("Producer", "batch_size", 16384.0, NUMBER),
        ("Producer", "linger_ms", timedelta(seconds=1), NUMBER),
        ("Producer", "delivery_timeout_ms", True, NUMBER),
        ("Producer", "transactional_id", 5, "write a str or None"),
        ("Producer", "enable_idempotence", "false", "write True or False"),
        ("Producer", "compression", ["gzip"], "write a str"),
        ("ShareConsumer", "max_poll_records", "100", NUMBER),
        ("ShareConsumer", "max_poll_records", 10.0, NUMBER),
        ("ShareConsumer", "client_rack", 5, "write a str or None"),
        ("ShareConsumer", "group_id", None, "write a str"),
        ("Consumer", "max_poll_records", "100", NUMBER),
        ("Consumer", "session_timeout_ms", None, NUMBER),
        ("Consumer", "client_id", None, "write a str"),
        ("Admin", "request_timeout_ms", "30000", NUMBER),
        ("Admin", "client_id", b"admin", "write a str"),
    ],
)
def test_a_setting_of_the_wrong_kind_is_named(
    module: Any, name: str, setting: str, value: Any, words: str
) -> None:
    """It was found only where it was used: a producer waited for ever."""
    needed = {"group_id": "workers"} if name == "ShareConsumer" else {}
    with pytest.raises(ConfigError) as refused:
        getattr(module, name)(**{**needed, setting: value})
    assert str(refused.value) == f"{setting} is {value!r}: {words}"


def test_what_counts_as_a_number() -> None:
    """NumPy's integers do, and numbers as switches."""
    check_kind("max_poll_records", np.int64(5), "int")
    check_kind("renew_locks", 1, "bool")


def test_the_group_of_a_share_consumer_must_be_named() -> None:
    with pytest.raises(TypeError, match="group_id"):
        client.ShareConsumer("jobs")  # type: ignore[call-arg]
    with pytest.raises(ConfigError, match="group_id is empty"):
        client.ShareConsumer("jobs", group_id="")
