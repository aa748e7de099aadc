"""Build the documents as a site: ``make site`` writes ``build/site``, without any network.

The pages are read as they stand in the repository, so their links may lead out of docs/, which a
site cannot follow. So they are copied to ``build/pages`` first, with these links led: a page out of
docs/ is a page of the site; another file, such as an example or a test, is shown as text. Then the
generator runs (``mkdocs.yml``). A link or an anchor that leads to nothing is an error.
"""

from __future__ import annotations

import posixpath
import re
import shutil
import subprocess
import sys
from pathlib import Path, PurePosixPath
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
PLACE: Final = ROOT / "build" / "pages"
OUTSIDE: Final = {
    "README.md": "start.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security-policy.md",
    "CODE_OF_CONDUCT.md": "code-of-conduct.md",
}
"""The pages outside docs/ -> their names on the site."""
LINK: Final = re.compile(r"\]\((?!\w+:)(?P<path>[^)#\s]+)(?P<anchor>#[^)\s]*)?\)")
COLOUR: Final = re.compile(r"\x1b\[[\d;]*m")
BUILD_S_MAX: Final = 300


def main() -> None:
    """Write the site; exits with an error if a link leads to nothing."""
    shutil.rmtree(PLACE, ignore_errors=True)
    if missing := lay(PLACE):
        sys.exit("there is no such file:\n" + "\n".join(missing))
    done = subprocess.run(
        [Path(sys.executable).parent / "zensical", "build", "--clean", "--strict"],
        cwd=ROOT,
        timeout=BUILD_S_MAX,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    if done.returncode:
        said = COLOUR.sub("", done.stdout).partition("Traceback")[0]
        sys.exit(f"{said}the site is not built: see above")
    print("the site is in build/site: python3 -m http.server --directory build/site")


def lay(place: Path) -> list[str]:
    """Copy every page, and every file that one links to, into the folder ``place``. Returns the
    links that lead to no file, each after its page."""
    missing = []
    for path in sorted({*OUTSIDE, *(f"docs/{file.name}" for file in (ROOT / "docs").iterdir())}):
        if not path.endswith(".md"):
            write(place / path.removeprefix("docs/"), (ROOT / path).read_bytes())
            continue
        text = (ROOT / path).read_text()
        write(place / name_of(path), led(text, path).encode())
        for target, link in targets(text, path).items():
            if not (ROOT / target).is_file():
                missing.append(f"{path}: {link}")
            elif name_of(target).startswith("source/"):
                write(place / name_of(target), (ROOT / target).read_bytes())
    names = (ROOT / "docs" / "public-names.txt").read_text()
    write(place / "public-names.md", f"# Public names\n\n```text\n{names}```\n".encode())
    return missing


def targets(text: str, page: str) -> dict[str, str]:
    """Path from the root -> link on the page, for all that it links to in this repository."""
    return {target_of(page, link["path"]): link["path"] for link in LINK.finditer(text)}


def led(text: str, page: str) -> str:
    """The page with its links as they are on the site."""

    def new(link: re.Match[str]) -> str:
        return f"]({name_of(target_of(page, link['path']))}{link['anchor'] or ''})"

    return LINK.sub(new, text)


def target_of(page: str, link: str) -> str:
    """The path from the root that a link on a page leads to."""
    return posixpath.normpath(str(PurePosixPath(page).parent / link))


def name_of(path: str) -> str:
    """The name on the site of the file at ``path``, from the root of the repository."""
    if path == "docs/public-names.txt":
        return "public-names.md"
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return OUTSIDE.get(path, f"source/{path}.txt")


def write(path: Path, content: bytes) -> None:
    """Write a file and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


if __name__ == "__main__":
    main()
