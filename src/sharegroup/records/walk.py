"""The walk that is in use here: compiled, or Python's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sharegroup.records import compiled, pure
from sharegroup.records.walk_result import Walked

LIBRARY: Final = compiled.load()
"""The compiled walk, for code that fills arrays with it; None: Python's is in use."""
IS_COMPILED: Final = LIBRARY is not None
NAME: Final = "compiled" if IS_COMPILED else "pure Python"
"""For people: ``sharegroup --version`` says it."""

walk: Callable[..., Walked] = pure.walk if LIBRARY is None else compiled.walk_with(LIBRARY)
"""See :func:`sharegroup.records.pure.walk`."""
