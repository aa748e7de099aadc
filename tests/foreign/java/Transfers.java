import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Java's transactional producer. Arguments: bootstrap, topic with two partitions, group. */
public class Transfers {
    private static final int MANY = 500;

    public static void main(String[] arguments) {
        String bootstrap = arguments[0];
        String topic = arguments[1];
        String group = arguments[2];
        TopicPartition source = new TopicPartition(topic, 0);
        KafkaConsumer<String, String> consumer = consumer(bootstrap, group);
        KafkaProducer<String, String> first = producer(bootstrap, group);
        for (int number = 0; number < 5; number++) {
            first.beginTransaction();
            send(first, topic, number % 2, "committed " + number);
            send(first, topic, (number + 1) % 2, "committed " + number);
            Map<TopicPartition, OffsetAndMetadata> offsets =
                    Map.of(source, new OffsetAndMetadata(100 + number));
            first.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
            first.commitTransaction();
            first.beginTransaction();
            send(first, topic, number % 2, "aborted " + number);
            first.flush();
            offsets = Map.of(source, new OffsetAndMetadata(900 + number));
            first.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
            first.abortTransaction();
        }
        first.beginTransaction();
        for (int number = 0; number < MANY; number++) {
            send(first, topic, number % 2, "many " + number);
        }
        first.commitTransaction();
        first.beginTransaction();
        send(first, topic, 0, "open");
        first.flush();
        KafkaProducer<String, String> second = producer(bootstrap, group);
        second.beginTransaction();
        send(second, topic, 1, "second");
        second.commitTransaction();
        try {
            first.commitTransaction();
            System.out.println("not fenced");
        } catch (RuntimeException error) {
            System.out.println("fenced " + error.getClass().getSimpleName());
        }
        first.close(Duration.ZERO);
        second.close();
        read(consumer, topic);
        consumer.close();
    }

    private static void send(
            KafkaProducer<String, String> producer, String topic, int partition, String value) {
        producer.send(new ProducerRecord<>(topic, partition, null, value));
    }

    private static KafkaProducer<String, String> producer(String bootstrap, String name) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("transactional.id", name);
        settings.put("batch.size", "200");
        KafkaProducer<String, String> producer =
                new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
        producer.initTransactions();
        return producer;
    }

    private static KafkaConsumer<String, String> consumer(String bootstrap, String group) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("group.id", group);
        settings.put("isolation.level", "read_committed");
        settings.put("enable.auto.commit", "false");
        return new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
    }

    private static void read(KafkaConsumer<String, String> consumer, String topic) {
        List<TopicPartition> partitions = new ArrayList<>();
        for (int partition = 0; partition < 2; partition++) {
            partitions.add(new TopicPartition(topic, partition));
        }
        consumer.assign(partitions);
        consumer.seekToBeginning(partitions);
        Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
        while (partitions.stream().anyMatch(each -> consumer.position(each) < ends.get(each))) {
            for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofSeconds(1))) {
                System.out.println("read " + record.partition() + " " + record.value());
            }
        }
        TopicPartition source = partitions.get(0);
        OffsetAndMetadata committed = consumer.committed(Set.of(source)).get(source);
        System.out.println("offset " + (committed == null ? "none" : committed.offset()));
    }
}
