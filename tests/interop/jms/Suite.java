import jakarta.jms.BytesMessage;
import jakarta.jms.CompletionListener;
import jakarta.jms.DeliveryMode;
import jakarta.jms.InvalidDestinationException;
import jakarta.jms.JMSException;
import jakarta.jms.JMSSecurityException;
import jakarta.jms.MapMessage;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.ObjectMessage;
import jakarta.jms.QueueBrowser;
import jakarta.jms.Session;
import jakarta.jms.StreamMessage;
import jakarta.jms.TemporaryQueue;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Enumeration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.zip.CRC32;
import org.apache.qpid.jms.JmsConnectionFactory;

/**
 * The story of every suite here, told with Qpid JMS.
 *
 * <p>Left out: declaring over the management node, and anything that looks at first-acquirer, which JMS does not show.
 * Of the filters of a source the client sets no-local and selectors only; what it asks of streams is in {@link Streams}.
 */
public final class Suite {
    private static final int MESSAGES = 10_000;

    interface Check {
        void run() throws Exception;
    }

    private static final Map<String, Check> CHECKS = new LinkedHashMap<>();

    static {
        CHECKS.put("connect_with_plain", Suite::connectWithPlain);
        CHECKS.put("connect_with_anonymous", Suite::connectWithAnonymous);
        CHECKS.put("wrong_password_is_refused", Suite::wrongPasswordIsRefused);
        CHECKS.put("tls_with_a_password", Suite::tlsWithAPassword);
        CHECKS.put("tls_with_a_certificate", Suite::tlsWithACertificate);
        CHECKS.put("a_virtual_host_of_its_own", Suite::virtualHostOfItsOwn);
        CHECKS.put("a_missing_virtual_host_is_an_error_that_names_it", Suite::aMissingVirtualHostIsAnError);
        CHECKS.put("declare_over_http", Suite::declareOverHttp);
        CHECKS.put("send_and_receive_10000_of_mixed_sizes", Suite::sendAndReceiveMixedSizes);
        CHECKS.put("release_redelivers", Suite::releaseRedelivers);
        CHECKS.put("recover_redelivers", Suite::recoverRedelivers);
        CHECKS.put("reject_discards", Suite::rejectDiscards);
        CHECKS.put("reject_dead_letters", Suite::rejectDeadLetters);
        CHECKS.put("modify_counts_the_failure", Suite::modifyCountsTheFailure);
        CHECKS.put("drain_returns_what_is_there_and_tells", Suite::drainReturnsWhatIsThere);
        CHECKS.put("one_credit_gets_one_message", Suite::oneCreditGetsOneMessage);
        CHECKS.put("session_end_redelivers_in_order", Suite::sessionEndRedeliversInOrder);
        CHECKS.put("missing_queue_is_not_found", Suite::missingQueueIsNotFound);
        CHECKS.put("fanout_and_topic_route", Suite::fanoutAndTopicRoute);
        CHECKS.put("unroutable_is_released", Suite::unroutableIsReleased);
        CHECKS.put("deleting_the_queue_detaches_its_links", Suite::deletingTheQueueDetaches);
        CHECKS.put("settled_both_ways", Suite::settledBothWays);
        CHECKS.put("a_publisher_that_detaches_gets_its_outcomes", Suite::detachedPublisherGetsItsOutcomes);
        CHECKS.put("anonymous_terminus_routes_by_to", Suite::anonymousTerminus);
        CHECKS.put("message_types_and_durability_arrive", Suite::messageTypesArrive);
        CHECKS.put("temporary_queue_takes_the_reply", Suite::temporaryQueueTakesTheReply);
        CHECKS.put("transactions_are_not_implemented", Suite::transactionsAreNotImplemented);
        CHECKS.put("selectors_of_queues_are_refused", Suite::selectorsOfQueuesAreRefused);
        CHECKS.put("a_browser_sees_a_queue_and_takes_nothing", Suite::browserTakesNothing);
        CHECKS.put("streams_are_read_by_many", Streams::readByMany);
        CHECKS.put("streams_keep_whatever_is_settled", Streams::keepWhateverIsSettled);
        CHECKS.put("streams_are_read_from_the_first", Streams::readFromTheFirst);
        CHECKS.put("streams_are_read_from_an_offset", Streams::readFromAnOffset);
        CHECKS.put("streams_are_read_from_a_time", Streams::readFromATime);
        CHECKS.put("streams_are_read_by_filter_value", Streams::readByFilterValue);
        CHECKS.put("streams_are_read_by_properties", Streams::readByProperties);
        CHECKS.put("streams_are_read_by_application_properties", Streams::readByApplicationProperties);
        CHECKS.put("streams_are_read_by_expression", Streams::readByExpression);
        CHECKS.put("what_is_no_selector_is_refused", Streams::whatIsNoSelectorIsRefused);
        CHECKS.put("idle_connection_stays", Suite::idleConnectionStays);
    }

