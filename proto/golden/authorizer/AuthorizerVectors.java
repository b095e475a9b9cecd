// Asks a stock broker's authorizer about random actions under random entries:
//   java -cp 'libs/*' AuthorizerVectors.java > stock-4.4.0.txt
// Lines: `rules N` begins a new set; `acl PERMISSION PRINCIPAL OPERATION TYPE NAME[+] HOST`, + for a prefix;
// `ask PRINCIPAL HOST OPERATION TYPE NAME ALLOWED|DENIED`. User:root is a super user. libs holds the jars of the release's broker.
// No longer name that begins with * is asked about: the release does not find the entries for all names then.

import java.net.InetAddress;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;

public class AuthorizerVectors {
    static final Random random = new Random(1279);
    static final ResourceType[] TYPES = {ResourceType.TOPIC, ResourceType.GROUP};
    static final String[] NAMES = {"a", "ab", "abc", "b", "*", "grün"};
    static final String[] ASKED = {"a", "ab", "abcd", "b", "bc", "*", "grüner", "c"};
    static final String[] PRINCIPALS = {"User:a", "User:b", "User:*", "Group:a"};
    static final String[] CALLERS = {"User:a", "User:b", "Group:a", "User:root", "User:c"};
    static final String[] HOSTS = {"10.0.0.1", "10.0.0.2"};

    public static void main(String[] args) throws Exception {
        for (int rules = 0; rules < 40; rules++) {
            System.out.println("rules " + rules);
            StandardAuthorizer authorizer = new StandardAuthorizer();
            authorizer.withPluginMetrics(new PluginMetricsImpl(new Metrics(), Map.of()));
            authorizer.configure(Map.of("super.users", "User:root", "node.id", "1"));
            Set<StandardAcl> seen = new HashSet<>();
            for (int entry = 1 + random.nextInt(12); entry > 0; entry--) {
                StandardAcl acl = acl();
                if (!seen.add(acl)) continue;
                authorizer.addAcl(Uuid.randomUuid(), acl);
                String prefix = acl.patternType() == PatternType.PREFIXED ? "+" : "";
                System.out.println("acl " + acl.permissionType() + " " + acl.principal() + " " + acl.operation() + " "
                    + acl.resourceType() + " " + acl.resourceName() + prefix + " " + acl.host());
            }
            authorizer.completeInitialLoad();
            for (int ask = 0; ask < 50; ask++) ask(authorizer);
        }
    }

    static void ask(StandardAuthorizer authorizer) throws Exception {
        String principal = pick(CALLERS), host = pick(HOSTS), name = pick(ASKED);
        AclOperation operation = operation(false);
        ResourceType type = pick(TYPES);
        Action action = new Action(operation, new ResourcePattern(type, name, PatternType.LITERAL), 1, true, true);
        System.out.println("ask " + principal + " " + host + " " + operation + " " + type + " " + name + " "
            + authorizer.authorize(context(principal, host), List.of(action)).get(0));
    }

    static StandardAcl acl() {
        return new StandardAcl(pick(TYPES), pick(NAMES), random.nextInt(3) == 0 ? PatternType.PREFIXED : PatternType.LITERAL,
            pick(PRINCIPALS), random.nextBoolean() ? "*" : pick(HOSTS), operation(true),
            random.nextInt(5) == 0 ? AclPermissionType.DENY : AclPermissionType.ALLOW);
    }

    static AclOperation operation(boolean all) {
        AclOperation[] some = Arrays.stream(AclOperation.values())
            .filter(o -> o.code() >= (all ? 2 : 3) && o.code() <= 11 && o != AclOperation.CLUSTER_ACTION).toArray(AclOperation[]::new);
        return random.nextInt(4) == 0 ? (all ? AclOperation.ALL : AclOperation.DESCRIBE) : pick(some);
    }

    static <T> T pick(T[] some) {
        return some[random.nextInt(some.length)];
    }

    static AuthorizableRequestContext context(String principal, String host) throws Exception {
        InetAddress address = InetAddress.getByName(host);
        KafkaPrincipal parsed = new KafkaPrincipal(principal.substring(0, principal.indexOf(':')), principal.substring(principal.indexOf(':') + 1));
        return new AuthorizableRequestContext() {
            public String listenerName() { return "PLAINTEXT"; }
            public SecurityProtocol securityProtocol() { return SecurityProtocol.PLAINTEXT; }
            public KafkaPrincipal principal() { return parsed; }
            public InetAddress clientAddress() { return address; }
            public int requestType() { return 3; }
            public int requestVersion() { return 12; }
            public String clientId() { return "vectors"; }
            public int correlationId() { return 1; }
        };
    }
}
