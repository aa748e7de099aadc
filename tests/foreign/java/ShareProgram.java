import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RecordDeserializationException;
import org.apache.kafka.common.errors.SerializationException;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * A share consumer in explicit mode that does to each record what the record's value says, prints a
 * line of JSON for all that it sees, and deletes its group when so many records are accepted or
 * rejected.
 *
 * Arguments: bootstrap servers, topic, group, number of records.
 */
public final class ShareProgram {
    private static final Duration PATIENCE = Duration.ofSeconds(60);

    private final String bootstrap;
    private final String group;
    private final KafkaShareConsumer<String, String> consumer;
    private final List<String> renewed = new ArrayList<>();
    private int finished = 0;

    private ShareProgram(String bootstrap, String group) {
        this.bootstrap = bootstrap;
        this.group = group;
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("group.id", group);
        settings.put("share.acknowledgement.mode", "explicit");
        settings.put("share.acquire.mode", "record_limit");
        settings.put("max.poll.records", "2");
        consumer = new KafkaShareConsumer<>(settings, new StringDeserializer(), new Reader());
    }

    public static void main(String[] arguments) throws InterruptedException {
        ShareProgram program = new ShareProgram(arguments[0], arguments[2]);
        program.run(arguments[1], Integer.parseInt(arguments[3]));
    }

    private void run(String topic, int wanted) throws InterruptedException {
        consumer.setAcknowledgementCommitCallback((offsets, error) -> offsets.forEach((partition, done) ->
            print("callback", "\"offsets\": " + new TreeSet<>(done) + ", \"error\": " + quoted(error))));
        consumer.subscribe(List.of(topic));
        ConsumerRecord<String, String> last = null;
        while (finished < wanted) {
            ConsumerRecords<String, String> records = poll();
            for (ConsumerRecord<String, String> record : records) {
                print("record", String.format(
                    "\"value\": \"%s\", \"offset\": %d, \"delivery\": %d, \"batch\": %d",
                    record.value(), record.offset(), record.deliveryCount().get(), records.count()));
                obey(record);
                last = record;
            }
            print("lock", "\"ms\": " + consumer.acquisitionLockTimeoutMs().orElse(-1));
            commit();
        }
        acknowledgeTwice(last);
        wakeUp();
        consumer.close(PATIENCE);
        print("closed", "\"finished\": " + finished);
        deleteGroup();
        deleteGroup();
    }

    private ConsumerRecords<String, String> poll() {
        long deadline = System.nanoTime() + PATIENCE.toNanos();
        while (System.nanoTime() < deadline) {
            try {
                ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(500));
                if (!records.isEmpty()) {
                    return records;
                }
            } catch (RecordDeserializationException broken) {
                TopicPartition where = broken.topicPartition();
                consumer.acknowledge(where.topic(), where.partition(), broken.offset(), AcknowledgeType.REJECT);
                finished++;
                print("broken", "\"offset\": " + broken.offset());
                return ConsumerRecords.empty();
            }
        }
        throw new IllegalStateException("no record in " + PATIENCE);
    }

    private void obey(ConsumerRecord<String, String> record) {
        switch (record.value()) {
            case "release" -> {
                boolean again = record.deliveryCount().get() == 1;
                finish(record, again ? AcknowledgeType.RELEASE : AcknowledgeType.ACCEPT);
            }
            case "reject" -> finish(record, AcknowledgeType.REJECT);
            case "renew" -> {
                boolean first = !renewed.contains(record.value());
                renewed.add(record.value());
                finish(record, first ? AcknowledgeType.RENEW : AcknowledgeType.ACCEPT);
            }
            case "change" -> {
                consumer.acknowledge(record, AcknowledgeType.RELEASE);
                finish(record, AcknowledgeType.REJECT);
            }
            default -> {
                consumer.acknowledge(record);
                finished++;
            }
        }
    }

    private void finish(ConsumerRecord<String, String> record, AcknowledgeType type) {
        consumer.acknowledge(record, type);
        if (type == AcknowledgeType.ACCEPT || type == AcknowledgeType.REJECT) {
            finished++;
        }
    }

    private void commit() {
        Map<TopicIdPartition, Optional<KafkaException>> results = consumer.commitSync(PATIENCE);
        results.forEach((partition, error) ->
            print("commit", "\"partition\": " + partition.partition() + ", \"error\": " + quoted(error.orElse(null))));
    }

    private void acknowledgeTwice(ConsumerRecord<String, String> record) {
        try {
            consumer.acknowledge(record);
        } catch (IllegalStateException refused) {
            print("refused", "\"error\": " + quoted(refused));
        }
    }

    private void wakeUp() throws InterruptedException {
        Thread other = new Thread(consumer::wakeup);
        other.start();
        try {
            consumer.poll(PATIENCE);
        } catch (WakeupException woken) {
            print("woken", "\"error\": null");
        }
        other.join();
    }

    private void deleteGroup() throws InterruptedException {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            admin.deleteShareGroups(List.of(group)).all().get();
            print("deleted", "\"error\": null");
        } catch (ExecutionException refused) {
            print("deleted", "\"error\": \"" + refused.getCause().getMessage() + "\"");
        }
    }

    /** Text, but for one word that it cannot read. */
    private static final class Reader implements Deserializer<String> {
        @Override
        public String deserialize(String topic, byte[] data) {
            String text = new String(data, StandardCharsets.UTF_8);
            if ("broken".equals(text)) {
                throw new SerializationException("a broken record");
            }
            return text;
        }
    }

    private static String quoted(Exception error) {
        return error == null ? "null" : "\"" + error.getClass().getSimpleName() + "\"";
    }

    private static void print(String event, String rest) {
        System.out.println("{\"event\": \"" + event + "\", " + rest + "}");
    }
}
