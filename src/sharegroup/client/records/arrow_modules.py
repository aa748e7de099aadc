"""Loads the modules that need Arrow, when Arrow is first asked for."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from sharegroup.model.errors import ConfigError


def arrow(name: str) -> ModuleType:
    """The module of this name, which needs Arrow.

    Raises:
        ConfigError: NumPy or PyArrow is missing.
    """
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"Arrow batches need {error.name}, which is not installed: "
            "pip install 'sharegroup[arrow]'"
        ) from error
