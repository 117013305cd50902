import jakarta.jms.DeliveryMode;
import jakarta.jms.InvalidSelectorException;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import java.util.List;
import java.util.stream.IntStream;
import org.apache.qpid.jms.message.JmsMessage;
import org.apache.qpid.jms.tracing.TraceableMessage;

/**
 * What Qpid JMS reads of streams. Of filters it has nothing but selectors, so that these say where to begin, too.
 *
 * <p>JMS has no annotations; Qpid JMS lets tracers read and write them.
 */
final class Streams {
    private static final String OFFSET = "\"x-stream-offset\"";
    private static final String TIME = "\"x-stream-timestamp\"";
    private static final String VALUE = "\"x-stream-filter-value\"";
    private static final String ALL = OFFSET + " >= 0";

    private Streams() {}

    static void readByMany() throws Exception {
        Client.stream("read");
        try (Client one = Client.connect(); Client many = Client.connect("jms.prefetchPolicy.all=10000")) {
            one.send("/queues/read", "before");
            MessageConsumer oneByOne = one.consumer("read");
            MessageConsumer ahead = many.consumer("read");
            one.send("/queues/read", numbers(0, 300));
            for (MessageConsumer consumer : List.of(oneByOne, ahead)) {
                for (int number = 0; number < 300; number++) {
                    Suite.expect(Client.body(Client.take(consumer)), "" + number);
                }
            }
            Suite.expect(Client.drain(oneByOne), List.of());
            Suite.expect(Client.messages("read"), 301);
        }
    }

    static void keepWhateverIsSettled() throws Exception {
        Client.stream("kept");
        try (Client client = Client.connect()) {
            MessageConsumer consumer = client.consumer("kept");
            MessageConsumer other = client.consumer("kept");
            client.send("/queues/kept", numbers(0, 5));
            for (int outcome : new int[] {Client.ACCEPTED, Client.RELEASED, Client.REJECTED, Client.MODIFIED_FAILED,
                    Client.MODIFIED_FAILED_UNDELIVERABLE}) {
                Client.settle(Client.take(consumer), outcome);
            }
            Suite.expect(Client.drain(consumer), List.of());
            for (int number = 0; number < 5; number++) {
                Message message = Client.take(other);
                Suite.expect(List.of(Client.body(message), message.getJMSRedelivered()), List.of("" + number, false));
            }
            Suite.expect(Client.messages("kept"), 5);
        }
    }

    static void readFromTheFirst() throws Exception {
        Client.stream("first");
        try (Client client = Client.connect("jms.prefetchPolicy.all=100")) {
            client.send("/queues/first", numbers(0, 1000));
            MessageConsumer consumer = client.consumer("first", ALL);
            for (int number = 0; number < 1000; number++) {
                Message message = Client.take(consumer);
                Suite.expect(Client.body(message), "" + number);
                Suite.expect(offset(message), "" + number);
            }
            client.send("/queues/first", "later");
            Suite.expect(Client.body(Client.take(consumer)), "later");
        }
    }

    /** Goes on behind a message that was seen. */
    static void readFromAnOffset() throws Exception {
        Client.stream("offset");
        try (Client client = Client.connect()) {
            client.send("/queues/offset", numbers(0, 200));
            MessageConsumer consumer = client.consumer("offset", OFFSET + " = 150");
            Message seen = Client.take(consumer);
            Suite.expect(Client.body(seen), "150");
            Suite.expect(Client.drain(consumer), List.of());
            consumer = client.consumer("offset", OFFSET + " > " + offset(seen));
            Suite.expect(Client.drain(consumer), List.of(numbers(151, 200)));
            consumer = client.consumer("offset", OFFSET + " between 7 and 9L");
            Suite.expect(Client.drain(consumer), List.of("7", "8", "9"));
        }
    }

