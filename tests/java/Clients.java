// What stock client classes make of a twinlog node: every look an administrator takes, a change that is only tried, and producers.
// Each step's outcome stands by itself, {"ok": ...} or {"error": "class: message < cause"}, so that a refusal is an answer.
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.AlterConfigsOptions;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.DescribeClusterOptions;
import org.apache.kafka.clients.admin.DescribeTopicsOptions;
import org.apache.kafka.clients.admin.ListTopicsOptions;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

final class Clients {
    private static void step(ObjectNode out, String name, Callable<JsonNode> work) {
        ObjectNode outcome = out.putObject(name);
        try {
            outcome.set("ok", work.call());
        } catch (Throwable failure) {
            outcome.put("error", Oracle.chain(failure));
        }
    }

    private static ArrayNode texts(Iterable<?> values) {
        ArrayNode out = Oracle.JSON.createArrayNode();
        values.forEach(v -> out.add(String.valueOf(v)));
        return out;
    }

    private static JsonNode node(Node node) {
        return Oracle.JSON.createObjectNode().put("id", node.id()).put("host", node.host()).put("port", node.port()).put("rack", node.rack());
    }

    private static JsonNode topic(TopicDescription found) {
        ObjectNode out = Oracle.JSON.createObjectNode().put("name", found.name()).put("id", found.topicId().toString());
        out.put("internal", found.isInternal()).put("partitions", found.partitions().size());
        out.put("leader", found.partitions().get(0).leader().id()).put("isr", found.partitions().get(0).isr().size());
        out.set("operations", found.authorizedOperations() == null ? null : texts(new TreeSet<>(found.authorizedOperations())));
        return out;
    }

    private static JsonNode configs(Admin admin, ConfigResource.Type type, String name) throws Exception {
        ConfigResource resource = new ConfigResource(type, name);
        Config config = admin.describeConfigs(List.of(resource)).all().get().get(resource);
        ObjectNode out = Oracle.JSON.createObjectNode();
        config.entries().forEach(e -> out.put(e.name(), e.value()));
        return out;
    }

    private static JsonNode offset(Admin admin, String topic, OffsetSpec spec) throws Exception {
        TopicPartition partition = new TopicPartition(topic, 0);
        return Oracle.JSON.getNodeFactory().numberNode(admin.listOffsets(Map.of(partition, spec)).all().get().get(partition).offset());
    }

    // {boot, topic}: the looks of an administrator, and a change that is only tried
    static JsonNode look(JsonNode ask) {
        String topic = ask.get("topic").asText();
        ObjectNode out = Oracle.JSON.createObjectNode();
        try (Admin admin = Topics.admin(ask)) {
            step(out, "cluster", () -> {
                var told = admin.describeCluster(new DescribeClusterOptions().includeAuthorizedOperations(true));
                ObjectNode cluster = Oracle.JSON.createObjectNode().put("id", told.clusterId().get());
                cluster.set("controller", node(told.controller().get()));
                told.nodes().get().forEach(n -> cluster.withArray("nodes").add(node(n)));
                cluster.set("operations", texts(new TreeSet<>(told.authorizedOperations().get())));
                return cluster;
            });
            step(out, "features", () -> {
                ObjectNode features = Oracle.JSON.createObjectNode();
                admin.describeFeatures().featureMetadata().get().finalizedFeatures().forEach((k, v) -> features.put(k, v.maxVersionLevel()));
                return features;
            });
            step(out, "topics", () -> texts(new TreeSet<>(admin.listTopics(new ListTopicsOptions().listInternal(false)).names().get())));
            step(out, "topics with internal", () -> texts(new TreeSet<>(admin.listTopics(new ListTopicsOptions().listInternal(true)).names().get())));
            DescribeTopicsOptions with = new DescribeTopicsOptions().includeAuthorizedOperations(true);
            step(out, "by name", () -> topic(admin.describeTopics(List.of(topic), with).allTopicNames().get().get(topic)));
            step(out, "by id", () -> {
                Uuid id = Uuid.fromString(ask.get("id").asText());
                return topic(admin.describeTopics(TopicCollection.ofTopicIds(List.of(id))).allTopicIds().get().get(id));
            });
            step(out, "unknown name", () -> topic(admin.describeTopics(List.of("nope")).allTopicNames().get().get("nope")));
            step(out, "topic configs", () -> configs(admin, ConfigResource.Type.TOPIC, topic));
            step(out, "node configs", () -> configs(admin, ConfigResource.Type.BROKER, "1"));
            step(out, "all nodes' configs", () -> configs(admin, ConfigResource.Type.BROKER, ""));
            step(out, "earliest", () -> offset(admin, topic, OffsetSpec.earliest()));
            step(out, "latest", () -> offset(admin, topic, OffsetSpec.latest()));
            step(out, "by timestamp", () -> offset(admin, topic, OffsetSpec.forTimestamp(1)));
            step(out, "max timestamp", () -> offset(admin, topic, OffsetSpec.maxTimestamp()));
            step(out, "tried change", () -> tried(admin, topic, "retention.ms", "12345"));
            step(out, "tried wrong change", () -> tried(admin, topic, "retention.ms", "soon"));
            step(out, "tried change of a node", () -> changed(admin, new ConfigResource(ConfigResource.Type.BROKER, "1"), "log.retention.ms", "1"));
            step(out, "a consumer's look", () -> consumed(ask.get("boot").asText(), new TopicPartition(topic, 0)));
            step(out, "topic configs after", () -> configs(admin, ConfigResource.Type.TOPIC, topic));
        }
        return out;
    }

