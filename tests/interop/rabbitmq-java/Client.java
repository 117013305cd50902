import com.rabbitmq.client.amqp.Connection;
import com.rabbitmq.client.amqp.Consumer;
import com.rabbitmq.client.amqp.ConsumerBuilder;
import com.rabbitmq.client.amqp.Environment;
import com.rabbitmq.client.amqp.Management;
import com.rabbitmq.client.amqp.Management.QueueType;
import com.rabbitmq.client.amqp.Message;
import com.rabbitmq.client.amqp.Publisher;
import com.rabbitmq.client.amqp.impl.AmqpEnvironmentBuilder;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.UnaryOperator;
import javax.net.ssl.SSLContext;

/** A connection, its management, and what the checks do with it. */
final class Client implements AutoCloseable {
    static final long PATIENCE_S = 30; // a guard against hanging, not a measure

    static final Environment ENVIRONMENT = new AmqpEnvironmentBuilder().build();

    final Connection connection;
    final Management management;

    private Client(Connection connection) {
        this.connection = connection;
        management = connection.management();
    }

    static Client connect(String password) {
        String[] address = System.getenv("SLUICE_AMQP").split(":");
        return new Client(ENVIRONMENT.connectionBuilder()
                .host(address[0]).port(Integer.parseInt(address[1])).username("guest").password(password)
                .recovery().activated(false).connectionBuilder().build());
    }

    /** Connects with TLS, and with tokens that the library gets from a provider. */
    static Client overTls(SSLContext trusting, String tokenEndpoint, Map<String, String> parameters) {
        String[] address = System.getenv("SLUICE_AMQPS").split(":");
        var builder = ENVIRONMENT.connectionBuilder().host("localhost").port(Integer.parseInt(address[1]))
                .recovery().activated(false).connectionBuilder()
                .tls().sslContext(trusting).connection();
        var tokens = builder.oauth2().tokenEndpointUri(tokenEndpoint).clientId("interop").clientSecret("secret")
                .grantType("client_credentials").shared(false).tls().sslContext(trusting).oauth2();
        parameters.forEach(tokens::parameter);
        return new Client(builder.build());
    }

    static Client connect() {
        return connect("guest");
    }

    @Override
    public void close() {
        connection.close();
    }

    /** Declares a classic queue with these messages in it. */
    void classic(String name, String... bodies) throws Exception {
        management.queue(name).type(QueueType.CLASSIC).declare();
        publish(name, bodies);
    }

    void stream(String name, String... bodies) throws Exception {
        management.queue(name).type(QueueType.STREAM).declare();
        publish(name, bodies);
    }

    void bind(String exchange, String queue, String key) {
        management.binding().sourceExchange(exchange).destinationQueue(queue).key(key).bind();
    }

    long count(String queue) {
        return management.queueInfo(queue).messageCount();
    }

    Publisher to(String queue) {
        return connection.publisherBuilder().queue(queue).build();
    }

    Publisher to(String exchange, String key) {
        return connection.publisherBuilder().exchange(exchange).key(key).build();
    }

    void publish(String queue, String... bodies) throws Exception {
        try (Publisher publisher = to(queue)) {
            for (String body : bodies) {
                Suite.expect(outcome(publisher, publisher.message(body.getBytes())), Publisher.Status.ACCEPTED);
            }
        }
    }

    /** Publishes one text to an exchange. */
    Publisher.Status route(String exchange, String key, String body) throws Exception {
        try (Publisher publisher = to(exchange, key)) {
            return outcome(publisher, publisher.message(body.getBytes()));
        }
    }

    static Publisher.Status outcome(Publisher publisher, Message message) throws Exception {
        return confirmed(publisher, message).status();
    }

    static Publisher.Context confirmed(Publisher publisher, Message message) throws Exception {
        CompletableFuture<Publisher.Context> confirm = new CompletableFuture<>();
        publisher.publish(message, confirm::complete);
        return confirm.get(PATIENCE_S, TimeUnit.SECONDS);
    }

    /** A message and how it is settled. */
    record Delivery(Consumer.Context context, Message message) {
        String text() {
            return new String(message.body());
        }

        /** How often it has failed, and whether this is the first time that anybody gets it. */
        String before() {
            return message.deliveryCount() + " " + message.firstAcquirer();
        }
    }

    /** A consumer whose settlement is the check's. */
    static final class Inbox implements AutoCloseable {
        private final BlockingQueue<Delivery> arrived = new LinkedBlockingQueue<>();
        final CompletableFuture<Throwable> closed = new CompletableFuture<>();
        private final Consumer consumer;

        Inbox(ConsumerBuilder builder) {
            consumer = builder
                    .messageHandler((context, message) -> arrived.add(new Delivery(context, message)))
                    .listeners(context -> {
                        if (context.failureCause() != null) {
                            closed.complete(context.failureCause());
                        }
                    })
                    .build();
        }

        Delivery next() throws Exception {
            Delivery delivery = arrived.poll(PATIENCE_S, TimeUnit.SECONDS);
            if (delivery == null) {
                throw new AssertionError("no message");
            }
            return delivery;
        }

        /** Accepts this many. */
        List<Delivery> take(int count) throws Exception {
            List<Delivery> taken = new ArrayList<>();
            for (int i = 0; i < count; i++) {
                Delivery delivery = next();
                delivery.context().accept();
                taken.add(delivery);
            }
            return taken;
        }

        @Override
        public void close() {
            consumer.close();
        }
    }

    Inbox consume(String queue, UnaryOperator<ConsumerBuilder> options) {
        return new Inbox(options.apply(connection.consumerBuilder().queue(queue)));
    }

    /** Consumes this many messages on a consumer of its own. */
    List<Delivery> take(String queue, int count) throws Exception {
        return take(queue, count, UnaryOperator.identity());
    }

    List<Delivery> take(String queue, int count, UnaryOperator<ConsumerBuilder> options) throws Exception {
        try (Inbox inbox = consume(queue, options)) {
            return inbox.take(count);
        }
    }

    static String texts(List<Delivery> deliveries) {
        return String.join(" ", deliveries.stream().map(Delivery::text).toList());
    }
}