    static void readFromATime() throws Exception {
        Client.stream("time");
        try (Client client = Client.connect()) {
            client.send("/queues/time", "early", "earlier");
            Thread.sleep(20);
            long time = System.currentTimeMillis();
            client.send("/queues/time", "late", "later");
            Suite.expect(Client.drain(client.consumer("time", TIME + " >= " + time)), List.of("late", "later"));
            Suite.expect(Client.drain(client.consumer("time", TIME + " >= 0 AND " + TIME + " < " + time)),
                    List.of("early", "earlier"));
            MessageConsumer consumer = client.consumer("time", TIME + " > " + (System.currentTimeMillis() + 3_600_000));
            Suite.expect(Client.drain(consumer), List.of());
        }
    }

    static void readByFilterValue() throws Exception {
        Client.stream("valued");
        try (Client client = Client.connect()) {
            MessageProducer producer = client.session.createProducer(client.session.createQueue("/queues/valued"));
            for (String value : List.of("eu", "us", "", "eu", "ap")) {
                Message message = client.session.createTextMessage("for " + value);
                if (!value.isEmpty()) {
                    annotations(message).setTracingAnnotation("x-stream-filter-value", value);
                }
                producer.send(message);
            }
            String from = ALL + " AND ";
            Suite.expect(read(client, "valued", from + VALUE + " = 'eu'"), List.of("for eu", "for eu"));
            Suite.expect(read(client, "valued", from + VALUE + " IN ('us', 'ap')"), List.of("for us", "for ap"));
            Suite.expect(read(client, "valued", from + "(" + VALUE + " = 'us' OR " + VALUE + " IS NULL)"),
                    List.of("for us", "for "));
            Suite.expect(read(client, "valued", from + VALUE + " = 'af'"), List.of());
        }
    }

    static void readByProperties() throws Exception {
        Client.stream("properties");
        try (Client client = Client.connect()) {
            MessageProducer producer = client.session.createProducer(client.session.createQueue("/queues/properties"));
            Message first = client.session.createTextMessage("first");
            first.setJMSType("order");
            first.setJMSCorrelationID("case 7");
            first.setStringProperty("JMSXGroupID", "group");
            first.setIntProperty("JMSXGroupSeq", 3);
            producer.send(first, DeliveryMode.PERSISTENT, 9, 0);
            Message second = client.session.createTextMessage("second");
            second.setJMSType("offer");
            producer.send(second, DeliveryMode.NON_PERSISTENT, Message.DEFAULT_PRIORITY, 0);

            for (String said : List.of("JMSType = 'order'", "\"properties.subject\" LIKE 'ord%'", "JMSPriority > 4",
                    "JMSCorrelationID = 'case 7'", "JMSDeliveryMode = 'PERSISTENT'", "JMSXGroupID = 'group'",
                    "JMSXGroupSeq BETWEEN 1 AND 3", "\"properties.to\" = '/queues/properties' AND JMSType <> 'offer'",
                    "JMSMessageID = '" + first.getJMSMessageID() + "'")) {
                Suite.expect(read(client, "properties", ALL + " AND " + said), List.of("first"));
            }
            for (String said : List.of("JMSType = 'offer'", "JMSCorrelationID IS NULL", "\"header.priority\" = 4",
                    "JMSDeliveryMode = 'NON_PERSISTENT'", "JMSMessageID = '" + second.getJMSMessageID() + "'")) {
                Suite.expect(read(client, "properties", ALL + " AND " + said), List.of("second"));
            }
            String sent = "JMSTimestamp BETWEEN " + first.getJMSTimestamp() + " AND " + second.getJMSTimestamp();
            Suite.expect(read(client, "properties", ALL + " AND " + sent), List.of("first", "second"));
        }
    }

