"""A file that holds one secret, such as a token."""

from __future__ import annotations

from pathlib import Path

from sharegroup.model.errors import ConfigError


def read_secret(location: str) -> str:
    """The text of a file, without blanks around it.

    Raises:
        ConfigError: the file cannot be read, or is empty.
    """
    try:
        text = Path(location).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise ConfigError(f"{location} cannot be read: {error.strerror or error}") from None
    except ValueError:
        raise ConfigError(f"{location} is not text") from None
    if not text:
        raise ConfigError(f"{location} is empty")
    return text
