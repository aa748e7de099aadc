import static java.util.stream.Collectors.joining;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import java.util.function.Function;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.GroupType;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionReplica;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Java's Admin, method by method: a line for each call with its result, or with its error.
 *
 * Lines hold nothing that two brokers choose: ids, times, ports. So the lines of two brokers can be
 * compared. Arguments: a bootstrap server, or several to ask one after the other. With
 * -Dmessages=yes lines have errors' messages too, for reading.
 */
public class AdminWork {
    private static String bootstrap;
    private static Admin admin;
    private static int barriers;

    interface Call {
        Object result() throws Exception;
    }

    public static void main(String[] arguments) throws Exception {
        List<Call> parts = List.of(
            AdminWork::topics, AdminWork::configs, AdminWork::offsets, AdminWork::groups,
            AdminWork::members, AdminWork::transactions, AdminWork::cluster);
        for (String server : arguments) {
            bootstrap = server;
            System.out.println("== " + server);
            admin = Admin.create(Map.of("bootstrap.servers", bootstrap,
                "default.api.timeout.ms", 20000, "request.timeout.ms", 10000));
            for (Call part : parts) {
                part.result();
            }
            admin.close(Duration.ofSeconds(5));
        }
        System.exit(0); // threads of members that were removed may be left
    }

    // Apache Kafka's broker learns of changes in their order, a moment after they are answered.
    static void settle() throws Exception {
        String last = "barrier-" + ++barriers;
        admin.createTopics(List.of(new NewTopic(last, 1, (short) 1))).all().get();
        while (!admin.listTopics().names().get().contains(last)) {
            Thread.onSpinWait();
        }
        admin.deleteTopics(List.of(last)).all().get();
        while (admin.listTopics().names().get().contains(last)) {
            Thread.onSpinWait();
        }
    }

    static void create(NewTopic... topics) throws Exception {
        admin.createTopics(List.of(topics)).all().get();
        settle();
    }

    // A line: what was asked, and the answer.
    static void say(String what, Call call) {
        String said;
        try {
            said = String.valueOf(call.result());
        } catch (Throwable error) {
            said = error(error);
        }
        System.out.println(what + ": " + said);
    }

    static String error(Throwable error) {
        if (error instanceof ExecutionException || error instanceof java.util.concurrent.CompletionException) {
            error = error.getCause();
        }
        String name = "! " + error.getClass().getSimpleName();
        return System.getProperty("messages") == null ? name : name + ": " + error.getMessage();
    }

    static <K, V> String each(Map<K, KafkaFuture<V>> futures, Function<V, Object> shown) {
        Map<String, String> lines = new TreeMap<>();
        futures.forEach((key, future) -> {
            String said;
            try {
                said = String.valueOf(shown.apply(future.get()));
            } catch (Exception error) {
                said = error(error);
            }
            lines.put(String.valueOf(key), said);
        });
        return lines.toString();
    }

    static <K> String each(Map<K, ? extends KafkaFuture<?>> futures) {
        Map<K, KafkaFuture<Object>> same = new HashMap<>();
        futures.forEach((key, future) -> same.put(key, future.thenApply(value -> value)));
        return each(same, value -> value == null ? "done" : value);
    }

    static <T> String sorted(Collection<T> things, Function<T, ?> shown) {
        return things.stream().map(thing -> String.valueOf(shown.apply(thing))).sorted().collect(joining(", ", "[", "]"));
    }

    static TopicPartition part(String topic, int partition) {
        return new TopicPartition(topic, partition);
    }

