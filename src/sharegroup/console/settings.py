"""The settings of a group or a topic as the page shows them."""

from __future__ import annotations

from typing import Any, Final, Literal

from sharegroup.client.admin.admin import Admin
from sharegroup.client.admin.descriptions import ConfigSetting
from sharegroup.model.errors import SharegroupError

_SOURCES: Final = {1: "topic", 2: "broker", 3: "cluster", 4: "broker", 5: "default", 8: "group"}
"""DescribeConfigs' numbers of where a setting is from."""
_OTHERS: Final = ("consumer.", "streams.")
"""Settings of groups of other types begin so."""


async def settings_of(
    admin: Admin, kind: Literal["group", "topic"], name: str
) -> tuple[list[dict[str, Any]], str | None]:
    """The settings, or why they are not known. Of a group those of share groups."""
    try:
        found = await admin.describe_configs(kind, name)
    except SharegroupError as error:
        return [], str(error)
    named = [one for one in sorted(found) if kind == "topic" or not one.startswith(_OTHERS)]
    return [_setting(found[one]) for one in named], None


def _setting(one: ConfigSetting) -> dict[str, Any]:
    return {
        "name": one.name,
        "value": None if one.sensitive else one.value,
        "source": "default" if one.is_default else _SOURCES.get(one.source, "other"),
        "meaning": one.documentation,
    }