    static void connectWithPlain() throws Exception {
        Client.connect("amqp.saslMechanisms=PLAIN").close();
    }

    static void tlsWithAPassword() throws Exception {
        try (Client client = Client.overTls("guest", "guest")) {
            String[] bodies = {"x".repeat(10), "x".repeat(1000), "x".repeat(50_000), "x".repeat(300_000)};
            client.onQueue("over-tls", bodies);
            expect(Client.drain(client.consumer("over-tls")), List.of(bodies));
        }
    }

    static void tlsWithACertificate() throws Exception {
        try (Client client = Client.overTls(null, null)) {
            client.onQueue("of-a-certificate", "a");
        }
    }

    static void connectWithAnonymous() throws Exception {
        Client.login(null, null, "amqp.saslMechanisms=ANONYMOUS").close();
    }

    static void wrongPasswordIsRefused() {
        refused(JMSSecurityException.class, "authenticate", () -> Client.login("guest", "wrong"));
    }

    /** A virtual host is named in OPEN, with the prefix that RabbitMQ asks for. */
    static void virtualHostOfItsOwn() throws Exception {
        Client.http(201, "PUT", "vhosts/team", "{}");
        Client.http(201, "PUT", "users/anna", "{\"password\": \"secret\", \"tags\": \"\"}");
        String all = "{\"configure\": \".*\", \"write\": \".*\", \"read\": \".*\"}";
        Client.http(201, "PUT", "permissions/team/anna", all);
        String type = "{\"durable\": true, \"arguments\": {\"x-queue-type\": \""
                + System.getenv("SLUICE_QUEUE_TYPE") + "\"}}";
        Client.http(201, "PUT", "queues/team/shared-name", type);
        try (Client ours = Client.login("anna", "secret", "amqp.vhost=vhost:team"); Client other = Client.connect()) {
            other.onQueue("shared-name", "elsewhere");
            ours.send("/queues/shared-name", "a", "b");
            expect(Client.drain(ours.consumer("shared-name")), List.of("a", "b"));
            expect(Client.drain(other.consumer("shared-name")), List.of("elsewhere"));
        }
        refused(JMSSecurityException.class, "access to vhost '/' refused", () -> Client.login("anna", "secret"));
    }

    /** With failover, the client connects again and again, except after a refusal for reasons of security. */
    static void aMissingVirtualHostIsAnError() {
        refused(JMSSecurityException.class, "vhost 'absent' not found",
                () -> Client.login("guest", "guest", "amqp.vhost=vhost:absent"));
        String uri = "failover:(amqp://" + System.getenv("SLUICE_AMQP") + "?amqp.vhost=vhost:absent)";
        refused(JMSSecurityException.class, "vhost 'absent' not found", () -> {
            try (var connection = new JmsConnectionFactory("guest", "guest", uri).createConnection()) {
                connection.start();
                connection.createSession();
            }
        });
    }

    static void declareOverHttp() throws Exception {
        Client.http(201, "PUT", "queues/%2F/declared", "{\"durable\": true}");
        Client.http(204, "PUT", "queues/%2F/declared", "{\"durable\": true}");
        Client.http(400, "PUT", "queues/%2F/declared", "{\"durable\": true, \"auto_delete\": true}");
        expect(Client.messages("declared"), 0);
        Client.http(404, "GET", "queues/%2F/absent", "");
        Client.http(204, "DELETE", "queues/%2F/declared", "");
    }

    /** 12 bytes to 1 MiB, 72 MB in all. */
    static int sizeOf(int number) {
        if (number % 200 == 0) {
            return 1 << 20;
        }
        if (number % 50 == 1) {
            return 1 << 16;
        }
        return number % 10 == 2 ? 4096 : 12 + number * 7 % 500;
    }

    static byte[] bodyOf(int number) {
        int size = sizeOf(number);
        String text = String.format("%012d", number);
        return Arrays.copyOf(text.repeat(size / 12 + 1).getBytes(), size);
    }