    // ---------------------------------------------------------------- topics
    static Object topics() throws Exception {
        List<NewTopic> wanted = List.of(
            new NewTopic("t-plain", 3, (short) 1),
            new NewTopic("t-default", Optional.empty(), Optional.empty()),
            new NewTopic("t-configured", 1, (short) 1).configs(Map.of("cleanup.policy", "compact", "retention.ms", "1000")),
            new NewTopic("t-assigned", Map.of(0, List.of(1), 1, List.of(1))),
            new NewTopic("t-none", 0, (short) 1),
            new NewTopic("t-minus", -2, (short) 1),
            new NewTopic("t-copies", 1, (short) 3),
            new NewTopic("t-nocopies", 1, (short) 0),
            new NewTopic("t-bad/name", 1, (short) 1),
            new NewTopic("..", 1, (short) 1),
            new NewTopic("t" + "x".repeat(249), 1, (short) 1),
            new NewTopic("t-badconfig", 1, (short) 1).configs(Map.of("cleanup.policy", "burn")),
            new NewTopic("t-badkey", 1, (short) 1).configs(Map.of("no.such.key", "1")),
            new NewTopic("t-badvalue", 1, (short) 1).configs(Map.of("retention.ms", "soon")),
            new NewTopic("t-gap", Map.of(0, List.of(1), 2, List.of(1))),
            new NewTopic("t-nobroker", Map.of(0, List.of(77))),
            new NewTopic("t-twice", Map.of(0, List.of(1, 1))),
            new NewTopic("t_last", 1, (short) 1));
        say("createTopics", () -> each(admin.createTopics(wanted).values()));
        say("createTopics again", () -> each(admin.createTopics(wanted.subList(0, 1)).values()));
        say("createTopics like another", () -> each(admin.createTopics(List.of(new NewTopic("t.last", 1, (short) 1))).values()));
        say("createTopics validateOnly", () -> each(admin.createTopics(
            List.of(new NewTopic("t-only", 2, (short) 1), new NewTopic("t-plain", 2, (short) 1)), new CreateTopicsOptions().validateOnly(true)).values()));
        CreateTopicsResult made = admin.createTopics(List.of(new NewTopic("t-said", 2, (short) 1).configs(Map.of("max.message.bytes", "2000"))));
        say("createTopics partitions", () -> made.numPartitions("t-said").get());
        say("createTopics copies", () -> made.replicationFactor("t-said").get());
        say("createTopics config", () -> made.config("t-said").get().get("max.message.bytes"));
        settle();
        say("createTopics default config", () -> made.config("t-said").get().get("cleanup.policy"));
        settle();
        say("listTopics", () -> sorted(admin.listTopics().listings().get(), t -> t.name() + "/" + t.isInternal()));
        say("listTopics internal", () -> sorted(admin.listTopics(new ListTopicsOptions().listInternal(true)).names().get(), n -> n));
        say("describeTopics", () -> each(admin.describeTopics(List.of("t-plain", "t-assigned", "t-default", "t-nothere", "")).topicNameValues(), AdminWork::topic));
        say("describeTopics operations", () -> each(admin.describeTopics(List.of("t-plain"), new DescribeTopicsOptions().includeAuthorizedOperations(true)).topicNameValues(),
            t -> sorted(t.authorizedOperations(), o -> o)));
        say("describeTopics by id", () -> each(Map.of("t-plain", admin.describeTopics(TopicCollection.ofTopicIds(List.of(id("t-plain")))).topicIdValues().get(id("t-plain"))), AdminWork::topic));
        say("describeTopics bad id", () -> sorted(admin.describeTopics(TopicCollection.ofTopicIds(List.of(new org.apache.kafka.common.Uuid(5, 6)))).topicIdValues().values(), f -> {
            try {
                return f.get();
            } catch (Exception error) {
                return error(error);
            }
        }));
        Map<String, NewPartitions> more = Map.of("t-plain", NewPartitions.increaseTo(4), "t-assigned", NewPartitions.increaseTo(2),
            "t-configured", NewPartitions.increaseTo(0), "t-nothere", NewPartitions.increaseTo(4), "t-default", NewPartitions.increaseTo(3, List.of(List.of(1), List.of(1))));
        say("createPartitions", () -> each(admin.createPartitions(more).values()));
        settle();
        say("createPartitions fewer", () -> each(admin.createPartitions(Map.of("t-plain", NewPartitions.increaseTo(2))).values()));
        say("createPartitions badly", () -> each(admin.createPartitions(Map.of("t-plain", NewPartitions.increaseTo(6, List.of(List.of(1))), "t-said", NewPartitions.increaseTo(3, List.of(List.of(9))))).values()));
        say("createPartitions validateOnly", () -> each(admin.createPartitions(Map.of("t-plain", NewPartitions.increaseTo(9)), new CreatePartitionsOptions().validateOnly(true)).values()));
        settle();
        say("createPartitions -1", () -> each(admin.createPartitions(Map.of("t-plain", NewPartitions.increaseTo(-1))).values()));
        settle();
        say("describeTopics then", () -> each(admin.describeTopics(List.of("t-plain", "t-default")).topicNameValues(), AdminWork::topic));
        say("deleteTopics", () -> each(admin.deleteTopics(List.of("t-said", "t-nothere", "")).topicNameValues()));
        say("deleteTopics by id", () -> { admin.deleteTopics(TopicCollection.ofTopicIds(List.of(id("t-assigned")))).all().get(); return "done"; });
        settle();
        say("deleteTopics bad id", () -> admin.deleteTopics(TopicCollection.ofTopicIds(List.of(new org.apache.kafka.common.Uuid(5, 6)))).all().get());
        say("describeTopics deleted", () -> each(admin.describeTopics(List.of("t-said")).topicNameValues(), AdminWork::topic));
        return null;
    }

    static org.apache.kafka.common.Uuid id(String topic) throws Exception {
        return admin.describeTopics(List.of(topic)).topicNameValues().get(topic).get().topicId();
    }

    static Object topic(TopicDescription topic) {
        return topic.name() + " " + topic.isInternal() + " " + topic.partitions().stream()
            .map(p -> p.partition() + ":" + p.leader().id() + p.replicas().size() + p.isr().size() + p.elr() + p.lastKnownElr()).collect(joining(" "));
    }

