"""``help()`` and editors that ask at run time see each setting of a client with its default."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import sharegroup
import sharegroup.sync

CLIENTS = [
    getattr(module, name)
    for module in (sharegroup, sharegroup.sync)
    for name in ("Consumer", "Producer", "ShareConsumer")
]


@pytest.mark.parametrize("client", CLIENTS, ids=[f"{c.__module__}.{c.__name__}" for c in CLIENTS])
def test_settings_are_shown_with_their_defaults(client: Any) -> None:
    shown = inspect.signature(client).parameters
    assert shown["client_id"].default == "sharegroup"
    assert shown["bootstrap_servers"].default == "127.0.0.1:9092"
    assert not [p for p in shown.values() if p.kind is p.VAR_KEYWORD]


@pytest.mark.parametrize("client", CLIENTS, ids=[f"{c.__module__}.{c.__name__}" for c in CLIENTS])
def test_a_setting_that_is_not_known_is_named_with_the_nearest_one(client: Any) -> None:
    arguments = {"group_id": "g"} if client.__name__ == "ShareConsumer" else {}
    wanted = (
        r"__init__\(\) got an unexpected keyword argument 'client_ids'. Did you mean 'client_id'"
    )
    with pytest.raises(TypeError, match=wanted):
        client(client_ids="x", **arguments)