    static long crc(byte[] body) {
        CRC32 crc = new CRC32();
        crc.update(body);
        return crc.getValue();
    }

    static void sendAndReceiveMixedSizes() throws Exception {
        Client.queue("bulk");
        try (Client client = Client.connect("jms.prefetchPolicy.all=200")) {
            MessageProducer producer = client.session.createProducer(client.session.createQueue("/queues/bulk"));
            Semaphore room = new Semaphore(100);
            AtomicReference<Exception> problem = new AtomicReference<>();
            CompletionListener outcome = new CompletionListener() {
                @Override
                public void onCompletion(Message message) {
                    room.release();
                }

                @Override
                public void onException(Message message, Exception cause) {
                    problem.compareAndSet(null, cause);
                    room.release();
                }
            };
            for (int number = 0; number < MESSAGES; number++) {
                byte[] body = bodyOf(number);
                BytesMessage message = client.session.createBytesMessage();
                message.writeBytes(body);
                message.setIntProperty("number", number);
                message.setLongProperty("crc", crc(body));
                expect(room.tryAcquire(Client.PATIENCE_MS, TimeUnit.MILLISECONDS), true);
                producer.send(message, outcome);
            }
            expect(room.tryAcquire(100, Client.PATIENCE_MS, TimeUnit.MILLISECONDS), true);
            expect(problem.get(), null);

            MessageConsumer consumer = client.consumer("bulk");
            for (int number = 0; number < MESSAGES; number++) {
                Message message = Client.take(consumer);
                byte[] body = Client.bytes(message);
                expect(message.getIntProperty("number"), number);
                expect(body.length, sizeOf(number));
                expect(crc(body), message.getLongProperty("crc"));
                expect(message.getJMSDeliveryMode(), DeliveryMode.PERSISTENT);
                expect(message.getJMSRedelivered(), false);
                message.acknowledge();
            }
            expect(consumer.receiveNoWait(), null);
        }
        expect(Client.messages("bulk"), 0);
    }

    static void releaseRedelivers() throws Exception {
        try (Client client = Client.connect()) {
            client.onQueue("released", "a", "b");
            MessageConsumer consumer = client.consumer("released");
            Message message = Client.take(consumer);
            expect(seen(message), "a 1");
            Client.settle(message, Client.RELEASED);
            message = Client.take(consumer);
            expect(seen(message), "a 1");
            Client.settle(message, Client.ACCEPTED);
            expect(seen(Client.take(consumer)), "b 1");
        }
    }

    /** The body, and the number of deliveries with this one: delivery-count + 1. */
    static String seen(Message message) throws JMSException {
        int deliveries = message.getIntProperty("JMSXDeliveryCount");
        expect(message.getJMSRedelivered(), deliveries > 1);
        return Client.body(message) + " " + deliveries;
    }

    /** Recovering is the client's own affair; what it kept comes from the broker again when the session ends. */
    static void recoverRedelivers() throws Exception {
        try (Client client = Client.connect("jms.prefetchPolicy.all=10")) {
            client.onQueue("recovered", "a", "b");
            Session session = client.connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
            MessageConsumer consumer = session.createConsumer(session.createQueue("/queues/recovered"));
            expect(seen(Client.take(consumer)), "a 1");
            session.recover();
            expect(seen(Client.take(consumer)), "a 2");
            expect(seen(Client.take(consumer)), "b 1");
            session.close();
            MessageConsumer second = client.consumer("recovered");
            expect(Client.body(Client.take(second)), "a");
            expect(Client.body(Client.take(second)), "b");
        }
    }

    static void rejectDiscards() throws Exception {
        try (Client client = Client.connect()) {
            client.onQueue("rejected", "a", "b");
            MessageConsumer consumer = client.consumer("rejected");
            Message message = Client.take(consumer);
            expect(Client.body(message), "a");
            Client.settle(message, Client.REJECTED);
            expect(Client.drain(consumer), List.of("b"));
        }
    }

    static void rejectDeadLetters() throws Exception {
        try (Client client = Client.connect()) {
            Client.queue("grave");
            Client.mortalQueue("mortal", "grave");
            client.send("/queues/mortal", "a", "b");
            MessageConsumer consumer = client.consumer("mortal");
            Client.settle(Client.take(consumer), Client.REJECTED);
            expect(Client.body(Client.take(consumer)), "b");
            expect(seen(Client.take(client.consumer("grave"))), "a 2");
        }
    }

