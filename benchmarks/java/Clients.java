import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReferenceArray;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Kafka's own clients under load, many in one process: each has a thread and connections of its
 * own. Arguments: what to do, bootstrap, topic, number of clients, then what each job names.
 * Prints one number.
 */
public final class Clients {
    private static final int WARM_UP_PARTS = 10;
    private static final int VALUES_BYTES = 4 << 20;
    private static final Duration POLL = Duration.ofMillis(100);
    private static final long GROUP_SECONDS = 120;

    private final String bootstrap;
    private final String topic;
    private final int clients;
    private final AtomicLong began = new AtomicLong();
    private final AtomicLong ended = new AtomicLong();

    private Clients(String bootstrap, String topic, int clients) {
        this.bootstrap = bootstrap;
        this.topic = topic;
        this.clients = clients;
    }

    public static void main(String[] arguments) throws Exception {
        Clients all = new Clients(arguments[1], arguments[2], Integer.parseInt(arguments[3]));
        String[] rest = List.of(arguments).subList(4, arguments.length).toArray(new String[0]);
        double found = switch (arguments[0]) {
            case "produce" -> all.produce(
                    Integer.parseInt(rest[0]), Integer.parseInt(rest[1]), rest[2], rest[3]);
            case "consume" -> all.consume(Integer.parseInt(rest[0]));
            case "transactions" -> all.transactions(
                    Integer.parseInt(rest[0]), Integer.parseInt(rest[1]), Integer.parseInt(rest[2]));
            case "group" -> all.group(Integer.parseInt(rest[0]), rest[1], rest[2]);
            default -> throw new IllegalArgumentException(arguments[0]);
        };
        System.out.println(found);
        Runtime.getRuntime().halt(0);
    }

    /** Records per second from the end of a warm-up to the last acknowledgement. */
    private double produce(int records, int bytes, String acks, String codec) throws Exception {
        byte[][] values = values(bytes);
        int each = records / clients;
        int warmUp = Math.max(1, each / WARM_UP_PARTS);
        List<KafkaProducer<byte[], byte[]>> producers = new ArrayList<>();
        for (int number = 0; number < clients; number++) {
            Properties settings = producing();
            settings.put("acks", acks);
            settings.put("compression.type", codec);
            producers.add(new KafkaProducer<>(settings));
        }
        inThreads((number, barrier) -> {
            KafkaProducer<byte[], byte[]> producer = producers.get(number);
            send(producer, values, warmUp);
            barrier.await();
            send(producer, values, each);
        });
        return (double) each * clients / seconds();
    }

    private void send(KafkaProducer<byte[], byte[]> producer, byte[][] values, int records) {
        for (int number = 0; number < records; number++) {
            producer.send(new ProducerRecord<>(topic, values[number % values.length]), Clients::check);
        }
        producer.flush();
    }

