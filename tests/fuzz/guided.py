"""Looks for faults of one target, guided by the code that an input reaches (atheris, libFuzzer).

    python -m tests.fuzz.guided TARGET FOLDER -max_total_time=60

FOLDER gets the inputs that reach new code. Other words are libFuzzer's.
"""

from __future__ import annotations

import sys

import atheris

with atheris.instrument_imports(include=["sharegroup"]):
    from sharegroup.broker.network.api_table import API_TABLE
    from sharegroup.wire import codec
    from tests.fuzz.targets import TARGETS, attempt


def main() -> None:
    target = TARGETS[sys.argv.pop(1)]
    # The readers of messages are made at their first use, so no import shows them to atheris.
    for served in API_TABLE.values():
        for version in range(served.versions.first, served.versions.last + 1):
            for kind in (served.api.request, served.api.response):
                codec.reader(kind, version, version >= kind.FLEXIBLE)
    for reader in codec._READERS.values():
        atheris.instrument_func(reader)
    atheris.Setup(sys.argv, lambda data: attempt(target, data))
    atheris.Fuzz()


if __name__ == "__main__":
    main()
