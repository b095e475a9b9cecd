// What a consumer sees: per partition a digest over (offset, timestamp, key, value, headers) of every record from the log start to
// the end that the isolation level shows.
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.function.BiConsumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

final class Read {
    private static final long SILENCE_MS_MAX = 20_000;

    /** What one partition gave. */
    private static final class Seen {
        final MessageDigest digest;
        final ArrayNode epochs = Oracle.JSON.createArrayNode();
        long count, first = -1, last = -1;
        int epoch = -1;

        Seen() {
            try {
                digest = MessageDigest.getInstance("SHA-256");
            } catch (java.security.NoSuchAlgorithmException e) {
                throw new IllegalStateException(e);
            }
        }

        void bytes(byte[] b) {
            digest.update(ByteBuffer.allocate(4).putInt(b == null ? -1 : b.length).array());
            if (b != null) digest.update(b);
        }

        void add(ConsumerRecord<byte[], byte[]> r) {
            digest.update(ByteBuffer.allocate(20).putLong(r.offset()).putLong(r.timestamp()).putInt(r.timestampType().id).array());
            bytes(r.key());
            bytes(r.value());
            for (Header h : r.headers()) {
                bytes(h.key().getBytes(StandardCharsets.UTF_8));
                bytes(h.value());
            }
            count++;
            if (first < 0) first = r.offset();
            last = r.offset();
            int own = r.leaderEpoch().orElse(-1);
            if (own != epoch) epochs.addArray().add(own).add(r.offset());
            epoch = own;
        }
    }

    private static KafkaConsumer<byte[], byte[]> consumer(JsonNode ask) {
        Properties p = new Properties();
        p.put("bootstrap.servers", ask.get("boot").asText());
        p.put("isolation.level", ask.path("isolation").asText("read_uncommitted"));
        p.put("auto.offset.reset", "none");
        p.put("enable.auto.commit", "false");
        p.put("fetch.max.bytes", "8388608");
        p.put("fetch.max.wait.ms", "10");                                // the next topic waits for a fetch at the end of the last one
        p.put("default.api.timeout.ms", "30000");
        return new KafkaConsumer<>(p, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    // {topics[], isolation, before: {"topic-partition": offset}?} -> [{topic, partition, start, end, count, first, last, digest, epochs}];
    // epochs are [leader epoch, its first offset]; records from `before` on are left out
    static JsonNode digests(JsonNode ask) throws Exception {
        ArrayNode out = Oracle.JSON.createArrayNode();
        try (KafkaConsumer<byte[], byte[]> c = consumer(ask)) {
            for (JsonNode name : ask.get("topics")) {
                List<TopicPartition> all = new ArrayList<>();
                c.partitionsFor(name.asText()).forEach(i -> all.add(new TopicPartition(name.asText(), i.partition())));
                all.sort((a, b) -> Integer.compare(a.partition(), b.partition()));
                Map<TopicPartition, Long> start = c.beginningOffsets(all), end = c.endOffsets(all);
                c.assign(all);
                all.forEach(tp -> c.seek(tp, start.get(tp)));
                Map<TopicPartition, Seen> seen = new java.util.HashMap<>();
                all.forEach(tp -> seen.put(tp, new Seen()));
                drain(c, all, end, (tp, r) -> { if (isBefore(ask, tp, r)) seen.get(tp).add(r); });
                for (TopicPartition tp : all) {
                    Seen s = seen.get(tp);
                    out.addObject().put("topic", tp.topic()).put("partition", tp.partition()).put("start", start.get(tp)).put("end", end.get(tp))
                        .put("count", s.count).put("first", s.first).put("last", s.last).put("digest", HexFormat.of().formatHex(s.digest.digest()))
                        .set("epochs", s.epochs);
                }
            }
        }
        return out;
    }

    private static boolean isBefore(JsonNode ask, TopicPartition tp, ConsumerRecord<byte[], byte[]> r) {
        return r.offset() < ask.path("before").path(tp.toString()).asLong(Long.MAX_VALUE);
    }

    // {topic, partition, before} -> {keys, digest}: the last record of each key, as a cleaner leaves them
    static JsonNode latest(JsonNode ask) throws Exception {
        TopicPartition one = new TopicPartition(ask.get("topic").asText(), ask.path("partition").asInt(0));
        Map<String, ConsumerRecord<byte[], byte[]>> last = new java.util.HashMap<>();
        try (KafkaConsumer<byte[], byte[]> c = consumer(ask)) {
            List<TopicPartition> all = List.of(one);
            c.assign(all);
            c.seek(one, c.beginningOffsets(all).get(one));
            drain(c, all, c.endOffsets(all), (tp, r) -> { if (isBefore(ask, tp, r)) last.put(HexFormat.of().formatHex(r.key()), r); });
        }
        Seen seen = new Seen();
        last.values().stream().sorted((a, b) -> Long.compare(a.offset(), b.offset())).forEach(seen::add);
        return Oracle.JSON.createObjectNode().put("keys", seen.count).put("digest", HexFormat.of().formatHex(seen.digest.digest()));
    }

    private static void drain(KafkaConsumer<byte[], byte[]> c, List<TopicPartition> all, Map<TopicPartition, Long> end,
                              BiConsumer<TopicPartition, ConsumerRecord<byte[], byte[]>> take) {
        long heard = System.currentTimeMillis();
        while (!all.stream().allMatch(tp -> c.position(tp) >= end.get(tp))) {
            var got = c.poll(Duration.ofMillis(100));
            for (ConsumerRecord<byte[], byte[]> r : got) {
                TopicPartition tp = new TopicPartition(r.topic(), r.partition());
                if (r.offset() < end.get(tp)) take.accept(tp, r);
            }
            if (!got.isEmpty()) heard = System.currentTimeMillis();
            if (System.currentTimeMillis() - heard > SILENCE_MS_MAX) {
                var stuck = new TreeMap<String, String>();
                all.stream().filter(tp -> c.position(tp) < end.get(tp)).forEach(tp -> stuck.put(tp.toString(), c.position(tp) + " of " + end.get(tp)));
                throw new IllegalStateException("no record for " + SILENCE_MS_MAX + " ms; still behind: " + stuck);
            }
        }
    }

    private Read() { }
}
