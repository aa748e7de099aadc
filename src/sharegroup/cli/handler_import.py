"""A user's function by its name, ``MODULE:FUNCTION``: the handler of ``sharegroup work``, or a
decoder of values."""

from __future__ import annotations

import difflib
import importlib
import inspect
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import PurePath
from types import ModuleType, TracebackType
from typing import Any, Final

from sharegroup.cli.outcome import UsageError

_HOW: Final = "write MODULE:FUNCTION, such as jobs:resize for the function resize in jobs.py"
_IMPORTERS: Final = (__file__, importlib.__file__)


def import_handler(name: str, kind: str = "handler", of: str = "record") -> Callable[[Any], Any]:
    """The function of one argument that ``name`` names. The current directory is on the path.

    Args:
        kind, of: what the function is, and what its argument is, for people.

    Raises:
        UsageError: there is no such module or function, it cannot be imported, or it does not take
            one argument. If the module raised, the traceback is on stderr.
    """
    module_name, colon, path = name.partition(":")
    if not colon or not module_name or not path:
        raise UsageError(f"{name!r} names no {kind}: {_HOW}")
    if module_name.endswith(".py") or os.sep in module_name:
        module = ".".join(PurePath(module_name).with_suffix("").parts)
        raise UsageError(f"{module_name} is a file, not a module: write {module}:{path}")
    found: Any = _import(module_name)
    for part in path.split("."):
        if not hasattr(found, part):
            raise UsageError(f"{module_name} has no {path!r}{_instead(found, part)}")
        found = getattr(found, part)
    _check(name, found, kind, of)
    handler: Callable[[Any], Any] = found
    return handler


def _import(name: str) -> ModuleType:
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if name != missing and not name.startswith(f"{missing}."):
            raise _failed(name, error) from None
        raise UsageError(
            f"there is no module {missing!r} in {here} or among what is installed: {_HOW}"
        ) from None
    except (Exception, SystemExit) as error:  # noqa: BLE001  # a module may raise anything
        raise _failed(name, error) from None


def _failed(name: str, error: BaseException) -> UsageError:
    """Print the traceback, from the module on."""
    lines = traceback.format_exception(type(error), error, _inside(error.__traceback__))
    print("".join(lines), end="", file=sys.stderr)
    return UsageError(f"{name} cannot be imported: {type(error).__name__}: {error}")


def _inside(trace: TracebackType | None) -> TracebackType | None:
    """The traceback without the frames of the import itself."""
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if file not in _IMPORTERS and not file.startswith("<frozen importlib"):
            return trace
        trace = trace.tb_next
    return None


def _instead(owner: object, name: str) -> str:
    known = [one for one, value in vars(owner).items() if inspect.isroutine(value)]
    near = difflib.get_close_matches(name, known, n=1) or known[:5]
    return f": it has {', '.join(near)}" if near else ""


def _check(name: str, handler: object, kind: str, of: str) -> None:
    if inspect.isclass(handler) or not callable(handler):
        found = "a class" if inspect.isclass(handler) else f"a {type(handler).__name__}"
        raise UsageError(f"{name} is {found}, not a function of one {of}")
    if inspect.isasyncgenfunction(handler) or inspect.isgeneratorfunction(handler):
        raise UsageError(f"{name} yields: a {kind} does its work and returns")
    try:
        inspect.signature(handler).bind(None)
    except TypeError as error:
        raise UsageError(f"{name} does not take one argument, the {of}: {error}") from None
    except ValueError:
        return  # compiled code need not say what it takes