    static void modifyCountsTheFailure() throws Exception {
        try (Client client = Client.connect()) {
            client.onQueue("modified", "a");
            MessageConsumer consumer = client.consumer("modified");
            Client.settle(Client.take(consumer), Client.MODIFIED_FAILED);
            Message message = Client.take(consumer);
            expect(seen(message), "a 2");
            Client.settle(message, Client.MODIFIED_FAILED_UNDELIVERABLE);
            expect(Client.drain(consumer), List.of());
        }
    }

    static void drainReturnsWhatIsThere() throws Exception {
        try (Client client = Client.connect()) {
            client.onQueue("drained", "a", "b", "c");
            MessageConsumer consumer = client.consumer("drained");
            expect(Client.drain(consumer), List.of("a", "b", "c"));
            expect(Client.drain(consumer), List.of());
        }
    }

    static void oneCreditGetsOneMessage() throws Exception {
        try (Client client = Client.connect()) {
            client.onQueue("one", "a", "b", "c");
            MessageConsumer first = client.consumer("one");
            MessageConsumer second = client.consumer("one");
            // A second message for a credit would be in the hands of the wrong consumer.
            expect(Client.body(Client.take(first)), "a");
            expect(Client.body(Client.take(second)), "b");
            expect(Client.body(Client.take(first)), "c");
        }
    }

    /** The client keeps a closed consumer's link until its messages are settled, so this ends the session instead. */
    static void sessionEndRedeliversInOrder() throws Exception {
        try (Client client = Client.connect()) {
            client.onQueue("detached", "0", "1", "2", "3", "4", "5", "6", "7", "8", "9");
            Session session = client.session();
            MessageConsumer first = session.createConsumer(session.createQueue("/queues/detached"));
            for (int number = 0; number < 6; number++) {
                Message message = Client.take(first);
                expect(seen(message), number + " 1");
                if (number == 1) {
                    Client.settle(message, Client.ACCEPTED);
                }
            }
            session.close();
            MessageConsumer second = client.consumer("detached");
            List<String> got = new ArrayList<>();
            for (int count = 0; count < 9; count++) {
                got.add(seen(Client.take(second)));
            }
            expect(got, List.of("0 2", "2 2", "3 2", "4 2", "5 2", "6 1", "7 1", "8 1", "9 1"));
        }
    }

    static void missingQueueIsNotFound() throws Exception {
        try (Client client = Client.connect()) {
            refused(InvalidDestinationException.class, "amqp:not-found", () -> client.send("/queues/absent", "a"));
            refused(InvalidDestinationException.class, "amqp:not-found", () -> client.consumer("absent"));
            refused(JMSException.class, "amqp:invalid-field",
                    () -> client.session.createConsumer(client.session.createQueue("old-style")));
            client.onQueue("after-refusals", "a");
        }
    }

    static void fanoutAndTopicRoute() throws Exception {
        Client.queue("orders");
        Client.queue("audit");
        Client.exchange("news", "fanout");
        Client.exchange("events", "topic");
        Client.bind("news", "orders", "");
        Client.bind("news", "audit", "");
        Client.bind("events", "orders", "order.*");
        Client.bind("events", "audit", "#");
        try (Client client = Client.connect()) {
            client.send("/exchanges/news", "n");
            client.send("/exchanges/events/order.new", "o");
            client.send("/exchanges/events/user.new", "u");
            expect(Client.drain(client.consumer("orders")), List.of("n", "o"));
            expect(Client.drain(client.consumer("audit")), List.of("n", "o", "u"));
        }
    }

    static void unroutableIsReleased() throws Exception {
        Client.exchange("nowhere", "direct");
        try (Client client = Client.connect()) {
            refused(JMSException.class, "released by receiver", () -> client.send("/exchanges/nowhere/key", "a"));
        }
    }

    static void deletingTheQueueDetaches() throws Exception {
        Client.queue("doomed");
        try (Client client = Client.connect("jms.prefetchPolicy.all=10")) {
            CompletableFuture<String> closed = new CompletableFuture<>();
            client.connection.setExceptionListener(problem -> closed.complete(problem.toString()));
            client.consumer("doomed").setMessageListener(message -> {}); // only then the loss of a link is an exception
            Client.http(204, "DELETE", "queues/%2F/doomed", "");
            String cause = closed.get(Client.PATIENCE_MS, TimeUnit.MILLISECONDS);
            expect(cause.contains("amqp:resource-deleted") ? "amqp:resource-deleted" : cause, "amqp:resource-deleted");
        }
    }

