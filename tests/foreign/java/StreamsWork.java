import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.TimeWindows;

/**
 * Word counts by Kafka Streams: all words in "counts", those of each minute in "minutes".
 *
 * Words are regrouped by a repartition topic, counted in stores with changelog topics. Arguments:
 * bootstrap servers, application id, folder for state, number of instances in this JVM, and settings
 * as key=value. It prints what states the instances come to, and ends when its input ends.
 */
public class StreamsWork {
    public static void main(String[] arguments) throws Exception {
        List<KafkaStreams> instances = new ArrayList<>();
        for (int number = 0; number < Integer.parseInt(arguments[3]); number++) {
            instances.add(instance(arguments, number));
        }
        instances.forEach(KafkaStreams::start);
        while (System.in.read() >= 0) {
            // Whatever is said, the end is what counts.
        }
        instances.forEach(one -> one.close(Duration.ofSeconds(20)));
        System.out.println("ended");
    }

    private static KafkaStreams instance(String[] arguments, int number) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("application.id", arguments[1]);
        settings.put("state.dir", arguments[2] + "/" + number);
        settings.put("commit.interval.ms", "100");
        settings.put("default.key.serde", Serdes.StringSerde.class.getName());
        settings.put("default.value.serde", Serdes.StringSerde.class.getName());
        settings.put("consumer.auto.offset.reset", "earliest");
        settings.put("consumer.session.timeout.ms", "6000");
        settings.put("consumer.heartbeat.interval.ms", "500");
        for (String setting : Arrays.asList(arguments).subList(4, arguments.length)) {
            settings.put(setting.split("=", 2)[0], setting.split("=", 2)[1]);
        }
        KafkaStreams streams = new KafkaStreams(topology(), settings);
        streams.setStateListener((now, before) -> System.out.println("state " + number + " " + now));
        streams.setUncaughtExceptionHandler(error -> {
            System.out.println("died " + number + " " + error + " " + error.getCause());
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        return streams;
    }

    private static org.apache.kafka.streams.Topology topology() {
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> words = builder.<String, String>stream("words")
            .flatMapValues(line -> List.of(line.split(" ")));
        var grouped = words.groupBy((key, word) -> word);
        grouped.count().toStream().mapValues(String::valueOf).to("counts");
        grouped.windowedBy(TimeWindows.ofSizeWithNoGrace(Duration.ofMinutes(1))).count().toStream()
            .map((window, count) -> new org.apache.kafka.streams.KeyValue<>(
                window.key() + "@" + window.window().start(), String.valueOf(count)))
            .to("minutes");
        return builder.build();
    }
}
