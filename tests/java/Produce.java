// Producers whose batches have known borders: `perBatch` records to one partition, then a flush. What a record holds follows from
// its number and the seed alone.
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArraySerializer;

final class Produce {
    private static final int NULL_KEY_EVERY = 7, TOMBSTONE_EVERY = 11;
    /** Producers of open transactions by transactional id: never closed, for closing aborts. */
    private static final Map<String, KafkaProducer<byte[], byte[]>> OPEN = new HashMap<>();
    private static final Map<String, Stream> STREAMS = new ConcurrentHashMap<>();
    /** Producers that go on with their next request, by name. */
    private static final Map<String, KafkaProducer<byte[], byte[]>> KEPT = new HashMap<>();

    private static KafkaProducer<byte[], byte[]> producer(JsonNode ask) {
        int batchBytes = ask.path("batchBytes").asInt(1 << 20);
        Properties p = new Properties();
        p.put("bootstrap.servers", ask.get("boot").asText());
        p.put("compression.type", ask.path("codec").asText("none"));
        p.put("linger.ms", "60000");                                     // a batch ends when we flush, or when it is full
        p.put("batch.size", Integer.toString(batchBytes));
        p.put("max.request.size", Integer.toString(batchBytes + (1 << 20)));
        p.put("buffer.memory", Integer.toString(Math.max(32 << 20, 3 * batchBytes)));
        p.put("delivery.timeout.ms", "120000");
        if (ask.has("deliveryMs")) {                                     // Kafka wants linger and request time to fit into it
            int third = ask.get("deliveryMs").asInt() / 3;
            p.put("linger.ms", third);
            p.put("request.timeout.ms", third);
            p.put("delivery.timeout.ms", 3 * third);
        }
        p.put("enable.idempotence", ask.path("idempotent").asText("true"));
        if (ask.has("txn")) {
            p.put("transactional.id", ask.get("txn").asText());
            p.put("transaction.timeout.ms", "86400000");
        }
        return new KafkaProducer<>(p, new ByteArraySerializer(), new ByteArraySerializer());
    }

    private static byte[] value(JsonNode ask, Random random, long number) {
        int bytes = ask.path("valueBytes").asInt(100);
        byte[] v = new byte[bytes];
        if (ask.path("incompressible").asBoolean(false)) {
            random.nextBytes(v);
        } else {
            byte[] text = ("value " + number + " of a stock producer, ").getBytes(StandardCharsets.UTF_8);
            for (int i = 0; i < bytes; i++) v[i] = text[i % text.length];
        }
        return v;
    }

    private static List<Header> headers(long number) {
        List<Header> out = new ArrayList<>();
        for (int i = 0; i < number % 4; i++) {
            byte[] v = i == 2 ? null : ("h" + number).getBytes(StandardCharsets.UTF_8);
            out.add(new RecordHeader(i == 1 ? "" : "name", v));          // repeated, empty and null are all legal
        }
        return out;
    }

    private static ProducerRecord<byte[], byte[]> record(JsonNode ask, Random random, int partition, long number) {
        int keys = ask.path("keys").asInt(1000);
        boolean mixed = ask.path("mixed").asBoolean(false);
        boolean nullKeys = ask.path("nullKeys").asBoolean(mixed);
        byte[] key = keys == 0 || nullKeys && number % NULL_KEY_EVERY == 3 ? null : (ask.path("keyPrefix").asText("key-") + number % keys).getBytes(StandardCharsets.UTF_8);
        byte[] value = mixed && number % TOMBSTONE_EVERY == 5 ? null : value(ask, random, number);
        Long time = ask.has("time") ? ask.get("time").asLong() + number * ask.path("timeStep").asLong(1) : null;
        return new ProducerRecord<>(ask.get("topic").asText(), partition, time, key, value, mixed ? headers(number) : List.of());
    }

