import com.rabbitmq.client.AMQP.BasicProperties;
import com.rabbitmq.client.AMQP.Queue.DeclareOk;
import com.rabbitmq.client.AlreadyClosedException;
import com.rabbitmq.client.AuthenticationFailureException;
import com.rabbitmq.client.BuiltinExchangeType;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.DefaultSaslConfig;
import com.rabbitmq.client.Delivery;
import com.rabbitmq.client.LongString;
import com.rabbitmq.client.Recoverable;
import com.rabbitmq.client.RecoveryListener;
import com.rabbitmq.client.Return;
import com.rabbitmq.client.RpcClient;
import com.rabbitmq.client.RpcClientParams;
import com.rabbitmq.client.RpcServer;
import com.rabbitmq.client.ShutdownSignalException;
import com.rabbitmq.client.UnblockedCallback;
import java.math.BigDecimal;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Date;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.SortedSet;
import java.util.TreeSet;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** What programs with RabbitMQ's Java client do, the usual client of AMQP 0.9.1 in Java. */
public final class Suite {
    interface Check {
        void run() throws Exception;
    }

    /** A check that does not apply throws this. */
    static final class Skipped extends Exception {
        private static final long serialVersionUID = 1;

        Skipped(String reason) {
            super(reason);
        }
    }

    static final Map<String, Check> CHECKS = new LinkedHashMap<>();

    static {
        CHECKS.put("connect_and_be_told", Suite::connectAndBeTold);
        CHECKS.put("connect_refused", Suite::connectRefused);
        CHECKS.put("tls_with_a_password", Suite::tlsWithAPassword);
        CHECKS.put("tls_with_a_certificate", Suite::tlsWithACertificate);
        CHECKS.put("headers_of_every_type", Suite::headersOfEveryType);
        CHECKS.put("confirms_to_callbacks", Suite::confirmsToCallbacks);
        CHECKS.put("waiting_for_confirms_dies", Suite::waitingForConfirmsDies);
        CHECKS.put("returns_before_confirms", Suite::returnsBeforeConfirms);
        CHECKS.put("prefetch_and_settlement", Suite::prefetchAndSettlement);
        CHECKS.put("errors_close_the_channel", Suite::errorsCloseTheChannel);
        CHECKS.put("hard_errors_close_the_connection", Suite::hardErrorsCloseTheConnection);
        CHECKS.put("consumers_are_cancelled", Suite::consumersAreCancelled);
        CHECKS.put("counting_and_deleting", Suite::countingAndDeleting);
        CHECKS.put("exchanges_of_every_kind", Suite::exchangesOfEveryKind);
        CHECKS.put("dead_letters", Suite::deadLetters);
        CHECKS.put("transactions", Suite::transactions);
        CHECKS.put("rpc_client_and_server", Suite::rpcClientAndServer);
        CHECKS.put("streams", Suite::streams);
        CHECKS.put("connection_and_topology_are_recovered", Suite::connectionAndTopologyAreRecovered);
        CHECKS.put("quiet_connections_stay", Suite::quietConnectionsStay);
    }

    @SuppressWarnings("unchecked")
    static void connectAndBeTold() throws Exception {
        try (Client client = Client.connect()) {
            Map<String, Object> server = client.connection.getServerProperties();
            expect(server.get("product").toString(), "RabbitMQ");
            Map<String, Object> capabilities = (Map<String, Object>) server.get("capabilities");
            expect(capabilities.get("connection.blocked"), true);
            expect(List.of(client.connection.getChannelMax(), client.connection.getFrameMax()), List.of(2047, 131072));
            expect(client.connection.getHeartbeat(), 60);
        }
    }

    static void connectRefused() throws Exception {
        ConnectionFactory factory = Client.factory();
        factory.setPassword("wrong");
        refused(AuthenticationFailureException.class, "ACCESS_REFUSED", factory::newConnection);
        ConnectionFactory nowhere = Client.factory();
        nowhere.setVirtualHost("nowhere");
        refused(Exception.class, "vhost nowhere not found", nowhere::newConnection);
    }

    static void tlsWithAPassword() throws Exception {
        ConnectionFactory factory = Client.overTls(false);
        if (factory == null) {
            throw new Skipped("the broker has no TLS");
        }
        try (Client client = new Client(factory)) {
            client.onQueue("over-tls", "x".repeat(300_000));
            expect(client.text("over-tls").length(), 300_000);
        }
    }