    /** Records per second from the first fetch to the last record. Each client reads a share. */
    private double consume(int partitions) throws Exception {
        AtomicLong read = new AtomicLong();
        inThreads((number, barrier) -> {
            try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(consuming())) {
                Map<TopicPartition, Long> ends = place(consumer, number, partitions);
                barrier.await();
                read.addAndGet(drain(consumer, ends));
            }
        });
        return read.get() / seconds();
    }

    /** Assigns the share of one client: all partitions, or a slice of one. Returns where it ends. */
    private Map<TopicPartition, Long> place(
            KafkaConsumer<byte[], byte[]> consumer, int number, int partitions) {
        List<TopicPartition> mine = new ArrayList<>();
        for (int partition = 0; partition < partitions; partition++) {
            if (clients == 1 || partition == number % partitions) {
                mine.add(new TopicPartition(topic, partition));
            }
        }
        consumer.assign(mine);
        Map<TopicPartition, Long> ends = new HashMap<>(consumer.endOffsets(mine));
        int slices = Math.max(1, clients / partitions);
        int slice = Math.min(number / partitions, slices - 1);
        for (TopicPartition partition : mine) {
            long size = ends.get(partition);
            consumer.seek(partition, size * slice / slices);
            ends.put(partition, size * (slice + 1) / slices);
        }
        return ends;
    }

    private long drain(KafkaConsumer<byte[], byte[]> consumer, Map<TopicPartition, Long> ends) {
        long read = 0;
        Set<TopicPartition> open = new HashSet<>(ends.keySet());
        open.removeIf(partition -> consumer.position(partition) >= ends.get(partition));
        while (!open.isEmpty()) {
            for (ConsumerRecord<byte[], byte[]> record : consumer.poll(POLL)) {
                TopicPartition from = new TopicPartition(record.topic(), record.partition());
                read += record.offset() < ends.get(from) ? 1 : 0;
            }
            for (TopicPartition partition : List.copyOf(open)) {
                if (consumer.position(partition) >= ends.get(partition)) {
                    open.remove(partition);
                    consumer.pause(List.of(partition));
                }
            }
        }
        return read;
    }

    /** Transactions per second; each producer has a transactional id, and one transaction open. */
    private double transactions(int transactions, int records, int bytes) throws Exception {
        byte[][] values = values(bytes);
        int each = transactions / clients;
        inThreads((number, barrier) -> {
            Properties settings = producing();
            settings.put("transactional.id", topic + "-" + number);
            try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings)) {
                producer.initTransactions();
                commit(producer, values, Math.max(1, each / WARM_UP_PARTS), records);
                barrier.await();
                commit(producer, values, each, records);
                ended.accumulateAndGet(System.nanoTime(), Math::max);
            }
        });
        return (double) each * clients / seconds();
    }

    private void commit(
            KafkaProducer<byte[], byte[]> producer, byte[][] values, int transactions, int records) {
        for (int number = 0; number < transactions; number++) {
            producer.beginTransaction();
            for (int record = 0; record < records; record++) {
                producer.send(
                        new ProducerRecord<>(topic, values[record % values.length]), Clients::check);
            }
            // Without it the producer of 4.4 ends a transaction before its records now and then
            // (INVALID_TXN_STATE), on Apache Kafka as well.
            producer.flush();
            producer.commitTransaction();
        }
    }

    /** Seconds from the subscription of all members until each has its share of all partitions. */
    private double group(int partitions, String name, String protocol) throws Exception {
        AtomicReferenceArray<Set<TopicPartition>> held = new AtomicReferenceArray<>(clients);
        CyclicBarrier barrier = new CyclicBarrier(clients + 1);
        for (int number = 0; number < clients; number++) {
            int member = number;
            Properties settings = consuming();
            settings.put("group.id", name);
            settings.put("group.protocol", protocol);
            KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings);
            Thread thread = new Thread(() -> guarded(() -> {
                barrier.await();
                consumer.subscribe(List.of(topic));
                while (true) {
                    consumer.poll(POLL);
                    held.set(member, Set.copyOf(consumer.assignment()));
                }
            }));
            thread.setDaemon(true);
            thread.start();
        }
        barrier.await();
        began.set(System.nanoTime());
        while (!shared(held, partitions)) {
            Thread.sleep(1);
            if (System.nanoTime() - began.get() > GROUP_SECONDS * 1_000_000_000L) {
                throw new IllegalStateException("not stable in " + GROUP_SECONDS + " s: " + held);
            }
        }
        ended.set(System.nanoTime());
        return seconds();
    }

    private boolean shared(AtomicReferenceArray<Set<TopicPartition>> held, int partitions) {
        Set<TopicPartition> all = new HashSet<>();
        int sum = 0;
        for (int member = 0; member < clients; member++) {
            Set<TopicPartition> own = held.get(member);
            if (own == null || own.isEmpty()) {
                return false;
            }
            all.addAll(own);
            sum += own.size();
        }
        return sum == partitions && all.size() == partitions;
    }

    private Properties producing() {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("key.serializer", ByteArraySerializer.class.getName());
        settings.put("value.serializer", ByteArraySerializer.class.getName());
        settings.put("batch.size", 65536);
        settings.put("linger.ms", 5);
        settings.put("buffer.memory", clients == 1 ? 32L << 20 : 4L << 20);
        return settings;
    }

    private Properties consuming() {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("key.deserializer", ByteArrayDeserializer.class.getName());
        settings.put("value.deserializer", ByteArrayDeserializer.class.getName());
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        return settings;
    }

    private interface Job {
        void run(int number, CyclicBarrier barrier) throws Exception;
    }

    private interface Action {
        void run() throws Exception;
    }

    /** Runs one job per client. The clock starts when all of them have come to the barrier. */
    private void inThreads(Job job) throws Exception {
        CyclicBarrier barrier = new CyclicBarrier(clients, () -> began.set(System.nanoTime()));
        List<Thread> threads = new ArrayList<>();
        for (int number = 0; number < clients; number++) {
            int client = number;
            threads.add(new Thread(() -> guarded(() -> job.run(client, barrier))));
        }
        threads.forEach(Thread::start);
        for (Thread thread : threads) {
            thread.join();
        }
        ended.compareAndSet(0, System.nanoTime());
    }

    private static void guarded(Action action) {
        try {
            action.run();
        } catch (Exception error) {
            fail(error);
        }
    }

    private static void check(Object metadata, Exception error) {
        if (error != null) {
            fail(error);
        }
    }

    private static void fail(Exception error) {
        error.printStackTrace();
        Runtime.getRuntime().halt(1);
    }

    private double seconds() {
        return (ended.get() - began.get()) / 1e9;
    }

    /** Values like rows of a table, which compress as such rows do. */
    private static byte[][] values(int bytes) {
        Random random = new Random(1);
        byte[][] values = new byte[Math.max(4, Math.min(1000, VALUES_BYTES / bytes))][];
        for (int number = 0; number < values.length; number++) {
            StringBuilder text = new StringBuilder();
            while (text.length() < bytes) {
                text.append("{\"id\": ").append(random.nextInt(1_000_000_000));
                text.append(", \"price\": ").append(random.nextInt(100_000) / 100.0);
                text.append(", \"country\": \"").append(random.nextInt(200)).append("\"}\n");
            }
            values[number] = text.substring(0, bytes).getBytes();
        }
        return values;
    }
}
