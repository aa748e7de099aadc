"""``python -m sharegroup`` is the ``sharegroup`` command."""

from __future__ import annotations

from sharegroup.cli import main

if __name__ == "__main__":
    main()
