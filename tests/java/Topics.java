// Administration: topics, configs, offsets, DeleteRecords.
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;

final class Topics {
    static Admin admin(JsonNode ask) {
        return Admin.create(Map.<String, Object>of("bootstrap.servers", ask.get("boot").asText(), "default.api.timeout.ms", "30000"));
    }

    static Map<String, String> map(JsonNode object) {
        Map<String, String> out = new HashMap<>();
        object.fields().forEachRemaining(e -> out.put(e.getKey(), e.getValue().asText()));
        return out;
    }

    // {topic, partitions, config{}, replicas{"0":[1,2],...}?} -> {id}
    static JsonNode create(JsonNode ask) throws Exception {
        String topic = ask.get("topic").asText();
        NewTopic wanted;
        if (ask.has("replicas")) {
            Map<Integer, List<Integer>> placed = new HashMap<>();
            ask.get("replicas").fields().forEachRemaining(e -> {
                List<Integer> nodes = new ArrayList<>();
                e.getValue().forEach(n -> nodes.add(n.asInt()));
                placed.put(Integer.parseInt(e.getKey()), nodes);
            });
            wanted = new NewTopic(topic, placed);
        } else {
            wanted = new NewTopic(topic, Optional.of(ask.path("partitions").asInt(1)), Optional.empty());
        }
        try (Admin admin = admin(ask)) {
            var made = admin.createTopics(List.of(wanted.configs(map(ask.path("config")))));
            return Oracle.JSON.createObjectNode().put("id", made.topicId(topic).get().toString());
        }
    }

    // {topic, config{}}: sets keys of the topic
    static JsonNode alter(JsonNode ask) throws Exception {
        List<AlterConfigOp> ops = new ArrayList<>();
        map(ask.get("config")).forEach((k, v) -> ops.add(new AlterConfigOp(new ConfigEntry(k, v), AlterConfigOp.OpType.SET)));
        try (Admin admin = admin(ask)) {
            admin.incrementalAlterConfigs(Map.of(new ConfigResource(ConfigResource.Type.TOPIC, ask.get("topic").asText()), ops)).all().get();
        }
        return Oracle.JSON.createObjectNode();
    }

    // {topic, partitions}: the topic gets so many
    static JsonNode addPartitions(JsonNode ask) throws Exception {
        try (Admin admin = admin(ask)) {
            admin.createPartitions(Map.of(ask.get("topic").asText(), NewPartitions.increaseTo(ask.get("partitions").asInt()))).all().get();
        }
        return Oracle.JSON.createObjectNode();
    }

    // {topics[]} -> [{topic, id, partitions: [{partition, leader, isr, start, end, lso, epoch}]}]
    static JsonNode describe(JsonNode ask) throws Exception {
        List<String> names = new ArrayList<>();
        ask.get("topics").forEach(t -> names.add(t.asText()));
        ArrayNode out = Oracle.JSON.createArrayNode();
        try (Admin admin = admin(ask)) {
            Map<String, TopicDescription> found = admin.describeTopics(names).allTopicNames().get();
            Map<TopicPartition, OffsetSpec> first = new HashMap<>(), last = new HashMap<>();
            found.forEach((name, d) -> d.partitions().forEach(p -> {
                first.put(new TopicPartition(name, p.partition()), OffsetSpec.earliest());
                last.put(new TopicPartition(name, p.partition()), OffsetSpec.latest());
            }));
            var start = admin.listOffsets(first).all().get();
            var end = admin.listOffsets(last).all().get();
            var stable = admin.listOffsets(last, new ListOffsetsOptions(IsolationLevel.READ_COMMITTED)).all().get();
            for (String name : names) {
                TopicDescription d = found.get(name);
                ObjectNode topic = out.addObject().put("topic", name).put("id", d.topicId().toString());
                ArrayNode partitions = topic.putArray("partitions");
                d.partitions().forEach(p -> {
                    TopicPartition tp = new TopicPartition(name, p.partition());
                    partitions.addObject().put("partition", p.partition()).put("leader", p.leader() == null ? -1 : p.leader().id())
                        .put("start", start.get(tp).offset()).put("end", end.get(tp).offset()).put("lso", stable.get(tp).offset())
                        .put("epoch", end.get(tp).leaderEpoch().orElse(-1)).put("isr", p.isr().size());
                });
            }
        }
        return out;
    }

    // {topic, partition, before}: log start moves to `before`
    static JsonNode deleteRecords(JsonNode ask) throws Exception {
        TopicPartition tp = new TopicPartition(ask.get("topic").asText(), ask.path("partition").asInt(0));
        try (Admin admin = admin(ask)) {
            var done = admin.deleteRecords(Map.of(tp, RecordsToDelete.beforeOffset(ask.get("before").asLong())));
            return Oracle.JSON.createObjectNode().put("start", done.lowWatermarks().get(tp).get().lowWatermark());
        }
    }

    // {topic, partition}: the preferred replica becomes the leader again
    static JsonNode elect(JsonNode ask) throws Exception {
        TopicPartition tp = new TopicPartition(ask.get("topic").asText(), ask.get("partition").asInt());
        try (Admin admin = admin(ask)) {
            admin.electLeaders(ElectionType.PREFERRED, Set.of(tp)).all().get();
        }
        return Oracle.JSON.createObjectNode();
    }

    // {topic}
    static JsonNode deleteTopic(JsonNode ask) throws Exception {
        try (Admin admin = admin(ask)) {
            admin.deleteTopics(List.of(ask.get("topic").asText())).all().get();
        }
        return Oracle.JSON.createObjectNode();
    }

    private Topics() { }
}
