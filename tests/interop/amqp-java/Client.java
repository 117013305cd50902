import com.rabbitmq.client.AMQP.BasicProperties;
import com.rabbitmq.client.CancelCallback;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.Delivery;
import com.rabbitmq.client.GetResponse;
import com.rabbitmq.client.MessageProperties;
import java.io.FileInputStream;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

/** A connection with one channel that confirms, and what the checks do with it. */
final class Client implements AutoCloseable {
    static final long PATIENCE_MS = 30_000; // a guard against hanging, not a measure
    static final long QUIET_MS = 150; // in which a message that must not arrive would arrive
    static final String QUEUE_TYPE = System.getenv("SLUICE_QUEUE_TYPE");
    static final boolean QUORUM = "quorum".equals(QUEUE_TYPE);

    final Connection connection;
    final Channel channel;

    Client(ConnectionFactory factory) throws Exception {
        connection = factory.newConnection("interop");
        channel = confirming();
    }

    static ConnectionFactory factory() {
        return factory(System.getenv("SLUICE_AMQP"));
    }

    static ConnectionFactory factory(String address) {
        ConnectionFactory factory = new ConnectionFactory();
        factory.setHost(address.split(":")[0]);
        factory.setPort(Integer.parseInt(address.split(":")[1]));
        factory.setNetworkRecoveryInterval(50);
        return factory;
    }

    /** Returns null if the broker has no TLS. Otherwise the client shows the certificate of guest, if `certified`. */
    static ConnectionFactory overTls(boolean certified) throws Exception {
        String address = System.getenv("SLUICE_AMQPS");
        if (address == null || address.isEmpty()) {
            return null;
        }
        String folder = System.getenv("SLUICE_TLS");
        KeyStore trusted = KeyStore.getInstance("PKCS12");
        trusted.load(null, null);
        try (FileInputStream authority = new FileInputStream(folder + "/ca.pem")) {
            trusted.setCertificateEntry("ca", CertificateFactory.getInstance("X.509").generateCertificate(authority));
        }
        TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        trust.init(trusted);
        KeyManagerFactory keys = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
        keys.init(certified ? ownKey(folder) : null, "".toCharArray());
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(keys.getKeyManagers(), trust.getTrustManagers(), null);
        ConnectionFactory factory = factory(address.replace("127.0.0.1", "localhost"));
        factory.useSslProtocol(context);
        factory.enableHostnameVerification();
        return factory;
    }

    private static KeyStore ownKey(String folder) throws Exception {
        String pem = Files.readString(Path.of(folder, "client.key")).replaceAll("-----[A-Z ]+-----|\\s", "");
        var encoded = new java.security.spec.PKCS8EncodedKeySpec(java.util.Base64.getDecoder().decode(pem));
        var key = java.security.KeyFactory.getInstance("EC").generatePrivate(encoded);
        KeyStore own = KeyStore.getInstance("PKCS12");
        own.load(null, null);
        try (FileInputStream certificate = new FileInputStream(folder + "/client.pem")) {
            var chain = CertificateFactory.getInstance("X.509").generateCertificate(certificate);
            own.setKeyEntry("client", key, "".toCharArray(), new java.security.cert.Certificate[] {chain});
        }
        return own;
    }

    static Client connect() throws Exception {
        return new Client(factory());
    }

    Channel confirming() throws IOException {
        Channel opened = connection.createChannel();
        opened.confirmSelect();
        return opened;
    }

    @Override
    public void close() throws IOException {
        connection.close();
    }

    /** Declares a durable queue of the tested type, with these arguments: names and values in turn. */
    void queue(String name, Object... more) throws IOException {
        channel.queueDeclare(name, true, false, false, arguments(more));
    }

    static Map<String, Object> arguments(Object... more) {
        Map<String, Object> all = new HashMap<>();
        all.put("x-queue-type", QUEUE_TYPE);
        for (int at = 0; at < more.length; at += 2) {
            all.put((String) more[at], more[at + 1]);
        }
        return all;
    }

    /** Declares a queue with these messages in it. */
    void onQueue(String name, String... bodies) throws Exception {
        queue(name);
        publish("", name, bodies);
    }