    static void tlsWithACertificate() throws Exception {
        ConnectionFactory factory = Client.overTls(true);
        if (factory == null) {
            throw new Skipped("the broker has no TLS");
        }
        factory.setSaslConfig(DefaultSaslConfig.EXTERNAL);
        try (Client client = new Client(factory)) {
            client.queue("of-a-certificate");
            client.send("", "of-a-certificate", new BasicProperties.Builder().userId("guest").build(), "a");
            expect(client.get("of-a-certificate").getProps().getUserId(), "guest");
        }
    }

    /** Long strings are shown as text, and bytes as a list, so that maps can be compared. */
    static Object plain(Object value) {
        if (value instanceof LongString || value instanceof Date) {
            return value instanceof Date date ? date.getTime() : value.toString();
        }
        if (value instanceof byte[] bytes) {
            return Arrays.toString(bytes);
        }
        if (value instanceof List<?> list) {
            return list.stream().map(Suite::plain).toList().toString();
        }
        if (value instanceof Map<?, ?> map) {
            Map<String, Object> result = new java.util.TreeMap<>();
            map.forEach((name, each) -> result.put(name.toString(), plain(each)));
            return result;
        }
        return value;
    }

    static void headersOfEveryType() throws Exception {
        Map<String, Object> headers = new HashMap<>();
        headers.put("bool", true);
        headers.put("byte", (byte) -8);
        headers.put("short", (short) -1600);
        headers.put("int", -320_000);
        headers.put("long", Long.MIN_VALUE);
        headers.put("float", 0.1f);
        headers.put("double", 0.1);
        headers.put("decimal", new BigDecimal("3.14"));
        headers.put("text", "grüße");
        headers.put("long-text", "x".repeat(20_000));
        headers.put("bytes", new byte[] {0, -1});
        headers.put("time", new Date(1_700_000_000_000L));
        headers.put("nothing", null);
        headers.put("list", Arrays.asList(1, "two", null, Map.of("deep", List.of(true))));
        headers.put("table", Map.of("a", Map.of("b", "c")));
        BasicProperties sent = new BasicProperties("a/b", "gzip", headers, 2, 3, "c", "r", "60000", "m",
                new Date(1_700_000_000_000L), "t", "guest", "a", "k");
        try (Client client = Client.connect()) {
            client.queue("typed");
            client.send("", "typed", sent, "body");
            BasicProperties found = client.get("typed").getProps();
            Map<String, Object> got = new HashMap<>(found.getHeaders());
            got.keySet().removeAll(List.of("x-delivery-count", "x-acquired-count"));
            expect(plain(got), plain(headers));
            expect(found.builder().headers(null).build().toString(), sent.builder().headers(null).build().toString());
        }
    }

    static void confirmsToCallbacks() throws Exception {
        try (Client client = Client.connect()) {
            client.queue("in-flight");
            SortedSet<Long> open = Collections.synchronizedSortedSet(new TreeSet<>());
            CountDownLatch done = new CountDownLatch(1);
            client.channel.addConfirmListener((tag, multiple) -> {
                if (multiple) {
                    open.headSet(tag + 1).clear();
                } else {
                    open.remove(tag);
                }
                if (open.isEmpty()) {
                    done.countDown();
                }
            }, (tag, multiple) -> System.out.println("nack of " + tag));
            for (long number = 1; number <= 3000; number++) {
                open.add(number);
            }
            for (int number = 1; number <= 3000; number++) {
                expect(client.channel.getNextPublishSeqNo(), (long) number);
                client.channel.basicPublish("", "in-flight", null, Client.bytes("" + number));
            }
            expect(done.await(Client.PATIENCE_MS, TimeUnit.MILLISECONDS), true);
            Client.Inbox inbox = new Client.Inbox(client.channel, "in-flight", 100, false);
            for (int number = 1; number <= 3000; number++) {
                Delivery delivery = inbox.next();
                expect(Client.text(delivery.getBody()), "" + number);
                if (number % 50 == 0) {
                    client.channel.basicAck(delivery.getEnvelope().getDeliveryTag(), true);
                }
            }
            inbox.nothing();
        }
    }

    static void waitingForConfirmsDies() throws Exception {
        try (Client client = Client.connect()) {
            client.queue("full", "x-max-length", 2, "x-overflow", "reject-publish");
            int accepted = 0;
            try {
                while (accepted < 50) {
                    client.publish("", "full", "a");
                    accepted++;
                }
                throw new AssertionError("no publish was rejected");
            } catch (java.io.IOException nacked) {
                expect(nacked.getMessage(), "nacks received");
            }
            expect(Client.QUORUM ? accepted >= 2 : accepted == 2, true);
        }
    }

