import jakarta.jms.JMSException;
import jakarta.jms.JMSSecurityException;
import java.io.FileInputStream;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.security.KeyStore;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

/** Logins with tokens of an OpenID provider. Renewal is missing, because JMS knows nothing of link pairs. */
final class Tokens {
    static final String ISSUER = System.getenv("SLUICE_ISSUER");

    static final Map<String, Suite.Check> CHECKS = new LinkedHashMap<>();

    static {
        CHECKS.put("a_token_allows_what_its_scopes_say", Tokens::allowWhatTheirScopesSay);
        CHECKS.put("a_token_for_others_is_refused", Tokens::forOthersAreRefused);
        CHECKS.put("an_expired_token_closes_the_connection", Tokens::expiredClosesTheConnection);
    }

    private static final String ALL = "rabbitmq.configure:*/* rabbitmq.write:*/* rabbitmq.read:*/*";
    private static final String FOR_US = "urn:interop:rabbitmq:3600";
    private static final String FOR_US_BRIEFLY = "urn:interop:rabbitmq:5"; // seconds
    private static final String FOR_OTHERS = "urn:interop:other:3600";

    private Tokens() {}

    /** Gets a token with the grant client_credentials. */
    private static String token(String scope, String resource) throws Exception {
        KeyStore trusted = KeyStore.getInstance("PKCS12");
        try (FileInputStream file = new FileInputStream(System.getenv("SLUICE_TLS") + "/trust.p12")) {
            trusted.load(file, "secret".toCharArray());
        }
        TrustManagerFactory managers = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        managers.init(trusted);
        SSLContext tls = SSLContext.getInstance("TLS");
        tls.init(null, managers.getTrustManagers(), null);
        String form = Map.of("grant_type", "client_credentials", "scope", scope, "resource", resource).entrySet().stream()
                .map(field -> field.getKey() + "=" + URLEncoder.encode(field.getValue(), StandardCharsets.UTF_8))
                .collect(Collectors.joining("&"));
        HttpRequest request = HttpRequest.newBuilder(URI.create(ISSUER + "/token"))
                .header("Authorization", "Basic " + Base64.getEncoder().encodeToString("interop:secret".getBytes()))
                .header("Content-Type", "application/x-www-form-urlencoded")
                .POST(HttpRequest.BodyPublishers.ofString(form))
                .build();
        HttpResponse<String> answer = HttpClient.newBuilder().sslContext(tls).build()
                .send(request, HttpResponse.BodyHandlers.ofString());
        Suite.expect(answer.statusCode(), 200);
        var found = Pattern.compile("\"access_token\":\"([^\"]+)\"").matcher(answer.body());
        Suite.expect(found.find(), true);
        return found.group(1);
    }

    /** Connects with a token as the password. The name of the user is in the token. */
    private static Client login(String token) throws JMSException {
        return Client.overTls("anybody", token);
    }

    private static void allowWhatTheirScopesSay() throws Exception {
        try (Client client = login(token("rabbitmq.write:*/* rabbitmq.read:*/jms.*", FOR_US))) {
            client.onQueue("jms.own", "a");
            Suite.expect(Client.drain(client.consumer("jms.own")), List.of("a"));
        }
        // A queue of others is not tried: the broker would end the session, which does not end the wait for a consumer.
        String elsewhere = token("rabbitmq.read:elsewhere/*", FOR_US);
        Suite.refused(JMSSecurityException.class, "access to vhost '/' refused for user 'interop'",
                () -> login(elsewhere));
    }

    private static void forOthersAreRefused() throws Exception {
        String token = token(ALL, FOR_OTHERS);
        Suite.refused(JMSSecurityException.class, "authenticate", () -> login(token));
    }

    private static void expiredClosesTheConnection() throws Exception {
        Client client = login(token(ALL, FOR_US_BRIEFLY));
        CompletableFuture<JMSException> closed = new CompletableFuture<>();
        client.connection.setExceptionListener(closed::complete);
        Suite.refused(JMSSecurityException.class, "credential expired", () -> {
            throw closed.get(Client.PATIENCE_MS, TimeUnit.MILLISECONDS);
        });
    }
}
