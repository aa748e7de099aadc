import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Random;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Collectors;

import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * Members of share groups that print what they do as a history (docs/correctness.md), until the
 * standard input ends.
 *
 * Arguments: bootstrap servers, topic, seed, release, reject, slow (of a hundred), milliseconds that
 * who is slow works; then a group for each member, as `group/member`.
 */
public final class HistoryMembers extends Thread {
    /** The calls of Python's clients in the same history have the numbers below. */
    private static final AtomicLong CALLS = new AtomicLong(1_000_000_000L);
    private static final int[] MOST = {1, 5, 50};
    private static volatile boolean leaving = false;

    private final String group;
    private final String member;
    private final String topic;
    private final int release;
    private final int reject;
    private final int slow;
    private final long slowMs;
    private final Random chance;
    private final KafkaShareConsumer<String, String> consumer;
    /** When the last poll that brought records began, and the one before: a fetch may be as old. */
    private double lastMs = nowMs();
    private double sinceMs = nowMs();

    private HistoryMembers(String[] arguments, String who) {
        group = who.substring(0, who.indexOf('/'));
        member = who.substring(who.indexOf('/') + 1);
        topic = arguments[1];
        chance = new Random((arguments[2] + member).hashCode());
        release = Integer.parseInt(arguments[3]);
        reject = Integer.parseInt(arguments[4]);
        slow = Integer.parseInt(arguments[5]);
        slowMs = Long.parseLong(arguments[6]);
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("group.id", group);
        settings.put("share.acknowledgement.mode", "explicit");
        settings.put("max.poll.records", String.valueOf(MOST[chance.nextInt(MOST.length)]));
        settings.put("default.api.timeout.ms", "30000");
        consumer = new KafkaShareConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
    }

    public static void main(String[] arguments) throws IOException, InterruptedException {
        List<HistoryMembers> members = new ArrayList<>();
        for (int at = 7; at < arguments.length; at++) {
            members.add(new HistoryMembers(arguments, arguments[at]));
        }
        members.forEach(Thread::start);
        while (System.in.read() >= 0) {
            continue;
        }
        leaving = true;
        for (HistoryMembers one : members) {
            one.join();
        }
    }

    @Override
    public void run() {
        consumer.subscribe(List.of(topic));
        while (!leaving) {
            ConsumerRecords<String, String> records = poll();
            if (!records.isEmpty()) {
                pause(chance.nextInt(100) < slow ? slowMs : 10);
                answer(records);
            }
        }
        tell("leave", who());
        consumer.close();
    }

    private ConsumerRecords<String, String> poll() {
        long call = CALLS.incrementAndGet();
        double beganMs = tell("poll", "\"n\": " + call + ", " + who());
        ConsumerRecords<String, String> records;
        try {
            records = consumer.poll(Duration.ofSeconds(1));
        } catch (KafkaException error) {
            tell("polled", "\"n\": " + call + ", \"acquired\": [], \"result\": \"unknown\"");
            pause(100);
            return ConsumerRecords.empty();
        }
        if (records.isEmpty()) {
            tell("polled", "\"n\": " + call + ", \"acquired\": [], \"records\": []");
            return records;
        }
        List<String> acquired = new ArrayList<>();
        List<String> read = new ArrayList<>();
        for (ConsumerRecord<String, String> one : records) {
            acquired.add(String.format("[%s, %d, %d]", place(one), one.offset(), one.deliveryCount().get()));
            read.add(String.format("[%s, \"%s\"]", place(one), one.value()));
        }
        tell("polled", "\"n\": " + call + ", \"acquired\": " + acquired + ", \"records\": " + read
            + String.format(Locale.ROOT, ", \"since\": %.3f", sinceMs));
        sinceMs = lastMs;
        lastMs = beganMs;
        return records;
    }

    private void answer(ConsumerRecords<String, String> records) {
        List<String> acks = new ArrayList<>();
        List<Integer> partitions = new ArrayList<>();
        for (ConsumerRecord<String, String> one : records) {
            int drawn = chance.nextInt(100);
            AcknowledgeType type = drawn < release ? AcknowledgeType.RELEASE
                : drawn < release + reject ? AcknowledgeType.REJECT : AcknowledgeType.ACCEPT;
            consumer.acknowledge(one, type);
            partitions.add(one.partition());
            acks.add(String.format("[%s, %d, \"%s\"]", place(one), one.offset(), type));
        }
        long call = CALLS.incrementAndGet();
        tell("ack", "\"n\": " + call + ", " + who() + ", \"acks\": " + acks);
        Map<Integer, Boolean> done;
        try {
            Map<TopicIdPartition, Optional<KafkaException>> said = consumer.commitSync();
            done = said.entrySet().stream().collect(
                Collectors.toMap(one -> one.getKey().partition(), one -> one.getValue().isEmpty()));
        } catch (KafkaException error) {
            done = Map.of();
        }
        List<String> results = new ArrayList<>();
        for (int partition : partitions) {
            results.add(done.getOrDefault(partition, false) ? "\"ok\"" : "\"unknown\"");
        }
        tell("acked", "\"n\": " + call + ", \"results\": " + results);
    }

    private String who() {
        return String.format("\"group\": \"%s\", \"member\": \"%s\"", group, member);
    }

    private static String place(ConsumerRecord<String, String> one) {
        return String.format("\"%s\", %d, %d", one.topic(), one.partition(), one.offset());
    }

    /** On Linux the clock of Python's time.monotonic. */
    private static double nowMs() {
        return System.nanoTime() / 1e6;
    }

    private static double tell(String op, String more) {
        synchronized (CALLS) {
            double now = nowMs();
            System.out.printf(Locale.ROOT, "{\"op\": \"%s\", \"t\": %.3f, %s}%n", op, now, more);
            System.out.flush();
            return now;
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