    private static JsonNode tried(Admin admin, String topic, String key, String value) throws Exception {
        return changed(admin, new ConfigResource(ConfigResource.Type.TOPIC, topic), key, value);
    }

    private static JsonNode changed(Admin admin, ConfigResource resource, String key, String value) throws Exception {
        List<AlterConfigOp> ops = List.of(new AlterConfigOp(new ConfigEntry(key, value), AlterConfigOp.OpType.SET));
        admin.incrementalAlterConfigs(Map.of(resource, ops), new AlterConfigsOptions().validateOnly(true)).all().get();
        return Oracle.JSON.createObjectNode();
    }

    // What a consumer asks before it fetches.
    private static JsonNode consumed(String boot, TopicPartition partition) {
        ByteArrayDeserializer bytes = new ByteArrayDeserializer();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(Map.of("bootstrap.servers", boot), bytes, bytes)) {
            ObjectNode out = Oracle.JSON.createObjectNode().put("partitions", consumer.partitionsFor(partition.topic()).size());
            out.put("first", consumer.beginningOffsets(List.of(partition)).get(partition).longValue());
            return out.put("end", consumer.endOffsets(List.of(partition)).get(partition).longValue());
        }
    }

    // {boot, topic}: one record by a plain, an idempotent and a transactional producer; each outcome with the time it took
    static JsonNode write(JsonNode ask) {
        ObjectNode out = Oracle.JSON.createObjectNode();
        for (String kind : List.of("plain", "idempotent", "transactional")) {
            long begun = System.nanoTime();
            step(out, kind, () -> written(ask, kind));
            ((ObjectNode) out.get(kind)).put("ms", TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - begun));
        }
        return out;
    }

    private static JsonNode written(JsonNode ask, String kind) throws Exception {
        Map<String, Object> config = new HashMap<>(Map.of("bootstrap.servers", ask.get("boot").asText()));
        config.put("enable.idempotence", !kind.equals("plain"));
        boolean transactional = kind.equals("transactional");
        if (transactional) config.put("transactional.id", "t");
        KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer());
        try {
            if (transactional) {
                producer.initTransactions();
                producer.beginTransaction();
            }
            long at = producer.send(new ProducerRecord<>(ask.get("topic").asText(), new byte[1])).get().offset();
            return Oracle.JSON.getNodeFactory().numberNode(at);
        } finally {
            producer.close(Duration.ZERO);
        }
    }

    private Clients() { }
}
