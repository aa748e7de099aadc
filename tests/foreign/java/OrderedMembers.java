import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Random;
import java.util.Set;
import java.util.stream.Collectors;

import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * Two members of the group of `tests/kills/ordering`, in one process: what `member.py` there does,
 * with Kafka's own share consumer. Each writes a journal of its own.
 *
 * Arguments: bootstrap servers, folder, name, life, topic/group/most.
 */
public final class OrderedMembers extends Thread {
    private static final int MEMBERS = 2;
    private static final double RELEASED = 0.02;
    private static volatile boolean stopping = false;

    private final Path journal;
    private final String who;
    private final int life;
    private final String topic;
    private final Random random;
    private final KafkaShareConsumer<String, String> consumer;

    private OrderedMembers(String[] arguments, int number) {
        who = arguments[2] + "." + number;
        life = Integer.parseInt(arguments[3]);
        journal = Path.of(arguments[1], who + ".journal");
        String[] more = arguments[4].split("/");
        topic = more[0];
        random = new Random((who + life).hashCode());
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("group.id", more[1]);
        settings.put("share.acknowledgement.mode", "explicit");
        settings.put("max.poll.records", more[2]);
        settings.put("default.api.timeout.ms", "20000");
        consumer = new KafkaShareConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
    }

    public static void main(String[] arguments) {
        List<OrderedMembers> members = new ArrayList<>();
        for (int number = 0; number < MEMBERS; number++) {
            members.add(new OrderedMembers(arguments, number));
        }
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            stopping = true;
            members.forEach(OrderedMembers::await);
        }));
        members.forEach(Thread::start);
        members.forEach(OrderedMembers::await);
    }

    private void await() {
        try {
            join();
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    @Override
    public void run() {
        note("begins", "");
        consumer.subscribe(List.of(topic));
        while (!stopping) {
            ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(300));
            if (!records.isEmpty()) {
                turn(records);
            }
        }
        consumer.close();
        note("ends", "");
    }

    private void turn(ConsumerRecords<String, String> records) {
        List<String> took = new ArrayList<>();
        for (ConsumerRecord<String, String> record : records) {
            took.add(String.format("[%d, %d, %d]", record.partition(), record.offset(), record.deliveryCount().get()));
        }
        note("took", "\"records\": " + took);
        pause(50 + random.nextInt(250));
        List<String> accepted = new ArrayList<>();
        Map<ConsumerRecord<String, String>, AcknowledgeType> answers = new LinkedHashMap<>();
        Set<String> released = new HashSet<>();
        for (ConsumerRecord<String, String> record : records) {
            String key = record.partition() + " " + record.key();
            if (released.contains(key) || random.nextDouble() < RELEASED) {
                released.add(key);
                answers.put(record, AcknowledgeType.RELEASE);
            } else {
                accepted.add(String.format("[%d, %d]", record.partition(), record.offset()));
                answers.put(record, AcknowledgeType.ACCEPT);
            }
        }
        // Before the client knows of it: a fetch of its own accord takes acknowledgements along.
        note("accepting", "\"records\": " + accepted);
        answers.forEach(consumer::acknowledge);
        answered(consumer.commitSync());
    }

    private void answered(Map<TopicIdPartition, Optional<KafkaException>> results) {
        List<Integer> done = new ArrayList<>();
        List<String> refused = new ArrayList<>();
        results.forEach((place, error) -> {
            if (error.isEmpty()) {
                done.add(place.partition());
            } else {
                refused.add(String.format("\"%d\": \"%s\"", place.partition(), error.get().getClass().getSimpleName()));
            }
        });
        note("answered", "\"done\": " + done + ", \"refused\": {"
            + refused.stream().collect(Collectors.joining(", ")) + "}");
    }

    /** A line, as `tests/kills/journal.py` writes it; the clock is the same one on Linux. */
    private void note(String what, String more) {
        String line = String.format("[%d, \"%s\", %d, \"%s\", {%s}]\n", System.nanoTime(), who, life, what, more);
        try {
            Files.write(journal, line.getBytes(StandardCharsets.UTF_8),
                StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
    }

    private static void pause(long ms) {
        try {
            Thread.sleep(ms);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }
}