    // ---------------------------------------------------------------- configs
    static Object configs() throws Exception {
        ConfigResource plain = new ConfigResource(ConfigResource.Type.TOPIC, "c-topic");
        ConfigResource none = new ConfigResource(ConfigResource.Type.TOPIC, "c-nothere");
        ConfigResource broker = new ConfigResource(ConfigResource.Type.BROKER, "1");
        ConfigResource brokers = new ConfigResource(ConfigResource.Type.BROKER, "");
        ConfigResource group = new ConfigResource(ConfigResource.Type.GROUP, "c-group");
        say("make", () -> each(admin.createTopics(List.of(new NewTopic("c-topic", 1, (short) 1).configs(Map.of("segment.bytes", "2000000")))).values()));
        settle();
        say("describeConfigs topic", () -> shown(plain, false));
        say("describeConfigs group", () -> shown(group, false));
        say("describeConfigs no topic", () -> shown(none, false));
        say("describeConfigs no broker", () -> admin.describeConfigs(List.of(new ConfigResource(ConfigResource.Type.BROKER, "99")), new DescribeConfigsOptions().timeoutMs(500)).all().get());
        say("describeConfigs bad broker", () -> shown(new ConfigResource(ConfigResource.Type.BROKER, "x"), true));
        say("describeConfigs brokers", () -> shown(brokers, true));
        say("alter set", () -> alter(plain, op("retention.ms", "5000", AlterConfigOp.OpType.SET), op("cleanup.policy", "compact", AlterConfigOp.OpType.APPEND)));
        settle();
        say("alter append again", () -> alter(plain, op("cleanup.policy", "compact", AlterConfigOp.OpType.APPEND)));
        settle();
        say("describeConfigs set", () -> shown(plain, true));
        say("alter subtract", () -> alter(plain, op("cleanup.policy", "delete", AlterConfigOp.OpType.SUBTRACT), op("retention.ms", "", AlterConfigOp.OpType.DELETE)));
        settle();
        say("describeConfigs subtracted", () -> shown(plain, true));
        for (String[] bad : new String[][] {{"retention.ms", "soon"}, {"retention.ms", "-5"}, {"no.such.key", "1"}, {"cleanup.policy", "burn"}, {"segment.bytes", "1"},
            {"min.insync.replicas", "0"}, {"compression.type", "brotli"}, {"cleanup.policy", ""}, {"message.timestamp.type", "Never"}, {"max.message.bytes", "-1"},
            {"retention.bytes", "-2"}, {"unclean.leader.election.enable", "maybe"}, {"local.retention.ms", "7"}, {"message.format.version", "3.0"}, {"segment.ms", "0"},
            {"remote.storage.enable", "true"}, {"min.cleanable.dirty.ratio", "2"}, {"compression.gzip.level", "11"}, {"preallocate", "yes"}, {"index.interval.bytes", ""}}) {
            say("alter " + String.join("=", bad), () -> alter(plain, op(bad[0], bad[1], AlterConfigOp.OpType.SET)));
        }
        say("alter append to a number", () -> alter(plain, op("retention.ms", "1", AlterConfigOp.OpType.APPEND)));
        say("alter twice the same", () -> alter(plain, op("retention.ms", "1", AlterConfigOp.OpType.SET), op("retention.ms", "2", AlterConfigOp.OpType.SET)));
        say("alter delete what is not set", () -> alter(plain, op("flush.ms", null, AlterConfigOp.OpType.DELETE)));
        say("alter delete unknown", () -> alter(plain, op("no.such.key", null, AlterConfigOp.OpType.DELETE)));
        say("alter null", () -> alter(plain, op("retention.ms", null, AlterConfigOp.OpType.SET)));
        say("alter no topic", () -> alter(none, op("retention.ms", "1", AlterConfigOp.OpType.SET)));
        say("alter no broker", () -> each(admin.incrementalAlterConfigs(Map.of(new ConfigResource(ConfigResource.Type.BROKER, "99"), List.of(op("log.retention.ms", "1000", AlterConfigOp.OpType.SET))), new AlterConfigsOptions().timeoutMs(500)).values()));
        say("alter broker read-only", () -> alter(broker, op("node.id", "3", AlterConfigOp.OpType.SET)));
        say("alter group", () -> alter(group, op("consumer.session.timeout.ms", "50000", AlterConfigOp.OpType.SET), op("share.auto.offset.reset", "earliest", AlterConfigOp.OpType.SET)));
        settle();
        say("alter group badly", () -> alter(group, op("consumer.session.timeout.ms", "1", AlterConfigOp.OpType.SET)));
        say("alter group unknown", () -> alter(group, op("retention.ms", "1", AlterConfigOp.OpType.SET)));
        say("alter nameless group", () -> alter(new ConfigResource(ConfigResource.Type.GROUP, ""), op("consumer.session.timeout.ms", "50000", AlterConfigOp.OpType.SET)));
        say("describeConfigs group set", () -> shown(group, true));
        say("alter validateOnly", () -> { admin.incrementalAlterConfigs(Map.of(plain, List.of(op("retention.ms", "9", AlterConfigOp.OpType.SET))), new AlterConfigsOptions().validateOnly(true)).all().get(); return "done"; });
        settle();
        say("describeConfigs last", () -> shown(plain, true));
        say("synonyms", () -> {
            Config config = admin.describeConfigs(List.of(plain), new DescribeConfigsOptions().includeSynonyms(true).includeDocumentation(true)).all().get().get(plain);
            return List.of("segment.bytes", "retention.ms", "cleanup.policy").stream().map(n -> config.get(n)).map(c -> c.name() + sorted(c.synonyms(), s -> s.name() + "/" + s.source()) + c.type() + (c.documentation() == null)).collect(joining(" "));
        });
        return null;
    }

