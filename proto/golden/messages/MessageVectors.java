// Writes one random value of every listed message at every version, encoded by the classes of a stock kafka-clients jar:
//   java -cp kafka-clients-4.4.0.jar:slf4j-api-1.7.36.jar MessageVectors.java > stock-4.4.0.txt
// A line is: message, version, bytes in hex. Values are drawn through the jar's own schemas; a line is kept only if the
// message class reads it and writes the same bytes again.

import java.nio.ByteBuffer;
import java.util.HexFormat;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.protocol.types.BoundField;
import org.apache.kafka.common.protocol.types.Field;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.common.protocol.types.Struct;
import org.apache.kafka.common.protocol.types.TaggedFields;
import org.apache.kafka.common.protocol.types.Type;

public class MessageVectors {
    static final String[][] MESSAGES = {
        {"ApiVersions", "0", "4"}, {"DescribeCluster", "0", "2"}, {"DescribeConfigs", "1", "4"}, {"FindCoordinator", "0", "6"},
        {"IncrementalAlterConfigs", "0", "1"}, {"InitProducerId", "0", "5"}, {"ListOffsets", "1", "11"}, {"Metadata", "0", "13"},
        {"OffsetForLeaderEpoch", "2", "4"}, {"SaslAuthenticate", "0", "2"}, {"SaslHandshake", "0", "1"}, {"Fetch", "4", "18"},
        {"ListGroups", "0", "5"}, {"OffsetFetch", "6", "9"}, {"OffsetCommit", "6", "9"}, {"DescribeShareGroupOffsets", "0", "1"},
        {"AlterShareGroupOffsets", "0", "0"},
        {"DescribeAcls", "1", "3"}, {"CreateAcls", "1", "3"}, {"DeleteAcls", "1", "3"},
        {"DescribeClientQuotas", "0", "1"}, {"DescribeUserScramCredentials", "0", "0"},
    };
    static final Random random = new Random(1279);

    public static void main(String[] args) throws Exception {
        for (String[] row : MESSAGES) {
            for (String half : new String[] {"Request", "Response"}) {
                if (row[0].equals("Fetch") && half.equals("Response")) continue;
                String name = row[0] + half;
                Class<?> data = Class.forName("org.apache.kafka.common.message." + name + "Data");
                Schema[] schemas = (Schema[]) data.getField("SCHEMAS").get(null);
                for (short version = Short.parseShort(row[1]); version <= Short.parseShort(row[2]); version++) {
                    System.out.println(name + " " + version + " " + HexFormat.of().formatHex(vector(data, schemas[version], version)));
                }
            }
        }
    }

    static byte[] vector(Class<?> data, Schema schema, short version) throws Exception {
        for (int attempt = 0; attempt < 1000; attempt++) {
            Struct struct = struct(schema);
            ByteBuffer bytes = ByteBuffer.allocate(schema.sizeOf(struct));
            schema.write(bytes, struct);
            Message message = (Message) data.getConstructor().newInstance();
            message.read(new ByteBufferAccessor(ByteBuffer.wrap(bytes.array())), version);
            ByteBuffer again;
            try {
                again = MessageUtil.toByteBufferAccessor(message, version).buffer();
            } catch (RuntimeException dropped) {
                continue;
            }
            byte[] out = new byte[again.remaining()];
            again.get(out);
            if (java.util.Arrays.equals(out, bytes.array())) return out;
        }
        throw new IllegalStateException(data + " " + version);
    }

    static Struct struct(Schema schema) {
        Struct struct = new Struct(schema);
        for (BoundField field : schema.fields()) struct.set(field, value(field.def.type));
        return struct;
    }

    static Object value(Type type) {
        if (type instanceof Schema) return struct((Schema) type);
        if (type instanceof TaggedFields) {
            Map<Integer, Object> tagged = new TreeMap<>();
            for (Map.Entry<Integer, Field> field : ((TaggedFields) type).fields().entrySet()) {
                if (random.nextBoolean()) tagged.put(field.getKey(), value(field.getValue().type));
            }
            return tagged;
        }
        if (type.isNullable() && random.nextInt(4) == 0) return null;
        if (type.isArray()) {
            Object[] elements = new Object[1 + random.nextInt(2)];
            for (int i = 0; i < elements.length; i++) elements[i] = value(type.arrayElementType().get());
            return elements;
        }
        switch (type.toString()) {
            case "BOOLEAN": return random.nextBoolean();
            case "INT8": return (byte) random.nextInt();
            case "INT16": return (short) random.nextInt();
            case "INT32": return random.nextInt();
            case "INT64": return random.nextLong();
            case "FLOAT64": return random.nextDouble() * 1e9;
            case "UUID": return new Uuid(random.nextLong(), random.nextLong());
            case "STRING": case "COMPACT_STRING": case "NULLABLE_STRING": case "COMPACT_NULLABLE_STRING":
                return new String[] {"", "x", "orders.eu-1", "grün", "127.0.0.1"}[random.nextInt(5)];
            case "BYTES": case "COMPACT_BYTES": case "NULLABLE_BYTES": case "COMPACT_NULLABLE_BYTES":
                return ByteBuffer.wrap(new byte[] {1, 2, (byte) random.nextInt()});
            default: throw new IllegalStateException(type.toString());
        }
    }
}
