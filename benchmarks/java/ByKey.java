import io.confluent.parallelconsumer.ParallelConsumerOptions;
import io.confluent.parallelconsumer.ParallelConsumerOptions.ProcessingOrder;
import io.confluent.parallelconsumer.ParallelStreamProcessor;
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * Handles the records of a topic: each takes so many microseconds in which nothing is computed.
 * Arguments: how (`plain`: a consumer that takes one record after the other; else the number of
 * workers of Confluent's Parallel Consumer, each key in order), bootstrap, topic, group,
 * microseconds, records. Prints records per second, from the first to the last.
 */
public final class ByKey {
    private static final Duration POLL = Duration.ofMillis(100);

    private final AtomicLong handled = new AtomicLong();
    private final long records;
    private final long nanos;
    private volatile long began;

    private ByKey(long records, long nanos) {
        this.records = records;
        this.nanos = nanos;
    }

    public static void main(String[] arguments) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[1]);
        settings.put("group.id", arguments[3]);
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", arguments[0].equals("plain"));
        KafkaConsumer<String, byte[]> consumer = new KafkaConsumer<>(
                settings, new StringDeserializer(), new ByteArrayDeserializer());
        ByKey work = new ByKey(
                Long.parseLong(arguments[5]), Long.parseLong(arguments[4]) * 1_000);
        List<String> topics = List.of(arguments[2]);
        if (arguments[0].equals("plain")) {
            consumer.subscribe(topics);
            while (true) {
                for (ConsumerRecord<String, byte[]> record : consumer.poll(POLL)) {
                    work.handle();
                }
            }
        }
        ParallelStreamProcessor<String, byte[]> processor =
                ParallelStreamProcessor.createEosStreamProcessor(
                        ParallelConsumerOptions.<String, byte[]>builder()
                                .ordering(ProcessingOrder.KEY)
                                .maxConcurrency(Integer.parseInt(arguments[0]))
                                .consumer(consumer)
                                .build());
        processor.subscribe(topics);
        processor.poll(record -> work.handle());
    }

    private void handle() {
        if (began == 0) {
            synchronized (this) {
                if (began == 0) {
                    began = System.nanoTime();
                }
            }
        }
        long end = System.nanoTime() + nanos;
        for (long left = nanos; left > 0; left = end - System.nanoTime()) {
            LockSupport.parkNanos(left);
        }
        if (handled.incrementAndGet() == records) {
            System.out.println(records * 1e9 / (System.nanoTime() - began));
            System.out.flush();
            Runtime.getRuntime().halt(0);
        }
    }
}
