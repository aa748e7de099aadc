"""Write ``src/sharegroup/sync/admin.py``, the blocking admin client, from the asyncio one.
``python scripts/write_sync_admin.py [--check]``.

The life of a blocking client stands below, in ``LIFE``. Every verb is one call that waits for the
asyncio client's verb of the same name. ``--check`` writes nothing and fails if the file differs.
"""

from __future__ import annotations

import ast
import builtins
import re
import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "sharegroup" / "client" / "admin" / "admin.py"
FILE = ROOT / "src" / "sharegroup" / "sync" / "admin.py"
SOURCE_MODULE = "sharegroup.client.admin.admin"

DOCSTRING_COLUMNS = 92
"""A line of 100 columns, without the indentation of a method's body."""

HEAD = '''\
"""The blocking admin client, written by ``scripts/write_sync_admin.py``: do not edit."""

from __future__ import annotations
'''
IMPORTS = f"""\
from {SOURCE_MODULE} import Admin as AsyncAdmin
from sharegroup.client.network.cluster import Cluster
from sharegroup.sync.front import Front
"""

LIFE = '''
class Admin(Front):
    """:class:`sharegroup.client.Admin`, blocking; it takes the same arguments, and its methods are
    described there.
    """

{constructor}
        self._cluster = {cluster}
        self._inner = AsyncAdmin(request_timeout_ms=request_timeout_ms, cluster=self._cluster)
        super().__init__()

    def start(self) -> None:
        """Connect; ``with`` does it by itself."""
        self._run(self._inner.start())

    def close(self) -> None:
        """Disconnect."""
        self._close(self._cluster.close())

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self) -> None:
        unclosed = self._thread is not None
        super().__del__()  # warns
        if unclosed:
            self._cluster.forsake()
'''
IN_HEAD = {"start", "close"}


class Source:
    """The module of the asyncio client, parsed."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._module = ast.parse(text)
        [admin] = (one for one in self._module.body if getattr(one, "name", "") == "Admin")
        assert isinstance(admin, ast.ClassDef), "Admin is a class"
        self._admin = admin

    def verbs(self) -> list[ast.AsyncFunctionDef]:
        """The methods to call: all public ones that wait, but not start and close."""
        return [
            one
            for one in self._admin.body
            if isinstance(one, ast.AsyncFunctionDef)
            and not one.name.startswith("_")
            and one.name not in IN_HEAD
        ]

    def constructor(self) -> ast.FunctionDef:
        """``__init__``."""
        [found] = (one for one in self._admin.body if getattr(one, "name", "") == "__init__")
        assert isinstance(found, ast.FunctionDef), "__init__ is a function"
        return found

    def cluster(self) -> str:
        """How the constructor makes its connections: the call ``Cluster(...)``."""
        for node in ast.walk(self.constructor()):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "Cluster":
                return ast.get_source_segment(self._text, node) or ""
        raise AssertionError("the constructor makes no Cluster")

    def signature(self, function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
        """The lines of ``def …:``, as they are written."""
        lines = self._text.splitlines()[function.lineno - 1 : function.body[0].lineno - 1]
        return [lines[0].replace("async def", "def"), *lines[1:]]

    def imports(self) -> str:
        """Import lines for all names in the signatures, one a line."""
        signatures = [part for one in self.verbs() for part in (one.args, one.returns) if part]
        signatures.append(self.constructor().args)
        names = {
            node.id
            for signature in signatures
            for node in ast.walk(signature)
            if isinstance(node, ast.Name) and not hasattr(builtins, node.id)
        }
        lines = {name: f"from {SOURCE_MODULE} import {name}" for name in names}
        for node in self._module.body:
            if isinstance(node, ast.ImportFrom):
                lines |= {one.name: f"from {node.module} import {one.name}" for one in node.names}
            elif isinstance(node, ast.Import):
                lines |= {one.name: f"import {one.name}" for one in node.names}
        return "\n".join(lines[name] for name in sorted(names | {"Self", "TracebackType"}))


def summary(function: ast.AsyncFunctionDef) -> str:
    """What the docstring of a blocking verb says: the first sentence, and the one that begins with
    "Returns".
    """
    text = re.split(r"\n\n(?:Args|Raises):", ast.get_docstring(function) or "")[0]
    first, *others = re.split(r"(?<=\.)\s+(?=[A-Z])", text)
    return " ".join([first, *(one for one in others if one.startswith("Returns"))])


def docstring(text: str) -> str:
    """The text in quotes, wrapped for the body of a method."""
    lines = [f'"""{text}"""']
    if len(lines[0]) > DOCSTRING_COLUMNS:
        # ruff joins the quotes to a text of one line: leave room for them.
        full = len(lines[0]) > DOCSTRING_COLUMNS + len('"""')
        columns = DOCSTRING_COLUMNS if full else DOCSTRING_COLUMNS - len('"""')
        lines = [*textwrap.wrap(f'"""{text}', columns), '"""']
    return textwrap.indent("\n".join(lines), " " * 8)


def method(source: Source, verb: ast.AsyncFunctionDef) -> str:
    """The blocking method."""
    given = verb.args
    passed = [one.arg for one in given.args if one.arg != "self"]
    passed += [f"*{given.vararg.arg}"] if given.vararg is not None else []
    passed += [f"{one.arg}={one.arg}" for one in given.kwonlyargs]
    nothing = isinstance(verb.returns, ast.Constant) and verb.returns.value is None
    call = f"self._run(self._inner.{verb.name}({', '.join(passed)}))"
    body = f"        {call if nothing else f'return {call}'}"
    return "\n".join([*source.signature(verb), docstring(summary(verb)), body])


def text() -> str:
    """The whole module."""
    source = Source(SOURCE.read_text(encoding="utf-8"))
    made = source.signature(source.constructor())
    life = LIFE.format(
        # Connections to share belong to an event loop.
        constructor="\n".join(line for line in made if not line.strip().startswith("cluster:")),
        cluster=source.cluster(),
    )
    methods = (method(source, verb) for verb in source.verbs())
    return formatted("\n".join([HEAD, source.imports(), IMPORTS, life, *methods]))


def formatted(code: str) -> str:
    """The code as ``ruff`` sorts its imports and formats it."""
    for verb in (["check", "--select=I", "--fix", "--quiet"], ["format", "--quiet"]):
        command = [sys.executable, "-m", "ruff", *verb, f"--stdin-filename={FILE}", "-"]
        code = subprocess.run(
            command, input=code, capture_output=True, encoding="utf-8", check=True
        ).stdout
    return code


def main(arguments: list[str]) -> int:
    """Write the file, or check it; the exit status."""
    wanted = text()
    if "--check" in arguments:
        fresh = FILE.exists() and FILE.read_text(encoding="utf-8") == wanted
        if not fresh:
            print(
                f"{FILE.relative_to(ROOT)} is not what {SOURCE.relative_to(ROOT)} says: run "
                f"`.venv/bin/python {Path(__file__).relative_to(ROOT)}`"
            )
        return 0 if fresh else 1
    FILE.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
