"""Checks the settings of a share consumer before it connects."""

from __future__ import annotations

from sharegroup.client.core.held_deliveries import AcknowledgementMode
from sharegroup.model.errors import ConfigError

ACQUIRE_MODES = ("batch_optimized", "record_limit")


def check_group(group_id: str) -> None:
    """Raises ConfigError: the group id is empty."""
    if not group_id:
        raise ConfigError("group_id is empty: name the share group")


def is_strict(acquire_mode: str) -> bool:
    """Whether ``max_poll_records`` is never exceeded. Raises ConfigError: there is no such mode."""
    if acquire_mode not in ACQUIRE_MODES:
        raise ConfigError(
            f"acquire_mode is {acquire_mode!r}: write 'batch_optimized' or 'record_limit'"
        )
    return acquire_mode == "record_limit"


def mode_of(text: str) -> AcknowledgementMode:
    """The acknowledgement mode. Raises ConfigError: there is no such mode."""
    try:
        return AcknowledgementMode(text)
    except ValueError:
        raise ConfigError(
            f"acknowledgement_mode is {text!r}: write 'implicit' or 'explicit'"
        ) from None
