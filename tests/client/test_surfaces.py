"""The blocking clients have what those for asyncio have: names, arguments, defaults."""

from __future__ import annotations

import inspect

import pytest

from sharegroup import client, sync

CLIENTS = ["ShareConsumer", "Consumer", "Producer", "Admin"]


def surface(kind: type) -> dict[str, object]:
    """Public names, and what can be passed to those that are called."""
    found: dict[str, object] = {}
    for name, member in inspect.getmembers(kind):
        if name.startswith("_"):
            continue
        found[name] = None
        if inspect.isfunction(member):
            parameters = list(inspect.signature(member).parameters.values())[1:]
            found[name] = [(one.name, one.kind, one.default) for one in parameters]
    return found


@pytest.mark.parametrize("name", CLIENTS)
def test_both_clients_have_the_same_names(name: str) -> None:
    assert surface(getattr(sync, name)).keys() == surface(getattr(client, name)).keys()


@pytest.mark.parametrize("name", ["ShareConsumer", "Consumer"])
def test_methods_take_the_same_arguments(name: str) -> None:
    assert surface(getattr(sync, name)) == surface(getattr(client, name))


@pytest.mark.parametrize("name", CLIENTS)
def test_constructors_take_the_same_arguments(name: str) -> None:
    """All but connections to share, which belong to an event loop."""
    theirs = dict(inspect.signature(getattr(client, name)).parameters)
    theirs.pop("cluster")
    assert dict(inspect.signature(getattr(sync, name)).parameters) == theirs
