"""Constructors that take ``**settings`` show them, with their defaults, to ``help()`` and to
:func:`inspect.signature`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, fields
from inspect import Parameter, signature
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., None])


def shows(settings: Any) -> Callable[[F], F]:
    """Decorate an ``__init__``: its ``**settings`` are shown as the fields of this dataclass, which
    holds their defaults. Calls are not touched."""

    def decorate(init: F) -> F:
        found = signature(init)
        own = [p for p in found.parameters.values() if p.kind is not Parameter.VAR_KEYWORD]
        shown = [
            Parameter(
                one.name,
                Parameter.KEYWORD_ONLY,
                default=Parameter.empty if one.default is MISSING else one.default,
                annotation=one.type,
            )
            for one in fields(settings)
            if one.name not in found.parameters
        ]
        init.__signature__ = found.replace(parameters=[*own, *shown])  # type: ignore[attr-defined]
        return init

    return decorate
