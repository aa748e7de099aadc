"""A wrong option fails with a sentence that says what to write."""

from __future__ import annotations

import pytest

from sharegroup.model.errors import ConfigError
from sharegroup.spark.options import parse_options

GOOD = {
    "kafka.bootstrap.servers": "localhost:9092",
    "kafka.group.id": "orders-group",
    "subscribe": "orders, refunds",
}


def test_the_least_that_is_needed() -> None:
    options = parse_options(GOOD)
    assert options.bootstrap_servers == "localhost:9092"
    assert options.group_id == "orders-group"
    assert options.topics == ("orders", "refunds")
    assert options.max_offsets_per_trigger is None
    assert options.fail_on_data_loss
    assert not options.include_headers


def test_all_of_them_in_the_lower_case_that_spark_makes_of_names() -> None:
    given = {
        "startingoffsets": "Earliest",
        "maxoffsetspertrigger": "100000",
        "maxacquiredrecords": "7",
        "recordlocksperpartition": "4000",
        "minpartitions": "8",
        "maxrecordsperpartition": "50",
        "includeheaders": "TRUE",
        "failondataloss": "false",
        "polltimeoutms": "0",
        "kafkaconsumer.polltimeoutms": "5000",
        "kafka.client.id": "mine",
        "kafka.request.timeout.ms": "1000",
    }
    options = parse_options({**GOOD, **given})
    assert options.starting_offsets == "earliest"
    assert options.max_offsets_per_trigger == 100_000
    assert options.record_locks_per_partition == 4_000
    assert options.include_headers
    assert not options.fail_on_data_loss
    assert (options.poll_timeout_ms, options.executor_poll_timeout_ms) == (0, 5_000)


@pytest.mark.parametrize("missing", list(GOOD))
def test_what_is_missing_is_spelt_out(missing: str) -> None:
    options = {name: value for name, value in GOOD.items() if name != missing}
    with pytest.raises(ConfigError, match=rf'{missing} is missing: write \.option\("{missing}"'):
        parse_options(options)


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("startingOffsets", '{"t":{"0":23}}', "write earliest or latest"),
        ("maxOffsetsPerTrigger", "many", "write a whole number of 1 or more"),
        ("maxOffsetsPerTrigger", "0", "write a whole number of 1 or more"),
        ("maxOffsetsPerTrigger", "-3", "write a whole number of 1 or more"),
        ("minPartitions", "99999999999", "write a whole number from 1 to 2147483647"),
        ("includeHeaders", "yes", "write true or false"),
        ("kafka.bootstrap.servers", "localhost:port", "write host:port"),
        ("kafka.bootstrap.servers", " ", "write host:port"),
        ("subscribe", " , ", "write a topic"),
        ("kafka.group.id", " ", "is empty"),
    ],
)
def test_a_value_that_cannot_be(name: str, value: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        parse_options({**GOOD, name: value})


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("assign", "name the topics in subscribe"),
        ("endingoffsets", "availableNow=True"),
        ("kafka.auto.offset.reset", "use startingOffsets"),
        ("kafka.enable.auto.commit", "acknowledged by the source"),
        ("subscrbe", "did you mean subscribe"),
        ("maxoffsetpertrigger", "did you mean maxOffsetsPerTrigger"),
        ("zebra", "options are kafka.bootstrap.servers"),
    ],
)
def test_an_option_that_is_not_there(name: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        parse_options({**GOOD, name: "x"})


def test_the_group_has_two_names_but_one_value() -> None:
    both = {**GOOD, "kafka.share.group.id": "orders-group"}
    assert parse_options(both).group_id == "orders-group"
    with pytest.raises(ConfigError, match="given twice"):
        parse_options({**GOOD, "kafka.share.group.id": "another"})