    static void readByApplicationProperties() throws Exception {
        Client.stream("applied");
        try (Client client = Client.connect()) {
            publishOrders(client, "applied");
            for (String said : List.of("region = 'eu'", "number = 2", "number between 2 and 2", "total = 29.5",
                    "total > 2.95E1 - .5 AND total < 3e1", "urgent = TRUE", "urgent", "big = 9223372036854775807L",
                    "region LIKE 'e_' AND NOT number = 3", "region IN ('eu', 'af')", "\"application_properties.region\" = 'eu'", "region <> 'us' and region <> 'ap'")) {
                Suite.expect(read(client, "applied", ALL + " AND " + said), List.of("2"));
            }
            Suite.expect(read(client, "applied", ALL + " AND region <> 2"), List.of());
            Suite.expect(read(client, "applied", "number > 0 AND " + OFFSET + " >= 2"), List.of("3"));
        }
    }

    static void publishOrders(Client client, String stream) throws Exception {
        MessageProducer producer = client.session.createProducer(client.session.createQueue("/queues/" + stream));
        int number = 0;
        for (String region : List.of("us", "eu", "ap")) {
            Message message = client.session.createTextMessage("" + ++number);
            message.setStringProperty("region", region);
            message.setIntProperty("number", number);
            message.setDoubleProperty("total", 9.5 + (region.equals("eu") ? 20 : number));
            message.setBooleanProperty("urgent", region.equals("eu"));
            message.setLongProperty("big", region.equals("eu") ? Long.MAX_VALUE : number);
            producer.send(message);
        }
    }

    /** Place, filter value, header and application-property at once; and with credit for more than there is. */
    static void readByExpression() throws Exception {
        Client.stream("expression");
        try (Client client = Client.connect("jms.prefetchPolicy.all=1000")) {
            MessageProducer producer = client.session.createProducer(client.session.createQueue("/queues/expression"));
            for (int number = 0; number < 1000; number++) {
                Message message = client.session.createTextMessage("" + number);
                message.setJMSType(number % 2 == 0 ? "even" : "odd");
                message.setIntProperty("number", number);
                annotations(message).setTracingAnnotation("x-stream-filter-value", "of " + number % 5);
                producer.send(message);
            }
            String selector = OFFSET + " >= 600 AND " + VALUE + " IN ('of 0', 'of 3') AND JMSType = 'odd'"
                    + " AND (number NOT BETWEEN 700 AND 899 OR number % 100 = 55)";
            MessageConsumer consumer = client.consumer("expression", selector);
            int[] wanted = IntStream.range(600, 1000)
                    .filter(n -> n % 2 == 1 && (n % 5 == 0 || n % 5 == 3) && (n < 700 || n > 899 || n % 100 == 55))
                    .toArray();
            for (int number : wanted) {
                Suite.expect(Client.body(Client.take(consumer)), "" + number);
            }
            Suite.expect(consumer.receiveNoWait(), null);
        }
    }

    /** What the client can see for itself it refuses; the rest is the broker's. */
    static void whatIsNoSelectorIsRefused() throws Exception {
        Client.stream("refusing");
        try (Client client = Client.connect()) {
            Suite.refused(InvalidSelectorException.class, "", () -> client.consumer("refusing", "number = "));
            Suite.refused(JMSException.class, "there is no field 'JMSReplyTo'",
                    () -> client.consumer("refusing", "JMSReplyTo = 'a'"));
            Suite.refused(JMSException.class, "amqp:invalid-field",
                    () -> client.consumer("refusing", "number = 1 /* one */"));
            client.send("/queues/refusing", "a");
            Suite.expect(read(client, "refusing", ALL), List.of("a"));
        }
    }

    /** Everything there is for a selector. */
    private static List<String> read(Client client, String stream, String selector) throws JMSException {
        MessageConsumer consumer = client.consumer(stream, selector);
        List<String> bodies = Client.drain(consumer);
        consumer.close();
        return bodies;
    }

    /** An unsigned long, of the client's own type. */
    private static String offset(Message message) {
        return annotations(message).getTracingAnnotation("x-stream-offset").toString();
    }

    private static TraceableMessage annotations(Message message) {
        return ((JmsMessage) message).getFacade();
    }

    private static String[] numbers(int from, int to) {
        return IntStream.range(from, to).mapToObj(String::valueOf).toArray(String[]::new);
    }
}