    static AlterConfigOp op(String name, String value, AlterConfigOp.OpType type) {
        return new AlterConfigOp(new ConfigEntry(name, value), type);
    }

    static String alter(ConfigResource resource, AlterConfigOp... ops) {
        return each(admin.incrementalAlterConfigs(Map.of(resource, List.of(ops))).values());
    }

    static String shown(ConfigResource resource, boolean onlySet) throws Exception {
        Config config = admin.describeConfigs(List.of(resource)).all().get().get(resource);
        return sorted(config.entries().stream().filter(e -> !onlySet || e.source() == ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG || e.source() == ConfigEntry.ConfigSource.DYNAMIC_GROUP_CONFIG || e.source() == ConfigEntry.ConfigSource.DYNAMIC_BROKER_CONFIG).toList(),
            e -> e.name() + "=" + e.value() + "/" + e.source() + (e.isReadOnly() ? "/read-only" : "") + (e.isSensitive() ? "/sensitive" : ""));
    }

    // ---------------------------------------------------------------- offsets
    static Object offsets() throws Exception {
        create(new NewTopic("o-topic", 2, (short) 1), new NewTopic("o-empty", 1, (short) 1));
        try (KafkaProducer<byte[], byte[]> producer = producer(null)) {
            for (int number = 0; number < 10; number++) {
                long time = number == 4 ? 9000 : 1000 + number;
                producer.send(new ProducerRecord<>("o-topic", 0, time, null, new byte[] {1})).get();
            }
        }
        Map<String, OffsetSpec> specs = new TreeMap<>(Map.of("earliest", OffsetSpec.earliest(), "latest", OffsetSpec.latest(), "max", OffsetSpec.maxTimestamp(), "local", OffsetSpec.earliestLocal(),
            "tiered", OffsetSpec.latestTiered(), "at 1003", OffsetSpec.forTimestamp(1003), "at 9001", OffsetSpec.forTimestamp(9001), "at 0", OffsetSpec.forTimestamp(0), "pending", OffsetSpec.earliestPendingUpload()));
        specs.forEach((name, spec) -> {
            for (IsolationLevel level : IsolationLevel.values()) {
                say("listOffsets " + name + " " + level, () -> {
                    Map<TopicPartition, OffsetSpec> asked = Map.of(part("o-topic", 0), spec, part("o-empty", 0), spec);
                    ListOffsetsResult result = admin.listOffsets(asked, new ListOffsetsOptions(level));
                    return each(Map.of("full", result.partitionResult(part("o-topic", 0)), "empty", result.partitionResult(part("o-empty", 0))),
                        r -> r.offset() + "@" + r.timestamp() + " " + r.leaderEpoch());
                });
            }
        });
        say("listOffsets nowhere", () -> admin.listOffsets(Map.of(part("o-nothere", 0), OffsetSpec.latest()), new ListOffsetsOptions().timeoutMs(500)).all().get());
        Map<TopicPartition, RecordsToDelete> gone = Map.of(part("o-topic", 0), RecordsToDelete.beforeOffset(3), part("o-topic", 1), RecordsToDelete.beforeOffset(-1), part("o-empty", 0), RecordsToDelete.beforeOffset(5));
        say("deleteRecords", () -> each(admin.deleteRecords(gone).lowWatermarks(), DeletedRecords::lowWatermark));
        say("deleteRecords back", () -> each(admin.deleteRecords(Map.of(part("o-topic", 0), RecordsToDelete.beforeOffset(1))).lowWatermarks(), DeletedRecords::lowWatermark));
        say("deleteRecords -2", () -> each(admin.deleteRecords(Map.of(part("o-topic", 0), RecordsToDelete.beforeOffset(-2))).lowWatermarks(), DeletedRecords::lowWatermark));
        say("deleteRecords nowhere", () -> each(admin.deleteRecords(Map.of(part("o-nothere", 0), RecordsToDelete.beforeOffset(1)), new DeleteRecordsOptions().timeoutMs(500)).lowWatermarks(), DeletedRecords::lowWatermark));
        say("listOffsets earliest then", () -> admin.listOffsets(Map.of(part("o-topic", 0), OffsetSpec.earliest())).partitionResult(part("o-topic", 0)).get().offset());
        return null;
    }

    static KafkaProducer<byte[], byte[]> producer(String transactional) {
        Map<String, Object> settings = new HashMap<>(Map.of("bootstrap.servers", bootstrap, "max.block.ms", 20000));
        if (transactional != null) {
            settings.put("transactional.id", transactional);
        }
        return new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
    }

