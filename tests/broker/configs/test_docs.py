from __future__ import annotations

from scripts import docs_config
from sharegroup.broker.configs.broker import BROKER_CONFIGS
from sharegroup.broker.configs.topic import TOPIC_CONFIGS
from sharegroup.groups.config import GROUP_CONFIGS


def test_the_page_is_what_the_tables_say() -> None:
    assert docs_config.main(["--check"]) == 0


def test_every_setting_is_on_the_page() -> None:
    page = docs_config.page()
    for name in (*BROKER_CONFIGS, *TOPIC_CONFIGS, *GROUP_CONFIGS):
        assert f"| `{name}` |" in page


def test_a_default_that_is_not_kafkas_says_why() -> None:
    page = docs_config.page()
    row = next(line for line in page.splitlines() if "state.topic.num.partitions` |" in line)
    assert "**Default:** one embedded node gains nothing from more (Kafka: 50)." in row


def test_each_section_is_there_once() -> None:
    titles = [line for line in docs_config.page().splitlines() if line.startswith("## ")]
    assert len(titles) == len(set(titles)) == len(docs_config.SECTIONS) + 2