    static void returnsBeforeConfirms() throws Exception {
        try (Client client = Client.connect()) {
            List<String> order = Collections.synchronizedList(new ArrayList<>());
            client.channel.addReturnListener((Return returned) -> order.add(String.join(" ", "returned",
                    "" + returned.getReplyCode(), returned.getReplyText(), returned.getRoutingKey(),
                    Client.text(returned.getBody()))));
            client.channel.addConfirmListener((tag, multiple) -> order.add("confirmed"), (tag, multiple) -> { });
            client.send("amq.direct", "nobody", null, "a");
            expect(order, List.of("returned 312 NO_ROUTE nobody a", "confirmed"));
        }
    }

    static void prefetchAndSettlement() throws Exception {
        try (Client client = Client.connect()) {
            client.onQueue("settled", "a", "b", "c", "d");
            Client.Inbox inbox = new Client.Inbox(client.channel, "settled", 2, false);
            List<Delivery> got = inbox.take(2);
            inbox.nothing();
            client.channel.basicNack(got.get(0).getEnvelope().getDeliveryTag(), false, true);
            Delivery again = inbox.next();
            expect(Client.text(again.getBody()) + again.getEnvelope().isRedeliver(), "atrue");
            client.channel.basicReject(got.get(1).getEnvelope().getDeliveryTag(), false);
            Delivery third = inbox.next();
            expect(Client.text(third.getBody()), "c");
            client.channel.basicAck(third.getEnvelope().getDeliveryTag(), true);
            expect(inbox.texts(1), "d");
            client.channel.basicRecover(true);
            again = inbox.next();
            expect(Client.text(again.getBody()) + again.getEnvelope().isRedeliver(), "dtrue");
            client.channel.basicCancel(inbox.tag);
            client.channel.basicAck(again.getEnvelope().getDeliveryTag(), false);
            expect(client.channel.basicGet("settled", true), null);
        }
    }

    static void errorsCloseTheChannel() throws Exception {
        try (Client client = Client.connect()) {
            client.onQueue("healthy", "a");
            Channel broken = client.confirming();
            BlockingQueue<ShutdownSignalException> told = new LinkedBlockingQueue<>();
            broken.addShutdownListener(told::add);
            refused(java.io.IOException.class, "no queue 'absent' in vhost '/'",
                    () -> broken.queueDeclarePassive("absent"));
            ShutdownSignalException reason = Client.await(told, "the listener was not called");
            expect(List.of(reason.isHardError(), reason.isInitiatedByApplication()), List.of(false, false));
            refused(AlreadyClosedException.class, "404", () -> broken.basicGet("healthy", true));
            refused(java.io.IOException.class, "inequivalent arg 'x-expires' for queue 'healthy'",
                    () -> client.confirming().queueDeclare(
                            "healthy", true, false, false, Client.arguments("x-expires", 70_000)));
            Channel asynchronous = client.confirming();
            asynchronous.addShutdownListener(told::add);
            asynchronous.basicPublish("absent", "", null, new byte[0]);
            expect(Client.await(told, "no error").getReason().toString().contains("no exchange 'absent'"), true);
            expect(client.text("healthy"), "a");
        }
    }

    static void hardErrorsCloseTheConnection() throws Exception {
        ConnectionFactory factory = Client.factory();
        factory.setAutomaticRecoveryEnabled(false);
        Client client = new Client(factory);
        BlockingQueue<ShutdownSignalException> told = new LinkedBlockingQueue<>();
        client.connection.addShutdownListener(told::add);
        client.channel.basicPublish("", "any", false, true, null, new byte[0]); // immediate
        ShutdownSignalException reason = Client.await(told, "the connection stays");
        expect(reason.isHardError(), true);
        expect(reason.getReason().toString().contains("NOT_IMPLEMENTED - immediate=true"), true);
    }

    static void consumersAreCancelled() throws Exception {
        try (Client client = Client.connect()) {
            client.onQueue("doomed", "a");
            Client.Inbox inbox = new Client.Inbox(client.channel, "doomed", 1, false);
            inbox.next();
            client.confirming().queueDelete("doomed");
            expect(Client.await(inbox.cancelled, "was not cancelled"), inbox.tag);
            client.onQueue("after-doom", "b");
            expect(client.text("after-doom"), "b");
        }
    }