    static void settledBothWays() throws Exception {
        Client.queue("at-most-once");
        try (Client client = Client.connect("jms.presettlePolicy.presettleAll=true", "jms.prefetchPolicy.all=100")) {
            MessageProducer producer = client.session.createProducer(client.session.createQueue("/queues/at-most-once"));
            for (int number = 0; number < 100; number++) {
                producer.send(client.session.createTextMessage("" + number));
            }
            MessageConsumer consumer = client.consumer("at-most-once");
            for (int number = 0; number < 100; number++) {
                expect(Client.body(Client.take(consumer)), "" + number); // not acknowledged
            }
            expect(Client.messages("at-most-once"), 0);
        }
    }

    static void anonymousTerminus() throws Exception {
        try (Client client = Client.connect()) {
            client.onQueue("to-one");
            client.onQueue("to%20two");
            MessageProducer producer = client.session.createProducer(null);
            for (String to : List.of("/queues/to-one", "/queues/to%20two")) {
                producer.send(client.session.createQueue(to), client.session.createTextMessage("for " + to));
            }
            refused(JMSException.class, "released by receiver", () -> producer.send(
                    client.session.createQueue("/exchanges/amq.fanout/none"), client.session.createTextMessage()));
            refused(JMSException.class, "amqp:not-found", () -> producer.send(
                    client.session.createQueue("/exchanges/absent/key"), client.session.createTextMessage()));
            expect(Client.drain(client.consumer("to-one")), List.of("for /queues/to-one"));
            expect(Client.drain(client.consumer("to%20two")), List.of("for /queues/to%20two"));
        }
    }

    static void messageTypesArrive() throws Exception {
        Client.queue("types");
        try (Client client = Client.connect()) {
            Session session = client.session;
            MessageProducer producer = session.createProducer(session.createQueue("/queues/types"));
            // The highest priority comes first: quorum queues deliver by priority.
            StreamMessage stream = session.createStreamMessage();
            stream.writeInt(1);
            stream.writeString("two");
            // With the priority of 4 and no time to live, the client would leave the header out.
            producer.send(stream, DeliveryMode.NON_PERSISTENT, 9, 3_600_000);
            MapMessage map = session.createMapMessage();
            map.setString("text", "gr\u00fcn");
            map.setLong("number", Long.MIN_VALUE);
            producer.send(map);
            ObjectMessage object = session.createObjectMessage("three");
            object.setJMSCorrelationID("four");
            object.setDoubleProperty("half", 0.5);
            producer.send(object);
            // A message of no type has no body section, which the standard demands.
            refused(JMSException.class, "amqp:decode-error", () -> producer.send(session.createMessage()));

            MessageConsumer consumer = client.consumer("types");
            stream = (StreamMessage) Client.take(consumer);
            expect(stream.readInt(), 1);
            expect(stream.readString(), "two");
            expect(List.of(stream.getJMSDeliveryMode(), stream.getJMSPriority()),
                    List.of(DeliveryMode.NON_PERSISTENT, 9));
            map = (MapMessage) Client.take(consumer);
            expect(map.getString("text"), "gr\u00fcn");
            expect(map.getLong("number"), Long.MIN_VALUE);
            expect(List.of(map.getJMSDeliveryMode(), map.getJMSPriority()), List.of(DeliveryMode.PERSISTENT, 4));
            object = (ObjectMessage) Client.take(consumer);
            expect(object.getObject(), "three");
            expect(object.getJMSCorrelationID(), "four");
            expect(object.getDoubleProperty("half"), 0.5);
            expect(consumer.receiveNoWait(), null);
        }
    }

    static void temporaryQueueTakesTheReply() throws Exception {
        Client.queue("requests");
        try (Client asker = Client.connect(); Client answerer = Client.connect()) {
            TemporaryQueue replies = asker.session.createTemporaryQueue();
            Message request = asker.session.createTextMessage("how many?");
            request.setJMSReplyTo(replies);
            asker.session.createProducer(asker.session.createQueue("/queues/requests")).send(request);

            Message asked = Client.take(answerer.consumer("requests"));
            expect(((TemporaryQueue) asked.getJMSReplyTo()).getQueueName(), replies.getQueueName());
            Message answer = answerer.session.createTextMessage("two");
            answer.setJMSCorrelationID(asked.getJMSMessageID());
            answerer.session.createProducer(asked.getJMSReplyTo()).send(answer);

            MessageConsumer consumer = asker.session.createConsumer(replies);
            answer = Client.take(consumer);
            expect(Client.body(answer), "two");
            expect(answer.getJMSCorrelationID(), request.getJMSMessageID());
            consumer.close();
            replies.delete();
            refused(InvalidDestinationException.class, "amqp:not-found",
                    () -> answerer.session.createProducer(asked.getJMSReplyTo()));
        }
    }

