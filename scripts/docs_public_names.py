"""Write ``docs/public-names.txt``: the public names of the modules, the commands, and the tagged
fields that are ours. ``python scripts/docs_public_names.py [--check]``.

``--check`` writes nothing and fails if the file differs from the sources.
"""

from __future__ import annotations

import pkgutil
import sys
from collections.abc import Iterator
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from types import ModuleType

from typer.main import get_command

from sharegroup.cli.application import build
from sharegroup.wire import internal, messages
from sharegroup.wire.schema import FieldSchema, Message

FILE = Path(__file__).parent.parent / "docs" / "public-names.txt"
MODULES = (
    "sharegroup",
    "sharegroup.client",
    "sharegroup.sync",
    "sharegroup.spark",
    "sharegroup.testing",
)
OUR_TAGS_FROM = 9000
"""Kafka's own tags are counted from 0."""

HEAD = """\
# Written by `make docs` (scripts/docs_public_names.py): do not edit.
# A removed line breaks somebody's program; an added line is a promise. See docs/versions.md.
"""


def text() -> str:
    """The whole file."""
    parts = [_section(name, sorted(import_module(name).__all__)) for name in MODULES]
    parts.append(_section("commands", commands()))
    parts.append(_section("tagged fields in requests and answers", tags(messages)))
    parts.append(_section("tagged fields in internal topics", tags(internal)))
    return "\n".join([HEAD, *parts])


def _section(title: str, lines: Iterator[str] | list[str]) -> str:
    return "".join(f"{line}\n" for line in (f"[{title}]", *lines))


def commands() -> Iterator[str]:
    """Every command, a parent before its verbs."""

    def below(command: object, words: str) -> Iterator[str]:
        yield words
        for name, child in getattr(command, "commands", {}).items():
            yield from below(child, f"{words} {name}")

    return below(get_command(build()), "sharegroup")


def tags(package: ModuleType) -> Iterator[str]:
    """Our tagged fields of the messages in ``package``: file, class, field, tag and type."""
    for file in sorted(each.name for each in pkgutil.iter_modules(package.__path__)):
        module = import_module(f"{package.__name__}.{file}")
        for cls in vars(module).values():
            if _is_message_of(cls, module):
                for each in fields(cls):
                    schema: FieldSchema = each.metadata["wire"]
                    if schema.tag is not None and schema.tag >= OUR_TAGS_FROM:
                        name = f"{file}.{cls.__name__}.{each.name}"
                        yield f"{name} {schema.tag} {_type_of(schema)}"


def _is_message_of(value: object, module: ModuleType) -> bool:
    """A message that ``module`` declares, rather than imports."""
    is_message = isinstance(value, type) and issubclass(value, Message)
    return is_message and value.__module__ == module.__name__


def _type_of(schema: FieldSchema) -> str:
    if schema.element is None:
        return schema.kind
    name = schema.element if isinstance(schema.element, str) else schema.element.__name__
    return f"{name}[]" if schema.kind == "array" else str(name)


def main(arguments: list[str]) -> int:
    """Write the file, or check it; the exit status."""
    wanted = text()
    if "--check" in arguments:
        fresh = FILE.exists() and FILE.read_text(encoding="utf-8") == wanted
        if not fresh:
            print(
                f"{FILE.name} is not what the sources say: run `make docs`, look at the difference"
            )
        return 0 if fresh else 1
    FILE.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
