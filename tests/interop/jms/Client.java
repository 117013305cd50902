import jakarta.jms.BytesMessage;
import jakarta.jms.Connection;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Session;
import jakarta.jms.TextMessage;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import org.apache.qpid.jms.JmsConnectionFactory;

/** A connection and a session whose messages are settled one by one, and the broker's management API. */
final class Client implements AutoCloseable {
    static final long PATIENCE_MS = 30_000; // a guard against hanging, not a measure

    // Outcomes, as the property JMS_AMQP_ACK_TYPE of a received message has them.
    static final int ACCEPTED = 1;
    static final int REJECTED = 2;
    static final int RELEASED = 3;
    static final int MODIFIED_FAILED = 4;
    static final int MODIFIED_FAILED_UNDELIVERABLE = 5;

    static final int INDIVIDUAL_ACKNOWLEDGE = 101;

    final Connection connection;
    final Session session;

    private Client(Connection connection) throws JMSException {
        this.connection = connection;
        connection.start();
        session = session();
    }

    /** `options` are those of the URI; without a prefetch, every receive is one credit. */
    static Client login(String user, String password, String... options) throws JMSException {
        String uri = "amqp://" + System.getenv("SLUICE_AMQP") + "?jms.requestTimeout=" + PATIENCE_MS
                + "&jms.prefetchPolicy.all=0";
        for (String option : options) {
            uri += "&" + option;
        }
        return new Client(new JmsConnectionFactory(user, password, uri).createConnection());
    }

    /** Connects with TLS, and shows a certificate of the user guest if it has no password. */
    static Client overTls(String user, String password) throws JMSException {
        String folder = System.getenv("SLUICE_TLS");
        String uri = "amqps://" + System.getenv("SLUICE_AMQPS").replace("127.0.0.1", "localhost")
                + "?jms.requestTimeout=" + PATIENCE_MS + "&jms.prefetchPolicy.all=0"
                + "&transport.trustStoreLocation=" + folder + "/trust.p12&transport.trustStorePassword=secret";
        if (password == null) {
            uri += "&amqp.saslMechanisms=EXTERNAL"
                    + "&transport.keyStoreLocation=" + folder + "/client.p12&transport.keyStorePassword=secret";
        }
        return new Client(new JmsConnectionFactory(user, password, uri).createConnection());
    }

    static Client connect(String... options) throws JMSException {
        return login("guest", "guest", options);
    }

    Session session() throws JMSException {
        return connection.createSession(false, INDIVIDUAL_ACKNOWLEDGE);
    }

    @Override
    public void close() throws JMSException {
        connection.close();
    }

    MessageConsumer consumer(String queue) throws JMSException {
        return session.createConsumer(session.createQueue("/queues/" + queue));
    }

    MessageConsumer consumer(String queue, String selector) throws JMSException {
        return session.createConsumer(session.createQueue("/queues/" + queue), selector);
    }

    /** Sends persistent messages, each when the one before has been accepted; any other outcome is an exception. */
    void send(String address, String... bodies) throws JMSException {
        MessageProducer producer = session.createProducer(session.createQueue(address));
        for (String body : bodies) {
            producer.send(session.createTextMessage(body));
        }
        producer.close();
    }

    /** Declares a queue with these messages in it. */
    void onQueue(String name, String... bodies) throws Exception {
        queue(name);
        send("/queues/" + name, bodies);
    }

    static void settle(Message message, int outcome) throws JMSException {
        message.setIntProperty("JMS_AMQP_ACK_TYPE", outcome);
        message.acknowledge();
    }

    static Message take(MessageConsumer consumer) throws JMSException {
        Message message = consumer.receive(PATIENCE_MS);
        if (message == null) {
            throw new AssertionError("no message");
        }
        return message;
    }

    /** Everything there: without a prefetch, a receive that does not wait is one credit and a drain. */
    static List<String> drain(MessageConsumer consumer) throws JMSException {
        List<String> bodies = new ArrayList<>();
        for (Message message; (message = consumer.receiveNoWait()) != null;) {
            bodies.add(body(message));
        }
        return bodies;
    }

    static String body(Message message) throws JMSException {
        return ((TextMessage) message).getText();
    }

    static byte[] bytes(Message message) throws JMSException {
        BytesMessage bytes = (BytesMessage) message;
        byte[] body = new byte[(int) bytes.getBodyLength()];
        bytes.readBytes(body);
        return body;
    }

    // JMS knows nothing of link pairs, so these go over HTTP.

    static void queue(String name) throws Exception {
        queueOfType(System.getenv("SLUICE_QUEUE_TYPE"), name, "");
    }

    static void stream(String name) throws Exception {
        queueOfType("stream", name, "");
    }

    /** Declares a queue whose rejected messages go to another queue. */
    static void mortalQueue(String name, String grave) throws Exception {
        queueOfType(System.getenv("SLUICE_QUEUE_TYPE"), name,
            ", \"x-dead-letter-exchange\": \"\", \"x-dead-letter-routing-key\": \"" + grave + "\"");
    }

    private static void queueOfType(String type, String name, String more) throws Exception {
        http(201, "PUT", "queues/%2F/" + name,
            "{\"durable\": true, \"arguments\": {\"x-queue-type\": \"" + type + "\"" + more + "}}");
    }

    static void exchange(String name, String type) throws Exception {
        http(201, "PUT", "exchanges/%2F/" + name, "{\"durable\": true, \"type\": \"" + type + "\"}");
    }

    static void bind(String source, String queue, String key) throws Exception {
        http(201, "POST", "bindings/%2F/e/" + source + "/q/" + queue, "{\"routing_key\": \"" + key + "\"}");
    }

    /** How many messages the queue still has, delivered ones included. */
    static int messages(String queue) throws Exception {
        String answer = http(200, "GET", "queues/%2F/" + queue, "");
        var found = java.util.regex.Pattern.compile("\"messages\":\\s*(\\d+)").matcher(answer);
        Suite.expect(found.find(), true);
        return Integer.parseInt(found.group(1));
    }

    /** One request; the answer's body, whose status is to be `status`. */
    static String http(int status, String method, String path, String body) throws Exception {
        HttpRequest request = HttpRequest.newBuilder(
                        URI.create("http://" + System.getenv("SLUICE_HTTP") + "/api/" + path))
                .header("Authorization", "Basic " + Base64.getEncoder().encodeToString("guest:guest".getBytes()))
                .header("Content-Type", "application/json")
                .method(method, HttpRequest.BodyPublishers.ofString(body))
                .build();
        HttpResponse<String> answer = HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString());
        if (answer.statusCode() != status) {
            throw new AssertionError(method + " " + path + ": " + answer.statusCode() + " " + answer.body());
        }
        return answer.body();
    }
}
