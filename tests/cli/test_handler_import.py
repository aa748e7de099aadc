"""Which function MODULE:HANDLER names, and what is said when it names none."""

from __future__ import annotations

import functools
import itertools
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sharegroup.cli.handler_import import import_handler
from sharegroup.cli.outcome import UsageError
from sharegroup.cli.work import parse_retry
from sharegroup.client import Backoff
from sharegroup.client.worker.handler_kinds import is_coroutine_function
from sharegroup.model.errors import ConfigError
from tests.cli.command import Commands

_numbers = itertools.count(1)
NOWHERE = Commands("127.0.0.1:1")  # nobody listens there

HANDLERS = """
import functools
NAME = "a text"
class Jobs:
    def handle(self, job): return "handled"
    async def later(self, job): ...
    async def __call__(self, job): ...
jobs = Jobs()
def resize(job): return "resized"
async def upload(job): ...
def none(): ...
def two(job, where): ...
def two_with_default(job, where=None): ...
def yields(job): yield job
async def yields_later(job): yield job
sized = functools.partial(two, where="here")
sent = functools.partial(upload)
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Writes a module into the current directory, and returns its name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])

    def write(text: str) -> str:
        name = f"module_of_handlers_{next(_numbers)}"
        (tmp_path / f"{name}.py").write_text(text)
        return name

    return write


@pytest.mark.parametrize(
    ("path", "awaited"),
    [
        ("resize", False),
        ("upload", True),
        ("jobs", True),
        ("jobs.handle", False),
        ("jobs.later", True),
        ("two_with_default", False),
        ("sized", False),
        ("sent", True),
    ],
)
def test_what_a_name_finds(module: Callable[[str], str], path: str, awaited: bool) -> None:
    handler = import_handler(f"{module(HANDLERS)}:{path}")
    assert is_coroutine_function(handler) is awaited


def test_a_module_in_a_package(module: Callable[[str], str], tmp_path: Path) -> None:
    package = tmp_path / f"package_{next(_numbers)}"
    package.mkdir()
    (package / "jobs.py").write_text("def resize(job): return package\npackage = __package__\n")
    assert import_handler(f"{package.name}.jobs:resize")(None) == package.name


def test_compiled_functions_may_be_handlers() -> None:
    assert import_handler("json:loads")("[1]") == [1]
    assert import_handler("builtins:print") is print
    assert not is_coroutine_function(functools.partial(print))


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("resized", r"has no 'resized': it has resize$"),
        ("jobs.run", r"has no 'jobs.run'"),
        ("NAME", r"is a str, not a function of one record$"),
        ("Jobs", r"is a class, not a function of one record$"),
        ("none", r"does not take one argument, the record: too many positional arguments$"),
        ("two", r"does not take one argument, the record: missing a required argument: 'where'$"),
        ("yields", r"yields: a handler does its work and returns$"),
        ("yields_later", r"yields: a handler does its work and returns$"),
    ],
)
def test_what_is_no_handler(module: Callable[[str], str], path: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        import_handler(f"{module(HANDLERS)}:{path}")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("jobs", "'jobs' names no handler: write MODULE:FUNCTION"),
        (":resize", "':resize' names no handler"),
        ("jobs:", "'jobs:' names no handler"),
        ("jobs.py:resize", "jobs.py is a file, not a module: write jobs:resize"),
        ("photos/jobs.py:resize", "photos/jobs.py is a file, not a module: write photos.jobs:"),
        ("no_such_jobs:resize", "there is no module 'no_such_jobs' in /"),
        ("json.no_such:resize", "there is no module 'json.no_such' in /"),
        ("no_such.jobs:resize", "there is no module 'no_such' in /"),
    ],
)
def test_what_is_no_module(module: Callable[[str], str], name: str, says: str) -> None:
    with pytest.raises(UsageError) as refused:
        import_handler(name)
    assert says in str(refused.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("def (", "SyntaxError: invalid syntax"),
        ("import no_such_library", "ModuleNotFoundError: No module named 'no_such_library'"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("import sys; sys.exit(4)", "SystemExit: 4"),
    ],
)
def test_a_module_that_fails(
    module: Callable[[str], str], capsys: pytest.CaptureFixture[str], text: str, says: str
) -> None:
    name = module(text)
    with pytest.raises(UsageError, match=f"^{name} cannot be imported: {says}"):
        import_handler(f"{name}:resize")
    shown = capsys.readouterr().err
    assert f"{name}.py" in shown
    assert "importlib" not in shown
    assert "handler_import" not in shown


def test_a_retry_is_the_backoff_of_its_numbers() -> None:
    assert parse_retry(None) == Backoff()
    wanted = Backoff(first_s=0.5, factor=3.0, max_s=60.0, jitter=0.0, attempts=4)
    assert parse_retry("first_s=0.5,factor=3,max_s=60, jitter=0,attempts=4") == wanted


@pytest.mark.parametrize("text", ["5", "first=1", "attempts=1.5", "first_s=soon", "", "first_s=1,"])
def test_what_is_no_retry(text: str) -> None:
    with pytest.raises(UsageError, match=r"write NAME=NUMBER,…; the names are first_s, factor, "):
        parse_retry(text)
    with pytest.raises(ConfigError, match="attempts is 0"):
        parse_retry("attempts=0")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("json:loads", "-g", "g"), "--topic"),
        (("json:loads", "-t", "t"), "--group"),
        (("json:loads", "-t", "t", "-g", "g", "-c", "0"), "--concurrency"),
        (("json:loads", "-t", "t", "-g", "g", "--decode", "xml"), "--decode"),
        (("json:load", "-t", "t", "-g", "g", "--create-dead-letter"), "create_dead_letter needs"),
        (("json:load", "-t", "t", "-g", "g", "--handler-timeout", "0"), "timeout_s is 0"),
        (("json:nothing", "-t", "t", "-g", "g"), "json has no 'nothing'"),
    ],
)
def test_wrong_usage(words: tuple[str, ...], says: str) -> None:
    done = NOWHERE.inside("work", *words)
    assert (done.status, done.stdout) == (2, "")
    assert says in done.stderr