    static void countingAndDeleting() throws Exception {
        try (Client client = Client.connect()) {
            client.onQueue("counted", "a", "b", "c");
            Channel other = client.connection.createChannel();
            expect(client.channel.messageCount("counted"), 3L);
            new Client.Inbox(other, "counted", 1, false).next();
            expect(List.of(client.channel.messageCount("counted"), client.channel.consumerCount("counted")),
                    List.of(2L, 1L));
            expect(client.channel.queuePurge("counted").getMessageCount(), 2);
            client.channel.queueDeleteNoWait("counted", false, false);
            client.channel.queueDeclareNoWait("counted", true, false, false, Client.arguments());
            expect(client.channel.messageCount("counted"), 0L);
        }
    }

    static void exchangesOfEveryKind() throws Exception {
        try (Client client = Client.connect()) {
            Channel channel = client.channel;
            client.queue("routed");
            channel.exchangeDeclare("spill", BuiltinExchangeType.FANOUT, true);
            Map<String, Object> alternate = Map.of("alternate-exchange", "spill");
            channel.exchangeDeclare("in", BuiltinExchangeType.TOPIC, true, false, alternate);
            channel.exchangeDeclare("by-headers", BuiltinExchangeType.HEADERS, true);
            channel.exchangeBind("by-headers", "in", "a.#");
            channel.queueBind("routed", "by-headers", "", Map.of("x-match", "all", "size", 5L, "kind", "k"));
            channel.queueBind("routed", "spill", "");
            Map<String, Object> both = Map.of("size", 5L, "kind", "k");
            Map<String, Object> one = Map.of("size", 5L);
            for (Map<String, Object> headers : List.of(both, one)) {
                BasicProperties properties = new BasicProperties.Builder().headers(headers).build();
                channel.basicPublish("in", "a.b", properties, Client.bytes("a" + headers.size()));
                channel.basicPublish("in", "b", properties, Client.bytes("b" + headers.size()));
            }
            channel.waitForConfirmsOrDie(Client.PATIENCE_MS);
            expect(client.text("routed") + client.text("routed") + client.text("routed"), "a2b2b1");
            refused(java.io.IOException.class, "exchange 'by-headers' in vhost '/' in use",
                    () -> channel.exchangeDelete("by-headers", true));
        }
    }

    @SuppressWarnings("unchecked")
    static void deadLetters() throws Exception {
        try (Client client = Client.connect()) {
            client.queue("grave");
            client.queue("mortal", "x-dead-letter-exchange", "", "x-dead-letter-routing-key", "grave",
                    "x-message-ttl", 30);
            client.publish("", "mortal", "a");
            BasicProperties found = client.get("grave").getProps();
            Map<String, Object> death = ((List<Map<String, Object>>) found.getHeaders().get("x-death")).get(0);
            expect(List.of(death.get("reason").toString(), death.get("queue").toString(), death.get("count"),
                    death.get("routing-keys").toString()), List.of("expired", "mortal", 1L, "[mortal]"));
            expect(death.get("time") instanceof Date, true);
            expect(found.getHeaders().get("x-first-death-reason").toString(), "expired");
        }
    }

    static void transactions() throws Exception {
        try (Client client = Client.connect()) {
            client.queue("in-transaction");
            Channel tx = client.connection.createChannel();
            tx.txSelect();
            tx.basicPublish("", "in-transaction", null, Client.bytes("lost"));
            tx.txRollback();
            tx.basicPublish("", "in-transaction", null, Client.bytes("kept"));
            tx.txCommit();
            expect(client.text("in-transaction"), "kept");
            refused(java.io.IOException.class, "cannot switch from tx to confirm mode", tx::confirmSelect);
        }
    }

    static void rpcClientAndServer() throws Exception {
        try (Client serving = Client.connect(); Client asking = Client.connect()) {
            serving.queue("questions");
            RpcServer server = new RpcServer(serving.connection.createChannel(), "questions") {
                @Override
                public byte[] handleCall(byte[] body, BasicProperties properties) {
                    return Client.bytes("re: " + Client.text(body));
                }
            };
            Thread loop = new Thread(() -> {
                try {
                    server.mainloop();
                } catch (java.io.IOException | ShutdownSignalException end) {
                    // The connection was closed.
                }
            });
            loop.setDaemon(true);
            loop.start();
            RpcClient client = new RpcClient(new RpcClientParams()
                    .channel(asking.connection.createChannel()).exchange("").routingKey("questions").timeout(10_000));
            for (int number = 0; number < 50; number++) {
                expect(client.stringCall("q" + number), "re: q" + number);
            }
            client.close();
        }
    }