    // {topic, partitions|partition, count, perBatch, codec, idempotent, valueBytes, incompressible, keys, keyPrefix, mixed, nullKeys, seed, time, timeStep,
    //  batchBytes, txn, end: commit|abort|open, deliveryMs, keep: the name under which this producer goes on} -> [{partition, first, last}]
    static JsonNode produce(JsonNode ask) throws Exception {
        String kept = ask.path("keep").asText("");
        boolean goesOn = KEPT.containsKey(kept);
        KafkaProducer<byte[], byte[]> p = goesOn ? KEPT.get(kept) : producer(ask);
        if (ask.has("keep")) KEPT.put(kept, p);
        String end = ask.path("end").asText("commit");
        if (ask.has("txn")) {
            if (!goesOn) p.initTransactions();
            p.beginTransaction();
        }
        Map<Integer, long[]> range = send(ask, p);
        if (ask.has("txn") && end.equals("open")) {
            OPEN.put(ask.get("txn").asText(), p);
        } else {
            if (ask.has("txn") && end.equals("abort")) p.abortTransaction();
            else if (ask.has("txn")) p.commitTransaction();
            if (!ask.has("keep")) p.close();
        }
        ArrayNode out = Oracle.JSON.createArrayNode();
        range.forEach((k, v) -> out.addObject().put("partition", k).put("first", v[0]).put("last", v[1]));
        return out;
    }

    // {txn, end: commit|abort}: ends what `produce` left open
    static JsonNode endTransaction(JsonNode ask) {
        KafkaProducer<byte[], byte[]> p = OPEN.remove(ask.get("txn").asText());
        if (ask.get("end").asText().equals("abort")) p.abortTransaction();
        else p.commitTransaction();
        p.close();
        return Oracle.JSON.createObjectNode();
    }

    private static Map<Integer, long[]> send(JsonNode ask, KafkaProducer<byte[], byte[]> p) throws Exception {
        int partitions = ask.path("partitions").asInt(1), fixed = ask.path("partition").asInt(0), perBatch = ask.path("perBatch").asInt(10);
        Random random = new Random(ask.path("seed").asLong(1));
        Map<Integer, long[]> range = new TreeMap<>();
        int count = ask.get("count").asInt();
        for (int from = 0, batch = 0; from < count; from += perBatch, batch++) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (int i = from; i < Math.min(count, from + perBatch); i++)
                sent.add(p.send(record(ask, random, partitions > 1 ? batch % partitions : fixed, i)));
            p.flush();
            for (var f : sent) {
                RecordMetadata m = f.get();
                range.merge(m.partition(), new long[] {m.offset(), m.offset()}, (a, b) -> new long[] {a[0], b[1]});
            }
        }
        return range;
    }

    /** A producer that goes on in the background, a batch at a time, until it is told to stop. */
    private static final class Stream extends Thread {
        final AtomicBoolean stop = new AtomicBoolean();
        final AtomicLong records = new AtomicLong();
        final JsonNode ask;
        volatile Throwable failure;

        Stream(JsonNode ask) {
            super("stream");
            this.ask = ask;
            setDaemon(true);
        }

        @Override public void run() {
            int partitions = ask.path("partitions").asInt(1), perBatch = ask.path("perBatch").asInt(10);
            long pauseMs = ask.path("pauseMs").asLong(5);
            Random random = new Random(ask.path("seed").asLong(1));
            try (KafkaProducer<byte[], byte[]> p = producer(ask)) {
                for (int batch = 0; !stop.get(); batch++) {
                    List<Future<RecordMetadata>> sent = new ArrayList<>();
                    for (int i = 0; i < perBatch; i++) sent.add(p.send(record(ask, random, batch % partitions, (long) batch * perBatch + i)));
                    p.flush();
                    for (var f : sent) f.get();
                    records.addAndGet(perBatch);
                    Thread.sleep(pauseMs);
                }
            } catch (Throwable t) {
                failure = t;
            }
        }
    }

    // {name, and what `produce` takes, pauseMs}
    static JsonNode streamStart(JsonNode ask) {
        Stream s = new Stream(ask);
        STREAMS.put(ask.get("name").asText(), s);
        s.start();
        return Oracle.JSON.createObjectNode();
    }

    // {name} -> {records}
    static JsonNode streamStop(JsonNode ask) throws Exception {
        Stream s = STREAMS.remove(ask.get("name").asText());
        s.stop.set(true);
        s.join();
        if (s.failure != null) throw new IllegalStateException("the stream failed after " + s.records + " records", s.failure);
        return Oracle.JSON.createObjectNode().put("records", s.records.get());
    }

    private Produce() { }
}