    static KafkaConsumer<byte[], byte[]> consumer(String group, String... more) {
        Map<String, Object> settings = new HashMap<>(Map.of("bootstrap.servers", bootstrap, "group.id", group, "auto.offset.reset", "earliest", "enable.auto.commit", false, "client.id", "admin-work"));
        for (int at = 0; at < more.length; at += 2) {
            settings.put(more[at], more[at + 1]);
        }
        return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    static KafkaConsumer<byte[], byte[]> joined(String group, String topic, String... more) throws Exception {
        KafkaConsumer<byte[], byte[]> consumer = consumer(group, more);
        consumer.subscribe(List.of(topic));
        long end = System.nanoTime() + 30_000_000_000L;
        while (consumer.assignment().isEmpty() && System.nanoTime() < end) {
            consumer.poll(Duration.ofMillis(50));
        }
        return consumer;
    }

    // ---------------------------------------------------------------- groups
    static Object groups() throws Exception {
        create(new NewTopic("g-topic", 3, (short) 1), new NewTopic("g-other", 1, (short) 1));
        Map<TopicPartition, OffsetAndMetadata> some = Map.of(part("g-topic", 0), new OffsetAndMetadata(5, "note"), part("g-topic", 1), new OffsetAndMetadata(6, Optional.of(0), ""));
        say("alterConsumerGroupOffsets new", () -> { admin.alterConsumerGroupOffsets("g-simple", some).all().get(); return "done"; });
        say("alterConsumerGroupOffsets nowhere", () -> each(Map.of("p", admin.alterConsumerGroupOffsets("g-simple", Map.of(part("g-nothere", 0), new OffsetAndMetadata(1))).partitionResult(part("g-nothere", 0)))));
        say("alterConsumerGroupOffsets long", () -> each(Map.of("p", admin.alterConsumerGroupOffsets("g-simple", Map.of(part("g-topic", 2), new OffsetAndMetadata(1, "x".repeat(5000)))).partitionResult(part("g-topic", 2)))));
        say("alterConsumerGroupOffsets nameless", () -> { admin.alterConsumerGroupOffsets("", some).all().get(); return "done"; });
        for (String protocol : List.of("classic", "consumer")) {
            String id = "g-" + protocol;
            try (KafkaConsumer<byte[], byte[]> member = joined(id, "g-topic", "group.protocol", protocol)) {
                member.commitSync(some);
                say(protocol + " alterConsumerGroupOffsets", () -> { admin.alterConsumerGroupOffsets(id, some).all().get(); return "done"; });
                say(protocol + " deleteConsumerGroups", () -> each(admin.deleteConsumerGroups(List.of(id)).deletedGroups()));
                DeleteConsumerGroupOffsetsResult deleted = admin.deleteConsumerGroupOffsets(id, Set.of(part("g-topic", 0), part("g-other", 0)));
                say(protocol + " deleteConsumerGroupOffsets", () -> each(Map.of("t", deleted.partitionResult(part("g-topic", 0)), "o", deleted.partitionResult(part("g-other", 0)))));
                say(protocol + " describeConsumerGroups", () -> each(admin.describeConsumerGroups(List.of(id), new DescribeConsumerGroupsOptions().includeAuthorizedOperations(true)).describedGroups(), AdminWork::group));
                say(protocol + " describeClassicGroups", () -> each(admin.describeClassicGroups(List.of(id, "g-simple", "g-nothere")).describedGroups(), AdminWork::classic));
                say(protocol + " lists", AdminWork::lists);
            }
            say(protocol + " lists then", AdminWork::lists);
            say(protocol + " describeConsumerGroups then", () -> each(admin.describeConsumerGroups(List.of(id, "g-simple", "g-nothere", "")).describedGroups(), AdminWork::group));
            DeleteConsumerGroupOffsetsResult deleted = admin.deleteConsumerGroupOffsets(id, Set.of(part("g-topic", 0), part("g-other", 0), part("g-nothere", 0)));
            say(protocol + " deleteConsumerGroupOffsets then", () -> each(Map.of("t", deleted.partitionResult(part("g-topic", 0)), "o", deleted.partitionResult(part("g-other", 0)), "n", deleted.partitionResult(part("g-nothere", 0)))));
        }
        Map<String, ListConsumerGroupOffsetsSpec> asked = Map.of("g-classic", new ListConsumerGroupOffsetsSpec(), "g-simple", new ListConsumerGroupOffsetsSpec().topicPartitions(List.of(part("g-topic", 1), part("g-other", 0), part("g-nothere", 0))),
            "g-nothere", new ListConsumerGroupOffsetsSpec(), "g-consumer", new ListConsumerGroupOffsetsSpec());
        ListConsumerGroupOffsetsResult several = admin.listConsumerGroupOffsets(asked);
        for (String id : new TreeSet<>(asked.keySet())) {
            say("listConsumerGroupOffsets " + id, () -> new TreeMap<>(several.partitionsToOffsetAndMetadata(id).get().entrySet().stream().collect(java.util.stream.Collectors.toMap(e -> e.getKey().toString(), e -> String.valueOf(e.getValue())))));
        }
        say("listConsumerGroupOffsets stable", () -> admin.listConsumerGroupOffsets("g-simple", new ListConsumerGroupOffsetsOptions().requireStable(true)).partitionsToOffsetAndMetadata().get().size());
        say("deleteConsumerGroupOffsets nowhere", () -> each(Map.of("p", admin.deleteConsumerGroupOffsets("g-nothere", Set.of(part("g-topic", 0))).partitionResult(part("g-topic", 0)))));
        say("deleteConsumerGroups", () -> each(admin.deleteConsumerGroups(List.of("g-simple", "g-classic", "g-consumer", "g-nothere", "")).deletedGroups()));
        say("lists at last", AdminWork::lists);
        return null;
    }

    static Object lists() throws Exception {
        return "all " + listed(new ListGroupsOptions()) + " stable " + listed(new ListGroupsOptions().inGroupStates(Set.of(GroupState.STABLE)))
            + " empty " + listed(new ListGroupsOptions().inGroupStates(Set.of(GroupState.EMPTY))) + " classic " + listed(new ListGroupsOptions().withTypes(Set.of(GroupType.CLASSIC)))
            + " consumer " + listed(new ListGroupsOptions().withTypes(Set.of(GroupType.CONSUMER))) + " streams " + listed(new ListGroupsOptions().withTypes(Set.of(GroupType.STREAMS)))
            + " typed " + listed(ListGroupsOptions.forConsumerGroups()) + " share " + listed(ListGroupsOptions.forShareGroups())
            + " protocol " + listed(new ListGroupsOptions().withProtocolTypes(Set.of("consumer")));
    }

    static Object listed(ListGroupsOptions options) throws Exception {
        return sorted(admin.listGroups(options).all().get(), g -> g.groupId() + "/" + g.type() + "/" + g.protocol() + "/" + g.groupState() + "/" + g.isSimpleConsumerGroup());
    }

    static Object group(ConsumerGroupDescription group) {
        return group.groupId() + " simple=" + group.isSimpleConsumerGroup() + " assignor=" + group.partitionAssignor() + " " + group.type() + " " + group.groupState()
            + " at=" + group.coordinator().id() + " " + sorted(group.authorizedOperations() == null ? Set.of() : group.authorizedOperations(), o -> o)
            + " epochs=" + group.groupEpoch() + "," + group.targetAssignmentEpoch() + " " + sorted(group.members(), AdminWork::member);
    }

    static Object member(MemberDescription member) {
        return member.groupInstanceId() + " " + member.clientId() + " " + member.host() + " " + sorted(member.assignment().topicPartitions(), p -> p) + " target=" + member.targetAssignment().map(a -> sorted(a.topicPartitions(), p -> p))
            + " epoch=" + member.memberEpoch() + " upgraded=" + member.upgraded();
    }

    static Object classic(ClassicGroupDescription group) {
        return group.groupId() + " " + group.protocol() + " " + group.protocolData() + " " + group.isSimpleConsumerGroup() + " " + group.state() + " " + sorted(group.members(), AdminWork::member);
    }

    // ---------------------------------------------------------------- members
    // A removed member of the new protocol joins again with its next heartbeat, from a thread of its own.
    static void seldomHeartbeats(String... groups) throws Exception {
        for (String id : groups) {
            alter(new ConfigResource(ConfigResource.Type.GROUP, id), op("consumer.heartbeat.interval.ms", "15000", AlterConfigOp.OpType.SET));
        }
    }

    // Until the closed members of a group have left: a leaving request may still be on its way.
    static void emptied(String id) throws Exception {
        long end = System.nanoTime() + 60_000_000_000L;
        while (admin.describeConsumerGroups(List.of(id)).all().get().get(id).groupState() != GroupState.EMPTY && System.nanoTime() < end) {
            try {
                admin.removeMembersFromConsumerGroup(id, new RemoveMembersFromConsumerGroupOptions()).all().get();
            } catch (ExecutionException left) { // A member left by itself meanwhile: the next look shows it.
            }
        }
    }

    static Object members() throws Exception {
        create(new NewTopic("m-topic", 2, (short) 1));
        for (String protocol : List.of("classic", "consumer")) {
            String id = "m-" + protocol;
            seldomHeartbeats(id, id + "-all");
            KafkaConsumer<byte[], byte[]> one = joined(id, "m-topic", "group.protocol", protocol, "group.instance.id", "one");
            try {
                RemoveMembersFromConsumerGroupResult result = admin.removeMembersFromConsumerGroup(id, new RemoveMembersFromConsumerGroupOptions(List.of(new MemberToRemove("two"))));
                say(protocol + " remove nobody", () -> { result.memberResult(new MemberToRemove("two")).get(); return "done"; });
                say(protocol + " remove one", () -> { admin.removeMembersFromConsumerGroup(id, new RemoveMembersFromConsumerGroupOptions(List.of(new MemberToRemove("one")))).all().get(); return "done"; });
                say(protocol + " describe then", () -> each(admin.describeConsumerGroups(List.of(id)).describedGroups(), g -> g.groupState() + " " + g.members().size()));
            } finally {
                one.close(org.apache.kafka.clients.consumer.CloseOptions.timeout(Duration.ZERO));
            }
            KafkaConsumer<byte[], byte[]> all = joined(id + "-all", "m-topic", "group.protocol", protocol);
            say(protocol + " remove all", () -> { admin.removeMembersFromConsumerGroup(id + "-all", new RemoveMembersFromConsumerGroupOptions()).all().get(); return "done"; });
            say(protocol + " describe all then", () -> each(admin.describeConsumerGroups(List.of(id + "-all")).describedGroups(), g -> g.groupState() + " " + g.members().size()));
            all.close(org.apache.kafka.clients.consumer.CloseOptions.timeout(Duration.ZERO));
            say(protocol + " remove from nothing", () -> { admin.removeMembersFromConsumerGroup("m-nothere", new RemoveMembersFromConsumerGroupOptions(List.of(new MemberToRemove("one")))).all().get(); return "done"; });
        }
        for (String id : List.of("m-classic", "m-consumer", "m-classic-all", "m-consumer-all")) {
            emptied(id);
        }
        say("delete", () -> each(admin.deleteConsumerGroups(List.of("m-classic", "m-consumer", "m-classic-all", "m-consumer-all")).deletedGroups()));
        return null;
    }

    // ---------------------------------------------------------------- transactions
    static Object transactions() throws Exception {
        create(new NewTopic("x-topic", 2, (short) 1));
        KafkaProducer<byte[], byte[]> first = producer("x-first");
        first.initTransactions();
        say("describeTransactions begun", () -> described(List.of("x-first", "x-nothere", "")));
        first.beginTransaction();
        first.send(new ProducerRecord<>("x-topic", 0, null, new byte[] {1})).get();
        first.sendOffsetsToTransaction(Map.of(part("x-topic", 1), new OffsetAndMetadata(3)), new ConsumerGroupMetadata("x-group"));
        say("describeTransactions open", () -> described(List.of("x-first")));
        say("listTransactions", AdminWork::open);
        say("describeProducers", () -> producers(0));
        say("describeProducers none", () -> producers(1));
        say("describeProducers nowhere", () -> admin.describeProducers(List.of(part("x-nothere", 0)), new DescribeProducersOptions().timeoutMs(500)).all().get());
        say("listConsumerGroupOffsets pending", () -> admin.listConsumerGroupOffsets("x-group").partitionsToOffsetAndMetadata().get());
        say("listConsumerGroupOffsets pending stable", () -> admin.listConsumerGroupOffsets("x-group", new ListConsumerGroupOffsetsOptions().requireStable(true).timeoutMs(500)).partitionsToOffsetAndMetadata().get());
        say("deleteConsumerGroups pending", () -> each(admin.deleteConsumerGroups(List.of("x-group")).deletedGroups()));
        say("listOffsets committed", () -> admin.listOffsets(Map.of(part("x-topic", 0), OffsetSpec.latest()), new ListOffsetsOptions(IsolationLevel.READ_COMMITTED)).partitionResult(part("x-topic", 0)).get().offset());
        say("fenceProducers", () -> each(admin.fenceProducers(List.of("x-first", "x-new")).fencedProducers()));
        say("commit after it was fenced", () -> { first.commitTransaction(); return "done"; });
        first.close(Duration.ZERO);
        say("listTransactions fenced", AdminWork::open);
        say("describeTransactions fenced", () -> described(List.of("x-first", "x-new")));
        say("listConsumerGroupOffsets aborted", () -> admin.listConsumerGroupOffsets("x-group").partitionsToOffsetAndMetadata().get());
        producer("x-second").initTransactions(); // an epoch before the next one
        KafkaProducer<byte[], byte[]> second = producer("x-second");
        second.initTransactions();
        second.beginTransaction();
        second.send(new ProducerRecord<>("x-topic", 0, null, new byte[] {1})).get();
        ProducerState state = admin.describeProducers(List.of(part("x-topic", 0))).partitionResult(part("x-topic", 0)).get().activeProducers().stream().filter(p -> p.currentTransactionStartOffset().isPresent()).findFirst().get();
        say("abortTransaction bad epoch", () -> { admin.abortTransaction(new AbortTransactionSpec(part("x-topic", 0), state.producerId(), (short) (state.producerEpoch() - 1), 0)).all().get(); return "done"; });
        say("abortTransaction bad coordinator", () -> { admin.abortTransaction(new AbortTransactionSpec(part("x-topic", 0), state.producerId(), (short) state.producerEpoch(), -5)).all().get(); return "done"; });
        say("abortTransaction", () -> { admin.abortTransaction(new AbortTransactionSpec(part("x-topic", 0), state.producerId(), (short) state.producerEpoch(), state.coordinatorEpoch().orElse(0))).all().get(); return "done"; });
        say("describeProducers aborted", () -> producers(0));
        say("abortTransaction nowhere", () -> { admin.abortTransaction(new AbortTransactionSpec(part("x-nothere", 0), 1, (short) 0, 0), new AbortTransactionOptions().timeoutMs(500)).all().get(); return "done"; });
        say("terminateTransaction", () -> { admin.forceTerminateTransaction("x-second").result().get(); return "done"; });
        say("terminateTransaction nowhere", () -> { admin.forceTerminateTransaction("x-nowhere").result().get(); return "done"; });
        second.close(Duration.ZERO);
        say("listTransactions at last", AdminWork::open);
        return null;
    }

    static Object described(List<String> ids) {
        DescribeTransactionsResult result = admin.describeTransactions(ids);
        return each(ids.stream().collect(java.util.stream.Collectors.toMap(id -> id, result::description)),
            t -> t.state() + " epoch " + t.producerEpoch() + " timeout " + t.transactionTimeoutMs() + " at " + t.coordinatorId() + " begun " + t.transactionStartTimeMs().isPresent() + " " + sorted(t.topicPartitions(), p -> p));
    }

    static Object open() throws Exception {
        Function<TransactionListing, Object> shown = t -> t.transactionalId() + "/" + t.state();
        return sorted(admin.listTransactions().all().get(), shown) + " ongoing " + sorted(admin.listTransactions(new ListTransactionsOptions().filterStates(Set.of(TransactionState.ONGOING))).all().get(), shown)
            + " unknown " + sorted(admin.listTransactions(new ListTransactionsOptions().filterStates(Set.of(TransactionState.UNKNOWN))).all().get(), shown)
            + " producer " + sorted(admin.listTransactions(new ListTransactionsOptions().filterProducerIds(Set.of(987654L))).all().get(), shown)
            + " long " + sorted(admin.listTransactions(new ListTransactionsOptions().filterOnDuration(3_600_000)).all().get(), shown)
            + " pattern " + sorted(admin.listTransactions(new ListTransactionsOptions().filterOnTransactionalIdPattern("x-f.*")).all().get(), shown);
    }

    static Object producers(int partition) throws Exception {
        return sorted(admin.describeProducers(List.of(part("x-topic", partition))).partitionResult(part("x-topic", partition)).get().activeProducers(),
            p -> "epoch " + p.producerEpoch() + " sequence " + p.lastSequence() + " coordinator " + p.coordinatorEpoch() + " since " + p.currentTransactionStartOffset());
    }

    // ---------------------------------------------------------------- cluster
    static Object cluster() throws Exception {
        create(new NewTopic("k-topic", 1, (short) 1));
        say("describeCluster", () -> {
            DescribeClusterResult result = admin.describeCluster(new DescribeClusterOptions().includeAuthorizedOperations(true));
            return result.nodes().get().size() + " " + result.controller().get().id() + " " + !result.clusterId().get().isEmpty() + " " + sorted(result.authorizedOperations().get(), o -> o);
        });
        say("describeFeatures", () -> {
            FeatureMetadata features = admin.describeFeatures().featureMetadata().get();
            return new TreeMap<>(features.finalizedFeatures()) + " " + new TreeMap<>(features.supportedFeatures());
        });
        say("describeLogDirs", () -> sorted(admin.describeLogDirs(List.of(1)).allDescriptions().get().get(1).values(),
            d -> d.error() + " " + sorted(d.replicaInfos().entrySet().stream().filter(e -> e.getKey().topic().equals("k-topic")).toList(), e -> e.getKey() + " " + e.getValue()) + d.totalBytes().isPresent() + d.usableBytes().isPresent()));
        say("describeReplicaLogDirs", () -> {
            TopicPartitionReplica replica = new TopicPartitionReplica("k-topic", 0, 1);
            DescribeReplicaLogDirsResult.ReplicaLogDirInfo info = admin.describeReplicaLogDirs(List.of(replica)).values().get(replica).get();
            return (info.getCurrentReplicaLogDir() != null) + " " + info.getCurrentReplicaOffsetLag() + " " + info.getFutureReplicaLogDir();
        });
        say("electLeaders", () -> admin.electLeaders(ElectionType.PREFERRED, Set.of(part("k-topic", 0), part("k-nothere", 0))).partitions().get().entrySet().stream().map(e -> e.getKey() + " " + e.getValue().map(AdminWork::error)).sorted().toList());
        say("listPartitionReassignments", () -> admin.listPartitionReassignments().reassignments().get());
        say("alterPartitionReassignments", () -> each(admin.alterPartitionReassignments(Map.of(part("k-topic", 0), Optional.of(new NewPartitionReassignment(List.of(7))), part("k-nothere", 0), Optional.empty())).values()));
        say("describeClientQuotas", () -> admin.describeClientQuotas(ClientQuotaFilter.all()).entities().get());
        say("describeUserScramCredentials", () -> admin.describeUserScramCredentials().all().get());
        say("describeAcls", () -> admin.describeAcls(AclBindingFilter.ANY).values().get());
        say("describeMetadataQuorum", () -> admin.describeMetadataQuorum().quorumInfo().get().leaderId());
        say("listConfigResources", () -> sorted(admin.listConfigResources().all().get(), r -> r));
        say("listConfigResources groups", () -> sorted(admin.listConfigResources(Set.of(ConfigResource.Type.GROUP), new ListConfigResourcesOptions()).all().get(), r -> r));
        say("describeDelegationToken", () -> admin.describeDelegationToken().delegationTokens().get());
        say("unregisterBroker", () -> admin.unregisterBroker(77, new UnregisterBrokerOptions().timeoutMs(500)).all().get());
        say("describeShareGroups", () -> each(admin.describeShareGroups(List.of("k-nothere")).describedGroups()));
        say("describeStreamsGroups", () -> each(admin.describeStreamsGroups(List.of("k-nothere")).describedGroups()));
        say("clientInstanceId", () -> admin.clientInstanceId(Duration.ofSeconds(2)));
        return null;
    }

}