    static void streams() throws Exception {
        try (Client client = Client.connect()) {
            client.queue("stream", "x-queue-type", "stream", "x-max-length-bytes", 1_000_000_000L);
            client.publish("", "stream", "a", "b", "c");
            Client.Inbox inbox = new Client.Inbox(client.channel, "stream", 1, false, "x-stream-offset", 1);
            for (String wanted : List.of("b1", "c2")) {
                Delivery delivery = inbox.next();
                Object offset = delivery.getProperties().getHeaders().get("x-stream-offset");
                expect(Client.text(delivery.getBody()) + offset, wanted);
                client.channel.basicAck(delivery.getEnvelope().getDeliveryTag(), false);
            }
        }
    }

    /** The library connects anew, declares again what the program declared, and consumes again. */
    static void connectionAndTopologyAreRecovered() throws Exception {
        try (Client.Relay relay = new Client.Relay(); Client client = new Client(Client.factory(relay.address()))) {
            BlockingQueue<Recoverable> recovered = new LinkedBlockingQueue<>();
            ((Recoverable) client.connection).addRecoveryListener(new RecoveryListener() {
                @Override
                public void handleRecovery(Recoverable recoverable) {
                    recovered.add(recoverable);
                }

                @Override
                public void handleRecoveryStarted(Recoverable recoverable) {
                    // Only its end counts.
                }
            });
            client.onQueue("recovered", "a");
            DeclareOk own = client.channel.queueDeclare(); // exclusive, and named by the broker
            client.channel.exchangeDeclare("brief", BuiltinExchangeType.TOPIC, true, true, null);
            client.channel.queueBind(own.getQueue(), "brief", "to.#");
            Client.Inbox ofOwn = new Client.Inbox(client.connection.createChannel(), own.getQueue(), 10, true);
            Client.Inbox inbox = new Client.Inbox(client.channel, "recovered", 1, false);
            expect(inbox.texts(1), "a");
            for (int round = 0; round < 2; round++) {
                relay.cut();
                Client.await(recovered, "was not recovered");
                Delivery again = inbox.next();
                expect(Client.text(again.getBody()) + again.getEnvelope().isRedeliver(), "atrue");
                client.send("brief", "to.own", null, "b" + round);
                expect(ofOwn.texts(1), "b" + round);
            }
        }
    }

    static void quietConnectionsStay() throws Exception {
        ConnectionFactory factory = Client.factory();
        factory.setRequestedHeartbeat(1);
        factory.setAutomaticRecoveryEnabled(false);
        try (Client client = new Client(factory)) {
            List<String> told = Collections.synchronizedList(new ArrayList<>());
            UnblockedCallback unblocked = () -> told.add("unblocked");
            client.connection.addBlockedListener(told::add, unblocked);
            client.connection.addShutdownListener(reason -> told.add(reason.toString()));
            Thread.sleep(3500);
            expect(told, List.of());
            client.onQueue("after-the-quiet", "a");
        }
    }

    // --- the frame ---------------------------------------------------------------------------------------------------

    static void expect(Object found, Object wanted) {
        if (found == null ? wanted != null : !found.equals(wanted)) {
            throw new AssertionError("found " + found + ", wanted " + wanted);
        }
    }

    interface Attempt {
        Object run() throws Exception;
    }

    /** Expects an exception of this type, with this text in itself or in a cause. */
    static void refused(Class<? extends Exception> type, String text, Attempt attempt) {
        try {
            attempt.run();
        } catch (Exception problem) {
            for (Throwable cause = problem; cause != null; cause = cause.getCause()) {
                if (type.isInstance(problem) && cause.toString().contains(text)) {
                    return;
                }
            }
            throw new AssertionError("wanted " + type + " with " + text, problem);
        }
        throw new AssertionError("was not refused");
    }

    /** Runs every check, or those named on the command line. */
    public static void main(String[] names) {
        if (names.length > 0) {
            CHECKS.keySet().retainAll(List.of(names));
        }
        int failed = 0;
        int skipped = 0;
        for (Map.Entry<String, Check> check : CHECKS.entrySet()) {
            try {
                check.getValue().run();
                System.out.println("ok   " + check.getKey());
            } catch (Skipped reason) {
                skipped++;
                System.out.println("skip " + check.getKey() + " " + reason.getMessage());
            } catch (Throwable problem) {
                failed++;
                System.out.println("FAIL " + check.getKey());
                problem.printStackTrace(System.out);
            }
        }
        System.out.printf("amqp-java: %d passed, %d failed%n", CHECKS.size() - failed - skipped, failed);
        System.exit(failed > 0 ? 1 : 0);
    }
}