    static void detachedPublisherGetsItsOutcomes() throws Exception {
        Client.queue("left");
        try (Client client = Client.connect()) {
            MessageProducer producer = client.session.createProducer(client.session.createQueue("/queues/left"));
            Semaphore accepted = new Semaphore(0);
            AtomicReference<Exception> problem = new AtomicReference<>();
            CompletionListener outcome = new CompletionListener() {
                @Override
                public void onCompletion(Message message) {
                    accepted.release();
                }

                @Override
                public void onException(Message message, Exception cause) {
                    problem.compareAndSet(null, cause);
                }
            };
            for (int number = 0; number < 100; number++) {
                producer.send(client.session.createTextMessage("x"), outcome);
            }
            producer.close();
            expect(accepted.tryAcquire(100, Client.PATIENCE_MS, TimeUnit.MILLISECONDS), true);
            expect(problem.get(), null);
        }
        expect(Client.messages("left"), 100);
    }

    static void transactionsAreNotImplemented() throws Exception {
        try (Client client = Client.connect()) {
            refused(JMSException.class, "amqp:not-implemented",
                    () -> client.connection.createSession(true, Session.SESSION_TRANSACTED));
            client.onQueue("after-transactions", "a");
        }
    }

    static void selectorsOfQueuesAreRefused() throws Exception {
        try (Client client = Client.connect()) {
            client.onQueue("selected", "a");
            refused(JMSException.class, "amqp:not-implemented",
                    () -> client.consumer("selected", "JMSCorrelationID = 'absent'"));
            expect(Client.drain(client.consumer("selected")), List.of("a"));
        }
    }

    static void browserTakesNothing() throws Exception {
        try (Client client = Client.connect()) {
            client.onQueue("looked-at", "a", "b", "c");
            QueueBrowser browser = client.session.createBrowser(client.session.createQueue("/queues/looked-at"));
            List<String> bodies = new ArrayList<>();
            for (Enumeration<?> messages = browser.getEnumeration(); messages.hasMoreElements();) {
                bodies.add(Client.body((Message) messages.nextElement()));
            }
            browser.close();
            expect(bodies, List.of("a", "b", "c"));
            expect(Client.drain(client.consumer("looked-at")), List.of("a", "b", "c"));
        }
    }

    static void idleConnectionStays() throws Exception {
        // Qpid JMS announces half of it.
        try (Client client = Client.connect("amqp.idleTimeout=2000")) {
            Thread.sleep(4000);
            client.onQueue("after-idling", "a");
        }
    }

    // --- the frame ---------------------------------------------------------------------------------------------------

    static void expect(Object found, Object wanted) {
        if (found == null ? wanted != null : !found.equals(wanted)) {
            throw new AssertionError("found " + found + ", wanted " + wanted);
        }
    }

    static void refused(Class<? extends Exception> type, String text, Check attempt) {
        try {
            attempt.run();
        } catch (Exception problem) {
            if (type.isInstance(problem) && problem.toString().contains(text)) {
                return;
            }
            throw new AssertionError("wanted " + type + " with " + text, problem);
        }
        throw new AssertionError("was not refused");
    }

    /** Runs every check, or those named on the command line. With a provider, these are the checks of tokens. */
    public static void main(String[] names) {
        Map<String, Check> checks = Tokens.ISSUER == null ? CHECKS : Tokens.CHECKS;
        if (names.length > 0) {
            checks.keySet().retainAll(List.of(names));
        }
        int failed = 0;
        for (Map.Entry<String, Check> check : checks.entrySet()) {
            try {
                check.getValue().run();
                System.out.println("ok   " + check.getKey());
            } catch (Throwable problem) {
                failed++;
                System.out.println("FAIL " + check.getKey());
                problem.printStackTrace(System.out);
            }
        }
        System.out.printf("jms: %d passed, %d failed%n", checks.size() - failed, failed);
        System.exit(failed > 0 ? 1 : 0);
    }
}
