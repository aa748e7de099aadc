"""Write ``docs/benchmarks.md`` from its samples: ``python scripts/docs_benchmarks.py``.

Nothing is measured: titles, targets and reasons may have changed since.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.registry import BENCHMARKS  # noqa: E402
from benchmarks.report import page  # noqa: E402
from benchmarks.systems import SYSTEMS  # noqa: E402

DOCS = ROOT / "docs"


def current() -> str:
    """The page as it should be."""
    return page(BENCHMARKS, tuple(SYSTEMS), DOCS / "benchmarks.json")


if __name__ == "__main__":
    (DOCS / "benchmarks.md").write_text(current())
