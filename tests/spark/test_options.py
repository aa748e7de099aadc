"""A wrong option fails with a sentence that says what to write."""

from __future__ import annotations

from dataclasses import fields

import pytest

from scripts import docs_spark_options
from sharegroup.model.errors import ConfigError
from sharegroup.spark.options.stream import STREAM, ShareOptions, parse_options

GOOD = {
    "kafka.bootstrap.servers": "localhost:9092",
    "kafka.group.id": "orders-group",
    "subscribe": "orders, refunds",
}

# "Structured Streaming + Kafka Integration Guide", all options of the source.
SPARKS_OWN = (
    "assign",
    "subscribe",
    "subscribePattern",
    "kafka.bootstrap.servers",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsets",
    "endingTimestamp",
    "endingOffsetsByTimestamp",
    "endingOffsets",
    "failOnDataLoss",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "minPartitions",
    "maxRecordsPerPartition",
    "groupIdPrefix",
    "kafka.group.id",
    "includeHeaders",
    "startingOffsetsByTimestampStrategy",
    "kafka.auto.offset.reset",
    "kafka.key.deserializer",
    "kafka.value.deserializer",
    "kafka.enable.auto.commit",
    "kafka.interceptor.classes",
)


def test_the_required_options() -> None:
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
        "isolationlevel": "READ_COMMITTED",
        "maxacquiredbytes": "1000000",
        "prefetch": "false",
        "brokeroutagetimeout": "90s",
        "lockrenew": "false",
        "onlostlocks": "fail",
        "includetimestamptype": "true",
        "ackmode": "explicit",
        "acklocation": "/mnt/acks",
        "defaultack": "accept",
    }
    options = parse_options({**GOOD, **given})
    assert options.isolation_level == "read_committed"
    assert options.broker_outage_timeout_ms == 90_000
    assert (options.ack_mode, options.ack_location, options.default_ack) == (
        "explicit",
        "/mnt/acks",
        "accept",
    )
    assert options.starting_offsets == "earliest"
    assert options.max_offsets_per_trigger == 100_000
    assert options.record_locks_per_partition == 4_000
    assert options.include_headers
    assert not options.fail_on_data_loss
    assert (options.poll_timeout_ms, options.executor_poll_timeout_ms) == (0, 5_000)


