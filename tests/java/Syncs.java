// What is mirrored besides records, as an administrator and consumers make and see it: topic settings, offsets of groups, ACLs.
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

final class Syncs {
    // Consumers that stay in their groups until they are told to leave.
    static final Map<String, KafkaConsumer<byte[], byte[]>> MEMBERS = new HashMap<>();

    // {topic, set{}, remove[]}
    static JsonNode settings(JsonNode ask) throws Exception {
        List<AlterConfigOp> ops = new ArrayList<>();
        Topics.map(ask.path("set")).forEach((k, v) -> ops.add(new AlterConfigOp(new ConfigEntry(k, v), AlterConfigOp.OpType.SET)));
        ask.path("remove").forEach(k -> ops.add(new AlterConfigOp(new ConfigEntry(k.asText(), null), AlterConfigOp.OpType.DELETE)));
        try (Admin admin = Topics.admin(ask)) {
            admin.incrementalAlterConfigs(Map.of(new ConfigResource(ConfigResource.Type.TOPIC, ask.get("topic").asText()), ops)).all().get();
        }
        return Oracle.JSON.createObjectNode();
    }

    // {topic, all} -> {name: value} of the settings that were made on the topic; with `all` of those that hold for it, wherever they come from
    static JsonNode ownSettings(JsonNode ask) throws Exception {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, ask.get("topic").asText());
        ObjectNode out = Oracle.JSON.createObjectNode();
        try (Admin admin = Topics.admin(ask)) {
            for (ConfigEntry entry : admin.describeConfigs(List.of(resource)).all().get().get(resource).entries()) {
                boolean own = entry.source() == ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG;
                if (own || ask.path("all").asBoolean(false)) out.put(entry.name(), entry.value());
            }
        }
        return out;
    }

    // {group, topic, offsets: {"0": [offset, epoch, "metadata"], ...}}: what an administrator resets; epoch -1 = none
    static JsonNode commit(JsonNode ask) throws Exception {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        ask.get("offsets").fields().forEachRemaining(e -> {
            int epoch = e.getValue().get(1).asInt();
            offsets.put(new TopicPartition(ask.get("topic").asText(), Integer.parseInt(e.getKey())), new OffsetAndMetadata(
                e.getValue().get(0).asLong(), epoch < 0 ? Optional.empty() : Optional.of(epoch), e.getValue().get(2).asText()));
        });
        try (Admin admin = Topics.admin(ask)) {
            admin.alterConsumerGroupOffsets(ask.get("group").asText(), offsets).all().get();
        }
        return Oracle.JSON.createObjectNode();
    }

    // {group} -> {"topic-partition": [offset, epoch, "metadata"]}
    static JsonNode offsets(JsonNode ask) throws Exception {
        ObjectNode out = Oracle.JSON.createObjectNode();
        String group = ask.get("group").asText();
        try (Admin admin = Topics.admin(ask)) {
            new TreeMap<>(keyed(admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get())).forEach((name, o) ->
                out.set(name, Oracle.JSON.createArrayNode().add(o.offset()).add(o.leaderEpoch().orElse(-1)).add(o.metadata())));
        }
        return out;
    }

    private static Map<String, OffsetAndMetadata> keyed(Map<TopicPartition, OffsetAndMetadata> all) {
        Map<String, OffsetAndMetadata> out = new HashMap<>();
        all.forEach((partition, offset) -> { if (offset != null) out.put(partition.toString(), offset); });
        return out;
    }

    // {group, topic, protocol, count}: reads at least `count` records as a member of the group, commits, and stays in it
    // -> {read, first: {"partition": offset}}
    static JsonNode join(JsonNode ask) {
        Map<String, Object> config = new HashMap<>(Map.of("bootstrap.servers", ask.get("boot").asText(),
            "group.id", ask.get("group").asText(), "group.protocol", ask.path("protocol").asText("classic"), "auto.offset.reset", "earliest",
            "enable.auto.commit", false, "max.poll.records", 10));
        var consumer = new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        MEMBERS.put(ask.get("boot").asText() + ask.get("group").asText(), consumer);
        consumer.subscribe(List.of(ask.get("topic").asText()));
        long read = 0, limit = System.currentTimeMillis() + 30_000;
        ObjectNode first = Oracle.JSON.createObjectNode();
        while (read < ask.path("count").asLong() || consumer.assignment().isEmpty()) {
            var got = consumer.poll(Duration.ofMillis(200));
            read += got.count();
            got.forEach(r -> { if (!first.has("" + r.partition())) first.put("" + r.partition(), r.offset()); });
            if (System.currentTimeMillis() > limit) throw new IllegalStateException("read " + read + " as " + consumer.assignment());
        }
        consumer.commitSync();
        ObjectNode out = Oracle.JSON.createObjectNode().put("read", read);
        out.set("first", first);
        return out;
    }

    // {group}: leaves it
    static JsonNode leave(JsonNode ask) {
        MEMBERS.remove(ask.get("boot").asText() + ask.get("group").asText()).close();
        return Oracle.JSON.createObjectNode();
    }

    // {group, topic, offset}: where a share group starts in partition 0
    static JsonNode shareStart(JsonNode ask) throws Exception {
        try (Admin admin = Topics.admin(ask)) {
            admin.alterShareGroupOffsets(ask.get("group").asText(), Map.of(new TopicPartition(ask.get("topic").asText(), 0), ask.get("offset").asLong())).all().get();
        }
        return Oracle.JSON.createObjectNode();
    }

    // {group} -> {"topic-partition": offset}
    static JsonNode shareStarts(JsonNode ask) throws Exception {
        ObjectNode out = Oracle.JSON.createObjectNode();
        String group = ask.get("group").asText();
        try (Admin admin = Topics.admin(ask)) {
            var spec = Map.of(group, new org.apache.kafka.clients.admin.ListShareGroupOffsetsSpec());
            admin.listShareGroupOffsets(spec).partitionsToOffsetInfo(group).get().forEach((p, o) -> {
                if (o != null) out.put(p.toString(), o.startOffset());
            });
        }
        return out;
    }

    // {count, topic}: many groups with an offset each -> {}
    static JsonNode many(JsonNode ask) throws Exception {
        try (Admin admin = Topics.admin(ask)) {
            List<org.apache.kafka.common.KafkaFuture<Void>> waiting = new ArrayList<>();
            for (int n = 0; n < ask.get("count").asInt(); n++) {
                var offset = Map.of(new TopicPartition(ask.get("topic").asText(), 0), new OffsetAndMetadata(n % 50));
                waiting.add(admin.alterConsumerGroupOffsets(String.format("many-%05d", n), offset).all());
            }
            for (var one : waiting) one.get();
        }
        return Oracle.JSON.createObjectNode();
    }

    private static AclBinding binding(JsonNode rule) {
        return new AclBinding(
            new ResourcePattern(ResourceType.fromString(rule.get(0).asText()), rule.get(1).asText(), PatternType.fromString(rule.get(2).asText())),
            new AccessControlEntry(rule.get(3).asText(), "*", AclOperation.fromString(rule.get(4).asText()), AclPermissionType.fromString(rule.get(5).asText())));
    }

    // {add[], remove[]} of [resource type, name, pattern type, principal, operation, permission]
    static JsonNode acls(JsonNode ask) throws Exception {
        List<AclBinding> add = new ArrayList<>();
        List<AclBindingFilter> remove = new ArrayList<>();
        ask.path("add").forEach(rule -> add.add(binding(rule)));
        ask.path("remove").forEach(rule -> remove.add(binding(rule).toFilter()));
        try (Admin admin = Topics.admin(ask)) {
            if (!add.isEmpty()) admin.createAcls(add).all().get();
            if (!remove.isEmpty()) admin.deleteAcls(remove).all().get();
        }
        return Oracle.JSON.createObjectNode();
    }

    // {} -> ["type:name:pattern:principal:operation:permission"], sorted
    static JsonNode listAcls(JsonNode ask) throws Exception {
        List<String> lines = new ArrayList<>();
        try (Admin admin = Topics.admin(ask)) {
            Collection<AclBinding> found = admin.describeAcls(AclBindingFilter.ANY).values().get();
            for (AclBinding b : found) {
                lines.add(String.join(":", b.pattern().resourceType().name(), b.pattern().name(), b.pattern().patternType().name(),
                    b.entry().principal(), b.entry().operation().name(), b.entry().permissionType().name()));
            }
        }
        lines.sort(null);
        ArrayNode out = Oracle.JSON.createArrayNode();
        lines.forEach(out::add);
        return out;
    }
}
