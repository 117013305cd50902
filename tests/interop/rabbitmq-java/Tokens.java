import com.rabbitmq.client.amqp.AmqpException;
import java.io.FileInputStream;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

/** Logins with tokens of an OpenID provider, from which the library itself gets tokens, and renews them. */
final class Tokens {
    static final String ISSUER = System.getenv("SLUICE_ISSUER");

    static final Map<String, Suite.Check> CHECKS = new LinkedHashMap<>();

    static {
        CHECKS.put("a_token_allows_what_its_scopes_say", Tokens::allowWhatTheirScopesSay);
        CHECKS.put("the_library_renews_its_tokens", Tokens::theLibraryRenews);
    }

    private static final String ALL = "rabbitmq.configure:*/* rabbitmq.write:*/* rabbitmq.read:*/*";
    private static final String FOR_US = "urn:interop:rabbitmq:3600";
    private static final String FOR_OTHERS = "urn:interop:other:3600";

    /**
     * The library renews a token after four fifths of its lifetime. The provider gives the time of expiry in whole seconds,
     * so that it may be a second earlier.
     */
    private static final int BRIEF_S = 10;

    private Tokens() {}

    private static SSLContext trusting() throws Exception {
        KeyStore trusted = KeyStore.getInstance(KeyStore.getDefaultType());
        trusted.load(null, null);
        try (FileInputStream file = new FileInputStream(System.getenv("SLUICE_TLS") + "/ca.pem")) {
            trusted.setCertificateEntry("authority", CertificateFactory.getInstance("X.509").generateCertificate(file));
        }
        TrustManagerFactory managers = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        managers.init(trusted);
        SSLContext tls = SSLContext.getInstance("TLS");
        tls.init(null, managers.getTrustManagers(), null);
        return tls;
    }

    private static Client login(String scope, String resource) throws Exception {
        return Client.overTls(trusting(), ISSUER + "/token", Map.of("scope", scope, "resource", resource));
    }

    private static void allowWhatTheirScopesSay() throws Exception {
        String scope = "rabbitmq.configure:*/rabbitmq-java.* rabbitmq.write:*/* rabbitmq.read:*/rabbitmq-java.*";
        try (Client client = login(scope, FOR_US)) {
            client.classic("rabbitmq-java.own", "a");
            Suite.expect(Client.texts(client.take("rabbitmq-java.own", 1)), "a");
            Suite.refused(AmqpException.AmqpSecurityException.class,
                    "read access to queue 'orders' in vhost '/' refused for user 'interop'",
                    () -> client.take("orders", 1));
        }
    }

    /** The time until the first token expires is used to see that a token for others is refused. */
    private static void theLibraryRenews() throws Exception {
        try (Client renewed = login(ALL, "urn:interop:rabbitmq:" + BRIEF_S)) {
            long expired = System.nanoTime() + TimeUnit.SECONDS.toNanos(BRIEF_S);
            Suite.refused(AmqpException.AmqpSecurityException.class, "", () -> login(ALL, FOR_OTHERS));
            TimeUnit.NANOSECONDS.sleep(expired - System.nanoTime());
            renewed.classic("rabbitmq-java.renewed", "a");
        }
    }
}
