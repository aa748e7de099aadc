import java.time.Duration;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;

/**
 * Kafka Streams, exactly once: numbers the records of each key in "orders", and writes the numbers
 * to "numbered", one for each record. The numbers so far are in a store with a changelog.
 *
 * Arguments: bootstrap servers, and a folder for state. It ends when its input ends.
 */
public class StreamsCount {
    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("application.id", "numbering");
        settings.put("state.dir", arguments[1]);
        settings.put("processing.guarantee", "exactly_once_v2");
        settings.put("statestore.cache.max.bytes", "0");
        settings.put("commit.interval.ms", "100");
        settings.put("num.stream.threads", "2");
        settings.put("default.key.serde", Serdes.StringSerde.class.getName());
        settings.put("default.value.serde", Serdes.StringSerde.class.getName());
        settings.put("consumer.auto.offset.reset", "earliest");
        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream("orders").groupByKey().count().toStream()
            .mapValues(String::valueOf).to("numbered");
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        streams.setStateListener((now, before) -> System.out.println("state " + now));
        streams.setUncaughtExceptionHandler(error -> {
            System.out.println("died " + error + " " + error.getCause());
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        streams.start();
        while (System.in.read() >= 0) {
            // Whatever is said, the end is what counts.
        }
        streams.close(Duration.ofSeconds(20));
        System.out.println("ended");
    }
}
