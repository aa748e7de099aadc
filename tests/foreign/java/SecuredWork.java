import java.io.FileReader;
import java.io.Reader;
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.TimeUnit;

import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Writes a record, reads it by a share group and accepts it, once for each file of properties.
 * Prints the file's name and "ok", or the deepest cause of what went wrong.
 *
 * Arguments: files of properties, each with a topic and a group in "work.topic" and "work.group".
 */
public final class SecuredWork {
    private static final Duration PATIENCE = Duration.ofSeconds(40);

    private SecuredWork() {
    }

    public static void main(String[] files) throws Exception {
        for (String file : files) {
            Properties settings = new Properties();
            try (Reader reader = new FileReader(file)) {
                settings.load(reader);
            }
            System.out.println(file + "\t" + outcome(settings));
        }
    }

    private static String outcome(Properties settings) {
        String topic = (String) settings.remove("work.topic");
        settings.put("group.id", settings.remove("work.group"));
        try {
            write(settings, topic);
            read(settings, topic);
            return "ok";
        } catch (Exception error) {
            Throwable cause = error;
            while (cause.getCause() != null) {
                cause = cause.getCause();
            }
            return cause.getClass().getSimpleName() + ": " + cause.getMessage();
        }
    }

    private static void write(Properties settings, String topic) throws Exception {
        Properties own = new Properties();
        own.putAll(settings);
        own.remove("group.id");
        own.put("max.block.ms", "20000");
        own.put("delivery.timeout.ms", "20000");
        own.put("request.timeout.ms", "10000");
        try (var producer = new KafkaProducer<>(own, new StringSerializer(), new StringSerializer())) {
            producer.send(new ProducerRecord<>(topic, "java")).get(PATIENCE.toSeconds(), TimeUnit.SECONDS);
        }
    }

    private static void read(Properties settings, String topic) {
        Properties own = new Properties();
        own.putAll(settings);
        own.put("share.acknowledgement.mode", "explicit");
        long until = System.nanoTime() + PATIENCE.toNanos();
        try (var consumer = new KafkaShareConsumer<>(own, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(topic));
            while (System.nanoTime() < until) {
                boolean found = false;
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofSeconds(1))) {
                    consumer.acknowledge(record, AcknowledgeType.ACCEPT);
                    found = true;
                }
                if (found) {
                    consumer.commitSync(PATIENCE).values().forEach(error -> {
                        if (error.isPresent()) {
                            throw error.get();
                        }
                    });
                    return;
                }
            }
            throw new IllegalStateException("no record came");
        }
    }
}
