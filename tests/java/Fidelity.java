// What the fidelity matrix asks besides: many new producers, lookups by time, quotas, share groups, a second replica.
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

final class Fidelity {
    private static final long LIMIT_MS = 30_000;

    // {topic, partition, producers, prefix}: so many new producers, one after the other, each with one record "PREFIX-N" -> [offsets]
    static JsonNode fresh(JsonNode ask) throws Exception {
        ArrayNode out = Oracle.JSON.createArrayNode();
        for (int n = 0; n < ask.get("producers").asInt(); n++) {
            Map<String, Object> config = Map.of("bootstrap.servers", ask.get("boot").asText(), "enable.idempotence", true);
            try (KafkaProducer<byte[], byte[]> p = new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer())) {
                byte[] value = (ask.get("prefix").asText() + "-" + n).getBytes(StandardCharsets.UTF_8);
                out.add(p.send(new ProducerRecord<>(ask.get("topic").asText(), ask.path("partition").asInt(0), null, value)).get().offset());
            }
        }
        return out;
    }

    // {topic, partition, from} -> {"offset": "value as text"} up to the end
    static JsonNode values(JsonNode ask) {
        ObjectNode out = Oracle.JSON.createObjectNode();
        List<TopicPartition> one = List.of(new TopicPartition(ask.get("topic").asText(), ask.path("partition").asInt(0)));
        ByteArrayDeserializer bytes = new ByteArrayDeserializer();
        try (KafkaConsumer<byte[], byte[]> c = new KafkaConsumer<>(Map.of("bootstrap.servers", ask.get("boot").asText()), bytes, bytes)) {
            c.assign(one);
            c.seek(one.get(0), ask.get("from").asLong());
            long end = c.endOffsets(one).get(one.get(0)), limit = System.currentTimeMillis() + LIMIT_MS;
            while (c.position(one.get(0)) < end) {
                for (ConsumerRecord<byte[], byte[]> r : c.poll(Duration.ofMillis(200))) out.put("" + r.offset(), new String(r.value(), StandardCharsets.UTF_8));
                if (System.currentTimeMillis() > limit) throw new IllegalStateException("at " + c.position(one.get(0)) + " of " + end);
            }
        }
        return out;
    }

    // {topics[], times[]} -> {"topic-partition": [[offset, timestamp] of each time..., of the largest timestamp]}
    static JsonNode times(JsonNode ask) throws Exception {
        ObjectNode out = Oracle.JSON.createObjectNode();
        List<String> names = new ArrayList<>();
        ask.get("topics").forEach(t -> names.add(t.asText()));
        List<OffsetSpec> specs = new ArrayList<>();
        ask.get("times").forEach(t -> specs.add(OffsetSpec.forTimestamp(t.asLong())));
        specs.add(OffsetSpec.maxTimestamp());
        try (Admin admin = Topics.admin(ask)) {
            List<TopicPartition> all = new ArrayList<>();
            new TreeMap<>(admin.describeTopics(names).allTopicNames().get()).values()
                .forEach(d -> d.partitions().forEach(p -> all.add(new TopicPartition(d.name(), p.partition()))));
            for (OffsetSpec spec : specs) {
                Map<TopicPartition, OffsetSpec> each = new HashMap<>();
                all.forEach(tp -> each.put(tp, spec));
                var found = admin.listOffsets(each).all().get();
                all.forEach(tp -> out.withArray("/" + tp).addArray().add(found.get(tp).offset()).add(found.get(tp).timestamp()));
            }
        }
        return out;
    }

    // {entity: {type: name}, key, value}
    static JsonNode setQuota(JsonNode ask) throws Exception {
        var op = new ClientQuotaAlteration.Op(ask.get("key").asText(), ask.get("value").asDouble());
        try (Admin admin = Topics.admin(ask)) {
            admin.alterClientQuotas(List.of(new ClientQuotaAlteration(new ClientQuotaEntity(Topics.map(ask.get("entity"))), List.of(op)))).all().get();
        }
        return Oracle.JSON.createObjectNode();
    }

    // {} -> {"{type=name}": {key: value}}
    static JsonNode quotas(JsonNode ask) throws Exception {
        ObjectNode out = Oracle.JSON.createObjectNode();
        try (Admin admin = Topics.admin(ask)) {
            admin.describeClientQuotas(ClientQuotaFilter.all()).entities().get().forEach((entity, values) -> {
                ObjectNode own = out.putObject(new TreeMap<>(entity.entries()).toString());
                new TreeMap<>(values).forEach(own::put);
            });
        }
        return out;
    }

    // {} -> {feature: level} as finalized
    static JsonNode features(JsonNode ask) throws Exception {
        ObjectNode out = Oracle.JSON.createObjectNode();
        try (Admin admin = Topics.admin(ask)) {
            admin.describeFeatures().featureMetadata().get().finalizedFeatures().forEach((k, v) -> out.put(k, v.maxVersionLevel()));
        }
        return out;
    }

    // {topics[], replicas[]}: every partition of them is to have these replicas
    static JsonNode reassign(JsonNode ask) throws Exception {
        List<String> names = new ArrayList<>();
        ask.get("topics").forEach(t -> names.add(t.asText()));
        List<Integer> replicas = new ArrayList<>();
        ask.get("replicas").forEach(n -> replicas.add(n.asInt()));
        try (Admin admin = Topics.admin(ask)) {
            Map<TopicPartition, Optional<NewPartitionReassignment>> wanted = new HashMap<>();
            admin.describeTopics(names).allTopicNames().get().values().forEach(d -> d.partitions().forEach(p ->
                wanted.put(new TopicPartition(d.name(), p.partition()), Optional.of(new NewPartitionReassignment(replicas)))));
            admin.alterPartitionReassignments(wanted).all().get();
        }
        return Oracle.JSON.createObjectNode();
    }

    // {group, topic, count, earliest}: a member of a share group accepts `count` records, one by one, and gives the others back -> [offsets]
    static JsonNode shareRead(JsonNode ask) throws Exception {
        String group = ask.get("group").asText();
        if (ask.path("earliest").asBoolean(false)) {
            try (Admin admin = Topics.admin(ask)) {
                var op = new AlterConfigOp(new ConfigEntry("share.auto.offset.reset", "earliest"), AlterConfigOp.OpType.SET);
                admin.incrementalAlterConfigs(Map.of(new ConfigResource(ConfigResource.Type.GROUP, group), List.of(op))).all().get();
            }
        }
        ArrayNode accepted = Oracle.JSON.createArrayNode();
        ByteArrayDeserializer bytes = new ByteArrayDeserializer();
        Map<String, Object> config = Map.of("bootstrap.servers", ask.get("boot").asText(), "group.id", group, "share.acknowledgement.mode", "explicit",
            "max.poll.records", 10);
        try (KafkaShareConsumer<byte[], byte[]> c = new KafkaShareConsumer<>(config, bytes, bytes)) {
            c.subscribe(List.of(ask.get("topic").asText()));
            long count = ask.get("count").asLong(), limit = System.currentTimeMillis() + LIMIT_MS;
            while (accepted.size() < count) {
                for (ConsumerRecord<byte[], byte[]> r : c.poll(Duration.ofMillis(500))) {
                    boolean take = accepted.size() < count;
                    c.acknowledge(r, take ? AcknowledgeType.ACCEPT : AcknowledgeType.RELEASE);
                    if (take) accepted.add(r.offset());
                }
                c.commitSync();
                if (System.currentTimeMillis() > limit) throw new IllegalStateException("accepted " + accepted);
            }
        }
        return accepted;
    }

    private Fidelity() { }
}
