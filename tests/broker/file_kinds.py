"""The kinds of files that a data folder may hold, as the code of ``storage`` names them: a new kind
cannot be forgotten by a test that damages each."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from sharegroup import storage

_NAME = re.compile(r"\.[a-z_-]+(\.[a-z]+)*|[a-z-]+-checkpoint|[a-z_]+\.(json|properties|metadata)")


def named_in_code() -> set[str]:
    """Every name or suffix of a file in the code of ``storage``."""
    return {
        node.value
        for path in Path(storage.__path__[0]).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and _NAME.fullmatch(node.value)
    }