@pytest.mark.parametrize("missing", list(GOOD))
def test_missing_options_are_spelt_out(missing: str) -> None:
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
        ("splitBy", "hash", "write offset or key"),
        ("includeHeaders", "yes", "write true or false"),
        ("kafka.bootstrap.servers", "localhost:port", "write host:port"),
        ("kafka.bootstrap.servers", "kafka", "which has no port: write kafka:9092"),
        ("kafka.bootstrap.servers", "kafka:1,other", "which has no port: write other:9092"),
        ("kafka.bootstrap.servers", "::1", r"which has no port: write \[::1\]:9092"),
        ("kafka.bootstrap.servers", "[::1]", r"which has no port: write \[::1\]:9092"),
        ("kafka.bootstrap.servers", " ", "write host:port"),
        ("kafka.bootstrap.servers", "kafka://h", "which has no port: write h:9092"),
        ("startingTimestamp", "2026-01-01T00:00:00Z", "write 1767225600000, which are millisec"),
        ("startingTimestamp", "2026-01-01", "write 1767225600000, .* if it is a time in UTC"),
        ("startingTimestamp", "yesterday", "write milliseconds since 1970"),
        ("startingTimestamp", "-1", "write milliseconds since 1970"),
        ("subscribe", " , ", "write a topic"),
        ("kafka.group.id", " ", "is empty"),
        ("brokerOutageTimeout", "5 weeks", "write milliseconds, or a time such as 30s or 5m"),
        ("brokerOutageTimeout", "-1", "write milliseconds, or a time such as 30s or 5m"),
        ("isolationLevel", "serializable", "write read_uncommitted or read_committed"),
        ("onLostLocks", "", "write process or drop or fail"),
        ("ackMode", "auto", "write implicit or explicit or claim"),
    ],
)
def test_an_invalid_value(name: str, value: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        parse_options({**GOOD, name: value})


def test_a_protocol_before_an_address_is_skipped_as_kafkas_clients_do() -> None:
    address = "kafka://h:9092, SASL_SSL://[::1]:9093"
    assert parse_options({**GOOD, "kafka.bootstrap.servers": address}).bootstrap_servers == address


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("assign", "name the topics in subscribe"),
        ("endingoffsets", "availableNow=True"),
        ("kafka.auto.offset.reset", "use startingOffsets"),
        ("kafka.enable.auto.commit", "acknowledged by the source"),
        ("fetchOffset.numRetries", "kafkaConsumer.pollTimeoutMs"),
        ("kafka.isolation.level", "use isolationLevel"),
        ("subscrbe", "did you mean subscribe"),
        ("topic", r"did you mean subscribe\?"),
        ("topics", r"did you mean subscribe\?"),
        ("maxoffsetpertrigger", "did you mean maxOffsetsPerTrigger"),
        ("kafka.grup.id", "did you mean kafka.group.id"),
        ("kafka.groupid", "did you mean kafka.group.id"),
        ("kafka.servers", "did you mean kafka.bootstrap.servers"),
        ("kafka.max.poll.record", "did you mean kafka.max.poll.records.*use maxOffsetsPerTrigger"),
        ("kafka.security.protocl", "did you mean security.protocol"),
        (
            "kafka.zebra",
            "options are kafka.bootstrap.servers, kafka.group.id, (kafka[.a-z]*,? ?)*$",
        ),
        ("zebra", "options are kafka.bootstrap.servers"),
    ],
)
def test_an_unknown_option(name: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        parse_options({**GOOD, name: "x"})


def test_the_group_has_two_names_but_one_value() -> None:
    both = {**GOOD, "kafka.share.group.id": "orders-group"}
    assert parse_options(both).group_id == "orders-group"
    with pytest.raises(ConfigError, match="given twice"):
        parse_options({**GOOD, "kafka.share.group.id": "another"})


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"subscribePattern": "t.*"}, "subscribe and subscribePattern exclude each other"),
        ({"subscribe": None, "subscribePattern": "t.*["}, "no regular expression"),
        ({"subscribe": None, "subscribePattern": ""}, "write a regular expression"),
        (
            {"startingOffsets": "latest", "startingTimestamp": "1"},
            "startingOffsets and startingTimestamp exclude each other",
        ),
        ({"ackMode": "explicit"}, "ackLocation is missing"),
        ({"ackMode": "implicit", "ackLocation": "/mnt/acks"}, "leave one of the two out"),
        ({"defaultAck": "accept"}, "add ackLocation"),
        ({"ackLocation": "/folder", "onLostLocks": "drop"}, "write process or fail"),
        ({"ackMode": "claim"}, "claimLocation is missing"),
        ({"ackMode": "implicit", "claimLocation": "/claims"}, "leave one of the two out"),
        ({"ackLocation": "/acks", "claimLocation": "/claims"}, "leave one of the two out"),
        ({"claimLocation": "/claims", "defaultAck": "accept"}, "defaultAck goes with"),
        ({"claimLocation": "/claims", "onLostLocks": "drop"}, "does not go with ackMode claim"),
        ({"claimLocation": "claims"}, "write an absolute path"),
    ],
)
def test_options_that_do_not_go_together(given: dict[str, str | None], sentence: str) -> None:
    options = {name: text for name, text in {**GOOD, **given}.items() if text is not None}
    with pytest.raises(ConfigError, match=sentence):
        parse_options(options)


def test_ack_location_implies_explicit_mode() -> None:
    assert parse_options({**GOOD, "ackLocation": "/mnt/acks"}).ack_mode == "explicit"
    assert parse_options({**GOOD, "claimLocation": "/mnt/claims"}).ack_mode == "claim"


def test_a_pattern_takes_the_place_of_topics() -> None:
    options = {**GOOD, "subscribePattern": "orders-.*"}
    del options["subscribe"]
    assert parse_options(options).topic_pattern == "orders-.*"


def test_every_field_has_an_option_and_the_page_is_what_the_table_says() -> None:
    own = {f.name for f in fields(ShareOptions)} - {"security"}  # that is made of kafka.sasl.… …
    assert {option.field for option in STREAM.options} == own
    assert docs_spark_options.main(["--check"]) == 0


@pytest.mark.parametrize("name", SPARKS_OWN)
def test_every_option_of_sparks_own_source_is_there_or_refused_with_a_reason(name: str) -> None:
    assert name in STREAM.refused or name in {option.spark for option in STREAM.options}


def test_all_records_of_a_key_in_one_task_know_no_largest_number() -> None:
    assert parse_options({**GOOD, "splitBy": "key", "minPartitions": "8"}).split_by == "key"
    with pytest.raises(ConfigError, match="maxRecordsPerPartition does not go with splitBy key"):
        parse_options({**GOOD, "splitBy": "key", "maxRecordsPerPartition": "100"})
