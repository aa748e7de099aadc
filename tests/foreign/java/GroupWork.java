import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.BooleanSupplier;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * Java's consumers of both protocols in one process, one group for each scenario. Each line printed
 * is a scenario that went well, and what it saw. Arguments: bootstrap, a topic with four partitions
 * that hold a hundred records, a prefix of topics and groups.
 */
public class GroupWork {
    private static final Duration POLL = Duration.ofMillis(20);
    private static final int SECONDS = 30;
    private static final int PARTITIONS = 4;
    private static final int RECORDS = 100;

    private final String bootstrap;
    private final String topic;
    private final String prefix;

    private GroupWork(String bootstrap, String topic, String prefix) {
        this.bootstrap = bootstrap;
        this.topic = topic;
        this.prefix = prefix;
    }

    public static void main(String[] arguments) {
        GroupWork work = new GroupWork(arguments[0], arguments[1], arguments[2]);
        work.rebalance();
        work.pattern();
        work.cooperative();
        work.staticMember("classic");
        work.staticMember("consumer");
        work.enforced();
        work.closedAtOnce("classic");
        work.closedAtOnce("consumer");
        work.migration(RangeAssignor.class);
        work.migration(CooperativeStickyAssignor.class);
    }

    private void rebalance() {
        try (Member one = consumer("rebalance")) {
            until(() -> one.held().size() == PARTITIONS, one);
            try (Member two = consumer("rebalance")) {
                until(() -> shared(one, two), one, two);
            }
            until(() -> one.held().size() == PARTITIONS, one);
            say("rebalance", "revoked " + one.revoked.size() + ", lost " + one.lost);
        }
    }

    private void pattern() {
        try (Member one = new Member("pattern", "consumer", null, null)) {
            one.consumer.subscribe(new SubscriptionPattern(prefix + ".*"), one);
            until(() -> one.held().size() > PARTITIONS, one);
            Set<String> topics = new TreeSet<>();
            one.held().forEach(partition -> topics.add(partition.topic()));
            say("pattern", String.join(" ", topics));
        }
    }

    private void cooperative() {
        try (Member one = classic("cooperative", CooperativeStickyAssignor.class)) {
            until(() -> one.held().size() == PARTITIONS, one);
            try (Member two = classic("cooperative", CooperativeStickyAssignor.class)) {
                until(() -> shared(one, two), one, two);
                say("cooperative", "revoked " + one.revoked.size() + ", lost " + one.lost);
            }
        }
    }

    private void staticMember(String protocol) {
        String group = "static-" + protocol;
        Class<?> assignor = protocol.equals("classic") ? RangeAssignor.class : null;
        try (Member two = new Member(group, protocol, assignor, "two").subscribed()) {
            Set<TopicPartition> before;
            try (Member one = new Member(group, protocol, assignor, "one").subscribed()) {
                until(() -> shared(one, two), one, two);
                before = one.held();
            }
            int told = two.told;
            try (Member again = new Member(group, protocol, assignor, "one").subscribed()) {
                until(() -> again.held().equals(before), again, two);
                say(group, "told again " + (two.told - told));
            }
        }
    }

    private void enforced() {
        try (Member one = classic("enforced", RangeAssignor.class);
                Member two = classic("enforced", RangeAssignor.class)) {
            until(() -> shared(one, two), one, two);
            int before = one.consumer.groupMetadata().generationId();
            one.consumer.enforceRebalance("a test wants it");
            until(() -> one.consumer.groupMetadata().generationId() > before, one, two);
            until(() -> shared(one, two), one, two);
            say("enforced", "generations " + (one.consumer.groupMetadata().generationId() - before));
        }
    }

    private void closedAtOnce(String protocol) {
        String group = "closed-" + protocol;
        Class<?> assignor = protocol.equals("classic") ? RangeAssignor.class : null;
        new Member(group, protocol, assignor, null).subscribed().close();
        try (Member one = new Member(group, protocol, assignor, null).subscribed()) {
            one.consumer.poll(Duration.ZERO);
        }
        try (Member one = new Member(group, protocol, assignor, null).subscribed()) {
            until(() -> one.held().size() == PARTITIONS, one);
            say(group, "then assigned " + one.held().size());
        }
    }

