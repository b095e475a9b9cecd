// A stock client of a stock broker, driven by the tests: one JSON request a line on standard input, one JSON answer a line on
// standard output ({"ok": ...} or {"error": "..."}). Ends, without closing anything politely, when standard input ends: that is
// how a transaction stays open. Needs nothing but the jars of one Kafka release.
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;

public final class Oracle {
    static final ObjectMapper JSON = new ObjectMapper();

    static JsonNode answer(JsonNode ask) throws Exception {
        String verb = ask.path("do").asText();
        return switch (verb) {
            case "create" -> Topics.create(ask);
            case "alter" -> Topics.alter(ask);
            case "add-partitions" -> Topics.addPartitions(ask);
            case "describe" -> Topics.describe(ask);
            case "settings" -> Syncs.settings(ask);
            case "own-settings" -> Syncs.ownSettings(ask);
            case "commit" -> Syncs.commit(ask);
            case "offsets" -> Syncs.offsets(ask);
            case "join" -> Syncs.join(ask);
            case "leave" -> Syncs.leave(ask);
            case "share-start" -> Syncs.shareStart(ask);
            case "share-starts" -> Syncs.shareStarts(ask);
            case "many-groups" -> Syncs.many(ask);
            case "acls" -> Syncs.acls(ask);
            case "list-acls" -> Syncs.listAcls(ask);
            case "delete-records" -> Topics.deleteRecords(ask);
            case "elect" -> Topics.elect(ask);
            case "delete-topic" -> Topics.deleteTopic(ask);
            case "produce" -> Produce.produce(ask);
            case "end" -> Produce.endTransaction(ask);
            case "stream-start" -> Produce.streamStart(ask);
            case "stream-stop" -> Produce.streamStop(ask);
            case "read" -> Read.digests(ask);
            case "latest" -> Read.latest(ask);
            case "fresh" -> Fidelity.fresh(ask);
            case "values" -> Fidelity.values(ask);
            case "times" -> Fidelity.times(ask);
            case "set-quota" -> Fidelity.setQuota(ask);
            case "quotas" -> Fidelity.quotas(ask);
            case "features" -> Fidelity.features(ask);
            case "reassign" -> Fidelity.reassign(ask);
            case "share-read" -> Fidelity.shareRead(ask);
            case "look" -> Clients.look(ask);
            case "write" -> Clients.write(ask);
            default -> throw new IllegalArgumentException("unknown request '" + verb + "'");
        };
    }

    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        System.setOut(System.err);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            ObjectNode result = JSON.createObjectNode();
            try {
                result.set("ok", answer(JSON.readTree(line)));
            } catch (Throwable failure) {
                result.put("error", chain(failure));
            }
            out.println(JSON.writeValueAsString(result));
        }
        Runtime.getRuntime().halt(0);
    }

    static String chain(Throwable failure) {
        StringBuilder text = new StringBuilder();
        for (Throwable t = failure; t != null; t = t.getCause()) text.append(text.isEmpty() ? "" : " < ").append(t);
        return text.toString();
    }
}