    void publish(String exchange, String key, String... bodies) throws Exception {
        for (String body : bodies) {
            channel.basicPublish(exchange, key, MessageProperties.PERSISTENT_BASIC, bytes(body));
        }
        channel.waitForConfirmsOrDie(PATIENCE_MS);
    }

    void send(String exchange, String key, BasicProperties properties, String body) throws Exception {
        channel.basicPublish(exchange, key, true, properties, bytes(body));
        channel.waitForConfirmsOrDie(PATIENCE_MS);
    }

    /** Waits until the queue has a message. It is acknowledged. */
    GetResponse get(String queue) throws Exception {
        long deadline = System.nanoTime() + PATIENCE_MS * 1_000_000;
        while (System.nanoTime() < deadline) {
            GetResponse got = channel.basicGet(queue, true);
            if (got != null) {
                return got;
            }
            Thread.sleep(5);
        }
        throw new AssertionError("no message in " + queue);
    }

    String text(String queue) throws Exception {
        return text(get(queue).getBody());
    }

    static String text(byte[] body) {
        return new String(body, StandardCharsets.UTF_8);
    }

    static byte[] bytes(String body) {
        return body.getBytes(StandardCharsets.UTF_8);
    }

    /** Stores what arrives at a consumer, and the tag when the broker cancels it. */
    static final class Inbox {
        final BlockingQueue<Delivery> arrived = new LinkedBlockingQueue<>();
        final BlockingQueue<String> cancelled = new LinkedBlockingQueue<>();
        final String tag;

        Inbox(Channel channel, String queue, int prefetch, boolean autoAck, Object... more) throws IOException {
            Map<String, Object> options = arguments(more);
            options.remove("x-queue-type");
            channel.basicQos(prefetch);
            CancelCallback cancel = cancelled::add;
            tag = channel.basicConsume(
                    queue, autoAck, "", false, false, options, (name, one) -> arrived.add(one), cancel);
        }

        Delivery next() throws InterruptedException {
            return await(arrived, "nothing arrived");
        }

        List<Delivery> take(int count) throws InterruptedException {
            List<Delivery> got = new ArrayList<>();
            while (got.size() < count) {
                got.add(next());
            }
            return got;
        }

        String texts(int count) throws InterruptedException {
            List<String> found = new ArrayList<>();
            for (Delivery delivery : take(count)) {
                found.add(text(delivery.getBody()));
            }
            return String.join(" ", found);
        }

        void nothing() throws InterruptedException {
            Delivery delivery = arrived.poll(QUIET_MS, TimeUnit.MILLISECONDS);
            if (delivery != null) {
                throw new AssertionError(text(delivery.getBody()) + " arrived");
            }
        }
    }

    static <T> T await(BlockingQueue<T> from, String otherwise) throws InterruptedException {
        T value = from.poll(PATIENCE_MS, TimeUnit.MILLISECONDS);
        if (value == null) {
            throw new AssertionError(otherwise);
        }
        return value;
    }

    /** Stands between the library and the broker, so that a check can break connections. */
    static final class Relay implements AutoCloseable {
        private final ServerSocket listener = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
        private final List<Socket> sockets = new CopyOnWriteArrayList<>();

        Relay() throws IOException {
            run(() -> {
                while (true) {
                    Socket near = listener.accept();
                    String[] broker = System.getenv("SLUICE_AMQP").split(":");
                    Socket far = new Socket(broker[0], Integer.parseInt(broker[1]));
                    sockets.addAll(List.of(near, far));
                    run(() -> near.getInputStream().transferTo(far.getOutputStream()));
                    run(() -> far.getInputStream().transferTo(near.getOutputStream()));
                }
            });
        }

        interface Work {
            void run() throws IOException;
        }

        private static void run(Work work) {
            Thread thread = new Thread(() -> {
                try {
                    work.run();
                } catch (IOException end) {
                    // A socket was closed, which is how the work ends.
                }
            });
            thread.setDaemon(true);
            thread.start();
        }

        String address() {
            return "localhost:" + listener.getLocalPort();
        }

        void cut() throws IOException {
            for (Socket socket : sockets) {
                socket.close();
            }
            sockets.clear();
        }

        @Override
        public void close() throws IOException {
            listener.close();
            cut();
        }
    }
}