    /**
     * Two members change their protocol one after the other, and read on where they were. A member
     * of the cooperative protocol that loses its partitions in the change takes some records again:
     * Java's consumer does so on Apache Kafka as well.
     */
    private void migration(Class<?> assignor) {
        String group = "migration-" + assignor.getSimpleName();
        List<String> values = new ArrayList<>();
        Member first = classic(group, assignor);
        Member second = classic(group, assignor);
        until(() -> shared(first, second) && total(first, second) >= RECORDS / 4, first, second);
        first.leave(values);
        Member third = consumer(group);
        until(() -> shared(second, third), second, third);
        second.leave(values);
        Member fourth = consumer(group);
        until(() -> shared(third, fourth), third, fourth);
        until(() -> ends(third, fourth) == RECORDS, third, fourth);
        third.leave(values);
        fourth.leave(values);
        boolean again = second.lost > 0;
        say(group, "different " + different(values) + ", again without a loss "
            + (again ? 0 : values.size() - different(values)));
    }

    private static int different(List<String> values) {
        return new HashSet<>(values).size();
    }

    /** The sum of the positions: all is read, and committed, when it is the number of records. */
    private static long ends(Member... members) {
        long sum = 0;
        for (Member member : members) {
            for (TopicPartition partition : member.held()) {
                sum += member.consumer.position(partition);
            }
        }
        return sum;
    }

    private static int total(Member... members) {
        int sum = 0;
        for (Member member : members) {
            sum += member.values.size();
        }
        return sum;
    }

    private static boolean shared(Member... members) {
        Set<TopicPartition> all = new HashSet<>();
        int sum = 0;
        for (Member member : members) {
            sum += member.held().size();
            all.addAll(member.held());
        }
        return sum == PARTITIONS
                && all.size() == PARTITIONS
                && List.of(members).stream().noneMatch(member -> member.held().isEmpty());
    }

    private static void until(BooleanSupplier done, Member... members) {
        long end = System.nanoTime() + SECONDS * 1_000_000_000L;
        while (!done.getAsBoolean()) {
            for (Member member : members) {
                member.poll();
            }
            if (System.nanoTime() > end) {
                StringBuilder held = new StringBuilder("not in " + SECONDS + " s:");
                for (Member member : members) {
                    held.append(' ').append(member.held());
                }
                throw new IllegalStateException(held.toString());
            }
        }
    }

    private static void say(String scenario, String seen) {
        System.out.println(scenario + ": " + seen);
    }

    private Member classic(String group, Class<?> assignor) {
        return new Member(group, "classic", assignor, null).subscribed();
    }

    private Member consumer(String group) {
        return new Member(group, "consumer", null, null).subscribed();
    }

    /** A consumer, and what its listener was told. */
    private final class Member implements ConsumerRebalanceListener, AutoCloseable {
        private final KafkaConsumer<String, String> consumer;
        private final Set<TopicPartition> revoked = new HashSet<>();
        private final List<String> values = new ArrayList<>();
        private int lost = 0;
        private int told = 0;
        private int waited = 0;
        private boolean uncommitted = false;

        Member(String group, String protocol, Class<?> assignor, String instance) {
            Properties settings = new Properties();
            settings.put("bootstrap.servers", bootstrap);
            settings.put("group.id", prefix + "-" + group);
            settings.put("group.protocol", protocol);
            settings.put("auto.offset.reset", "earliest");
            settings.put("enable.auto.commit", "false");
            settings.put("max.poll.records", "10");
            settings.put("metadata.max.age.ms", "1000");
            settings.put("key.deserializer", StringDeserializer.class.getName());
            settings.put("value.deserializer", StringDeserializer.class.getName());
            if (instance != null) {
                settings.put("group.instance.id", instance);
            }
            if (assignor != null) {
                settings.put("partition.assignment.strategy", assignor.getName());
                settings.put("heartbeat.interval.ms", "100");
                settings.put("session.timeout.ms", "6000");
            }
            consumer = new KafkaConsumer<>(settings);
        }

        Member subscribed() {
            consumer.subscribe(List.of(topic), this);
            return this;
        }

        Set<TopicPartition> held() {
            return consumer.assignment();
        }

        /** Take records and commit, so that whoever reads on takes each record once. */
        void poll() {
            int before = values.size();
            for (ConsumerRecord<String, String> record : consumer.poll(POLL)) {
                values.add(record.value());
            }
            uncommitted |= values.size() > before;
            try {
                commit();
            } catch (RebalanceInProgressException error) {
                waited++; // the listener commits before any partition is lost
            }
        }

        private void commit() {
            if (uncommitted) {
                consumer.commitSync();
                uncommitted = false;
            }
        }

        void leave(List<String> into) {
            into.addAll(values);
            close();
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            told += partitions.size();
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            revoked.addAll(partitions);
            commit();
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> partitions) {
            lost += partitions.size();
        }

        @Override
        public void close() {
            consumer.close();
        }
    }
}
