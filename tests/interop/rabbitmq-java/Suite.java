import static com.rabbitmq.client.amqp.Publisher.Status.ACCEPTED;
import static com.rabbitmq.client.amqp.Publisher.Status.REJECTED;
import static com.rabbitmq.client.amqp.Publisher.Status.RELEASED;

import com.rabbitmq.client.amqp.AmqpException;
import com.rabbitmq.client.amqp.ByteCapacity;
import com.rabbitmq.client.amqp.Consumer;
import com.rabbitmq.client.amqp.ConsumerBuilder.StreamFilterOptions;
import com.rabbitmq.client.amqp.ConsumerBuilder.StreamOffsetSpecification;
import com.rabbitmq.client.amqp.Management.ExchangeType;
import com.rabbitmq.client.amqp.Management.OverflowStrategy;
import com.rabbitmq.client.amqp.Management.QueueInfo;
import com.rabbitmq.client.amqp.Management.QueueType;
import com.rabbitmq.client.amqp.Message;
import com.rabbitmq.client.amqp.Publisher;
import com.rabbitmq.client.amqp.Requester;
import com.rabbitmq.client.amqp.Responder;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.UnaryOperator;
import java.util.zip.CRC32;

/** The story of every suite here, told with RabbitMQ's own AMQP 1.0 client for Java. */
public final class Suite {
    private static final int MESSAGES = 10_000;

    interface Check {
        void run() throws Exception;
    }

    private static final Map<String, Check> CHECKS = new LinkedHashMap<>();

    static {
        CHECKS.put("connect_and_close", () -> Client.connect().close());
        CHECKS.put("wrong_password_is_refused", Suite::wrongPasswordIsRefused);
        CHECKS.put("a_missing_virtual_host_is_an_error_that_names_it", Suite::aMissingVirtualHostIsAnError);
        CHECKS.put("declare_over_management", Suite::declareOverManagement);
        CHECKS.put("names_of_any_kind", Suite::namesOfAnyKind);
        CHECKS.put("send_and_receive_10000_of_mixed_sizes", Suite::sendAndReceiveMixedSizes);
        CHECKS.put("properties_arrive_as_they_were_sent", Suite::propertiesArrive);
        CHECKS.put("requeue_redelivers", Suite::requeueRedelivers);
        CHECKS.put("discard_dead_letters", Suite::discardDeadLetters);
        CHECKS.put("expired_dead_letters", Suite::expiredDeadLetters);
        CHECKS.put("the_full_queue_rejects", Suite::theFullQueueRejects);
        CHECKS.put("batches_are_settled_together", Suite::batchesAreSettledTogether);
        CHECKS.put("purge_and_count", Suite::purgeAndCount);
        CHECKS.put("closing_gives_back_what_is_unsettled", Suite::closingGivesBack);
        CHECKS.put("pausing_drains_and_resumes", Suite::pausingDrains);
        CHECKS.put("missing_queue_is_not_found", Suite::missingQueueIsNotFound);
        CHECKS.put("exchanges_route", Suite::exchangesRoute);
        CHECKS.put("bindings_with_arguments_are_unbound", Suite::bindingsWithArguments);
        CHECKS.put("deleting_the_queue_detaches_its_links", Suite::deletingTheQueueDetaches);
        CHECKS.put("one_publisher_for_many_addresses", Suite::onePublisherForManyAddresses);
        CHECKS.put("settled_as_they_are_sent", Suite::settledAsTheyAreSent);
        CHECKS.put("priorities_of_messages_and_consumers", Suite::priorities);
        CHECKS.put("requester_and_responder", Suite::requesterAndResponder);
        CHECKS.put("exclusive_queues_end_with_their_connection", Suite::exclusiveQueues);
        CHECKS.put("streams_are_read_from_anywhere", Suite::streamsAreReadFromAnywhere);
        CHECKS.put("streams_filter_on_the_server", Suite::streamsFilterOnTheServer);
        CHECKS.put("streams_keep_whatever_is_settled", Suite::streamsKeepWhateverIsSettled);
    }

    static void wrongPasswordIsRefused() {
        refused(AmqpException.AmqpSecurityException.class, "", () -> Client.connect("wrong"));
    }

    /** With recovery, which is the library's default. The name is in the cause of the exception. */
    static void aMissingVirtualHostIsAnError() {
        String[] address = System.getenv("SLUICE_AMQP").split(":");
        var builder = Client.ENVIRONMENT.connectionBuilder().host(address[0]).port(Integer.parseInt(address[1]))
                .username("guest").password("guest").virtualHost("absent");
        try {
            builder.build();
        } catch (AmqpException.AmqpSecurityException refused) {
            expect(refused.getCause().getMessage().contains("vhost 'absent' not found"), true);
            return;
        }
        throw new AssertionError("was not refused");
    }

    static void declareOverManagement() {
        try (Client client = Client.connect()) {
            var queue = client.management.queue("declared").type(QueueType.CLASSIC).maxLength(100)
                    .messageTtl(Duration.ofHours(1));
            queue.declare();
            QueueInfo info = queue.declare();
            expect(info.name(), "declared");
            expect(List.of(info.durable(), info.exclusive(), info.autoDelete()), List.of(true, false, false));
            expect(info.type(), QueueType.CLASSIC);
            expect(info.members(), List.of(info.leader()));
            expect(((Number) info.arguments().get("x-max-length")).longValue(), 100L);
            expect(((Number) info.arguments().get("x-message-ttl")).longValue(), 3_600_000L);
            expect(info.messageCount() + info.consumerCount(), 0L);
            refused(AmqpException.class, "409",
                    () -> client.management.queue("declared").type(QueueType.CLASSIC).maxLength(1).declare());
            refused(AmqpException.AmqpEntityDoesNotExistException.class, "", () -> client.count("absent"));
            client.management.queueDelete("declared");
            refused(AmqpException.AmqpEntityDoesNotExistException.class, "", () -> client.count("declared"));
            client.management.queueDelete("declared"); // nothing to do is no error
        }
    }

    static void namesOfAnyKind() throws Exception {
        try (Client client = Client.connect()) {
            for (String name : List.of("a/b c", "50%", "plus+plus", "ends with ?", "key=value;", "grün", "日本")) {
                client.classic(name, "m");
                expect(client.management.queueInfo(name).name(), name);
                expect(Client.texts(client.take(name, 1)), "m");
                client.management.queueDelete(name);
            }
        }
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
        try (Client client = Client.connect()) {
            client.classic("bulk");
            Semaphore room = new Semaphore(200);
            CountDownLatch left = new CountDownLatch(MESSAGES);
            AtomicReference<Publisher.Status> wrong = new AtomicReference<>();
            try (Publisher publisher = client.to("bulk")) {
                for (int number = 0; number < MESSAGES; number++) {
                    byte[] body = bodyOf(number);
                    expect(room.tryAcquire(Client.PATIENCE_S, TimeUnit.SECONDS), true);
                    publisher.publish(publisher.message(body).property("number", number).property("crc", crc(body)),
                            context -> {
                                if (context.status() != ACCEPTED) {
                                    wrong.set(context.status());
                                }
                                room.release();
                                left.countDown();
                            });
                }
                expect(left.await(Client.PATIENCE_S, TimeUnit.SECONDS), true);
            }
            expect(wrong.get(), null);
            expect(client.count("bulk"), (long) MESSAGES);
            try (Client.Inbox inbox = client.consume("bulk", builder -> builder.initialCredits(200))) {
                for (int number = 0; number < MESSAGES; number++) {
                    Client.Delivery delivery = inbox.next();
                    Message message = delivery.message();
                    expect(message.property("number"), number);
                    expect(message.body().length, sizeOf(number));
                    expect(message.property("crc"), crc(message.body()));
                    expect(message.durable(), true);
                    delivery.context().accept();
                }
            }
            expect(client.count("bulk"), 0L);
        }
    }

    static void propertiesArrive() throws Exception {
        try (Client client = Client.connect()) {
            client.classic("properties");
            try (Publisher publisher = client.to("properties")) {
                Message message = publisher.message("octets".getBytes())
                        .messageId("id-1").correlationId(17L).subject("tea").contentType("text/plain").replyTo("/queues/o")
                        .groupId("g").groupSequence(5).creationTime(1_700_000_000_000L)
                        .priority((byte) 7).ttl(Duration.ofHours(1))
                        .property("text", "ü").property("number", 5L).property("yes", true).property("half", 0.5)
                        .annotation("x-note", "n");
                expect(Client.outcome(publisher, message), ACCEPTED);
            }
            Message got = client.take("properties", 1).get(0).message();
            expect(List.of(got.messageIdAsString(), got.correlationIdAsLong(), got.subject(), got.contentType(),
                            got.replyTo(), got.groupId(), got.groupSequence(), got.creationTime()),
                    List.of("id-1", 17L, "tea", "text/plain", "/queues/o", "g", 5, 1_700_000_000_000L));
            expect(List.of(got.durable(), got.priority()), List.of(true, (byte) 7));
            expect(List.of(got.property("text"), got.property("number"), got.property("yes"), got.property("half")),
                    List.of("ü", 5L, true, 0.5));
            expect(got.annotation("x-note"), "n");
        }
    }

    static void requeueRedelivers() throws Exception {
        try (Client client = Client.connect()) {
            client.classic("requeued", "a");
            try (Client.Inbox inbox = client.consume("requeued", builder -> builder)) {
                List<String> seen = new ArrayList<>();
                Client.Delivery delivery = inbox.next();
                seen.add(delivery.before());
                delivery.context().requeue();
                delivery = inbox.next();
                seen.add(delivery.before());
                delivery.context().requeue(Map.of("x-opt-why", "later"));
                delivery = inbox.next();
                seen.add(delivery.before());
                delivery.context().requeue(Map.of(), true);
                delivery = inbox.next();
                seen.add(delivery.before());
                delivery.context().accept();
                expect(seen, List.of("0 true", "0 false", "0 false", "1 false"));
            }
            expect(client.count("requeued"), 0L);
        }
    }

    static void discardDeadLetters() throws Exception {
        try (Client client = Client.connect()) {
            client.classic("dead");
            client.management.exchange("graveyard").type(ExchangeType.FANOUT).declare();
            client.bind("graveyard", "dead", "");
            client.management.queue("alive").type(QueueType.CLASSIC).deadLetterExchange("graveyard").declare();
            client.publish("alive", "a", "b", "c");
            try (Client.Inbox inbox = client.consume("alive", builder -> builder)) {
                inbox.next().context().discard();
                inbox.next().context().discard(Map.of("x-opt-why", "bad"));
                inbox.take(1);
            }
            List<Client.Delivery> got = client.take("dead", 2);
            expect(Client.texts(got), "a b");
            for (Client.Delivery delivery : got) {
                expect(delivery.message().annotation("x-first-death-queue"), "alive");
                expect(delivery.message().annotation("x-first-death-reason"), "rejected");
            }
            expect(client.count("alive"), 0L);
        }
    }

    static void expiredDeadLetters() throws Exception {
        try (Client client = Client.connect()) {
            client.classic("expired-dead");
            client.management.queue("short-lived").type(QueueType.CLASSIC).messageTtl(Duration.ofMillis(1))
                    .deadLetterExchange("").deadLetterRoutingKey("expired-dead").declare();
            client.publish("short-lived", "a");
            Client.Delivery got = client.take("expired-dead", 1).get(0);
            expect(got.text() + got.message().annotation("x-first-death-reason"), "aexpired");
        }
    }

    static void theFullQueueRejects() throws Exception {
        try (Client client = Client.connect()) {
            client.management.queue("full").type(QueueType.CLASSIC).maxLength(1)
                    .overflowStrategy(OverflowStrategy.REJECT_PUBLISH).declare();
            client.publish("full", "a");
            try (Publisher publisher = client.to("full")) {
                Publisher.Context refused = Client.confirmed(publisher, publisher.message("b".getBytes()));
                expect(refused.status(), REJECTED);
                expect(refused.failureCause().toString().contains("full"), true);
            }
            expect(client.count("full"), 1L);
        }
    }

    static void batchesAreSettledTogether() throws Exception {
        try (Client client = Client.connect()) {
            client.classic("batched", "0 1 2 3 4 5 6 7 8 9".split(" "));
            try (Client.Inbox inbox = client.consume("batched", builder -> builder.initialCredits(10))) {
                Consumer.BatchContext accepted = null;
                Consumer.BatchContext requeued = null;
                for (int number = 0; number < 10; number++) {
                    Consumer.Context context = inbox.next().context();
                    accepted = accepted == null ? context.batch(5) : accepted;
                    requeued = requeued == null ? context.batch(5) : requeued;
                    (number % 2 == 0 ? accepted : requeued).add(context);
                }
                accepted.accept();
                requeued.requeue();
                expect(Client.texts(inbox.take(5)), "1 3 5 7 9");
            }
            expect(client.count("batched"), 0L);
        }
    }

    static void purgeAndCount() throws Exception {
        try (Client client = Client.connect()) {
            client.classic("purged", "a", "b", "c");
            expect(client.count("purged"), 3L);
            expect(client.management.queuePurge("purged").messageCount(), 3L);
            expect(client.management.queuePurge("purged").messageCount(), 0L);
            refused(AmqpException.class, "", () -> client.management.queuePurge("absent"));
            client.publish("purged", "d");
            expect(Client.texts(client.take("purged", 1)), "d");
        }
    }

    static void closingGivesBack() throws Exception {
        try (Client client = Client.connect()) {
            client.classic("given-back", "a", "b", "c");
            try (Client.Inbox inbox = client.consume("given-back", builder -> builder.initialCredits(3))) {
                inbox.next();
                inbox.next().context().accept();
                inbox.next();
                expect(client.management.queueInfo("given-back").consumerCount(), 1);
                expect(client.count("given-back"), 0L); // none is ready
            }
            expect(client.management.queueInfo("given-back").consumerCount(), 0);
            List<Client.Delivery> got = client.take("given-back", 2);
            expect(Client.texts(got), "a c");
            expect(got.stream().map(Client.Delivery::before).toList(), List.of("1 false", "1 false"));
        }
    }

    static void pausingDrains() throws Exception {
        try (Client client = Client.connect()) {
            client.classic("paused");
            CompletableFuture<String> arrived = new CompletableFuture<>();
            try (Consumer consumer = client.connection.consumerBuilder().queue("paused")
                    .messageHandler((context, message) -> {
                        context.accept();
                        arrived.complete(new String(message.body()));
                    }).build()) {
                consumer.pause();
                client.publish("paused", "a");
                expect(client.count("paused"), 1L);
                expect(arrived.isDone(), false);
                consumer.unpause();
                expect(arrived.get(Client.PATIENCE_S, TimeUnit.SECONDS), "a");
            }
        }
    }

    static void missingQueueIsNotFound() throws Exception {
        try (Client client = Client.connect()) {
            var notFound = AmqpException.AmqpEntityDoesNotExistException.class;
            refused(notFound, "absent", () -> client.to("absent"));
            refused(notFound, "absent", () -> client.consume("absent", builder -> builder));
            refused(notFound, "absent", () -> client.to("absent", "key"));
            client.classic("after-refusals", "a");
        }
    }

    static void exchangesRoute() throws Exception {
        try (Client client = Client.connect()) {
            client.classic("orders");
            client.classic("audit");
            client.management.exchange("news").type(ExchangeType.FANOUT).declare();
            client.management.exchange("events").type(ExchangeType.TOPIC).declare();
            client.management.exchange("events").type(ExchangeType.TOPIC).declare();
            refused(AmqpException.class, "409",
                    () -> client.management.exchange("events").type(ExchangeType.DIRECT).declare());
            client.bind("news", "audit", "");
            client.bind("events", "orders", "order.*");
            client.management.binding().sourceExchange("events").destinationExchange("news").key("#").bind();
            expect(client.route("news", "", "n"), ACCEPTED);
            expect(client.route("events", "order.new", "o"), ACCEPTED);
            expect(client.route("events", "user.new", "u"), ACCEPTED);
            Client.Delivery got = client.take("orders", 1).get(0);
            expect(got.text() + got.message().annotation("x-exchange") + got.message().annotation("x-routing-key"),
                    "oeventsorder.new");
            expect(Client.texts(client.take("audit", 3)), "n o u");

            client.management.unbind().sourceExchange("events").destinationQueue("orders").key("order.*").unbind();
            expect(client.route("events", "order.new", "p"), ACCEPTED);
            expect(List.of(client.count("orders"), client.count("audit")), List.of(0L, 1L));
            client.management.unbind().sourceExchange("events").destinationExchange("news").key("#").unbind();
            expect(client.route("events", "order.new", "q"), RELEASED);
            client.management.exchangeDelete("news");
            client.management.exchangeDelete("events");
            client.management.exchangeDelete("events");
        }
    }

    /** The library asks for the bindings and takes the location of the one with these arguments. */
    static void bindingsWithArguments() throws Exception {
        try (Client client = Client.connect()) {
            client.classic("tea-only");
            client.management.exchange("by-headers").type(ExchangeType.HEADERS).declare();
            for (String drink : List.of("tea", "coffee")) {
                client.management.binding().sourceExchange("by-headers").destinationQueue("tea-only").key("")
                        .argument("x-match", "all").argument("drink", drink).argument("cups", 2).bind();
            }
            client.management.unbind().sourceExchange("by-headers").destinationQueue("tea-only").key("")
                    .argument("x-match", "all").argument("drink", "coffee").argument("cups", 2).unbind();
            try (Publisher publisher = client.connection.publisherBuilder().exchange("by-headers").build()) {
                for (String drink : List.of("tea", "coffee")) {
                    Message message = publisher.message(drink.getBytes()).property("drink", drink).property("cups", 2L);
                    expect(Client.outcome(publisher, message), drink.equals("tea") ? ACCEPTED : RELEASED);
                }
            }
            expect(Client.texts(client.take("tea-only", 1)), "tea");
            client.management.exchangeDelete("by-headers");
        }
    }

    static void deletingTheQueueDetaches() throws Exception {
        try (Client client = Client.connect()) {
            client.classic("doomed");
            Publisher publisher = client.to("doomed");
            Client.Inbox inbox = client.consume("doomed", builder -> builder);
            client.management.queueDelete("doomed");
            Throwable cause = inbox.closed.get(Client.PATIENCE_S, TimeUnit.SECONDS);
            expect(cause.toString().contains("was deleted"), true);
            refused(AmqpException.class, "",
                    () -> expect(Client.outcome(publisher, publisher.message("a".getBytes())), ACCEPTED));
        }
    }

    static void onePublisherForManyAddresses() throws Exception {
        try (Client client = Client.connect()) {
            client.classic("to-one");
            client.classic("to two");
            try (Publisher publisher = client.connection.publisherBuilder().build()) {
                for (String name : List.of("to-one", "to two", "to-one")) {
                    Message message = publisher.message(name.getBytes()).toAddress().queue(name).message();
                    expect(Client.outcome(publisher, message), ACCEPTED);
                }
                Message lost = publisher.message(new byte[0]).toAddress().queue("absent").message();
                expect(Client.outcome(publisher, lost), RELEASED);
            }
            expect(Client.texts(client.take("to-one", 2)), "to-one to-one");
            expect(Client.texts(client.take("to two", 1)), "to two");
        }
    }

    static void settledAsTheyAreSent() throws Exception {
        try (Client client = Client.connect()) {
            client.classic("at-most-once", "m ".repeat(100).split(" "));
            try (Client.Inbox inbox = client.consume("at-most-once", builder -> builder.preSettled())) {
                for (int number = 0; number < 100; number++) {
                    Consumer.Context context = inbox.next().context();
                    refused(UnsupportedOperationException.class, "", context::accept);
                }
            }
            expect(client.count("at-most-once"), 0L);
        }
    }

    static void priorities() throws Exception {
        try (Client client = Client.connect()) {
            client.management.queue("priorities").type(QueueType.CLASSIC).classic().maxPriority(5).queue().declare();
            try (Publisher publisher = client.to("priorities")) {
                for (byte priority : new byte[] {1, 5, 3}) {
                    Message message = publisher.message(("" + priority).getBytes()).priority(priority);
                    expect(Client.outcome(publisher, message), ACCEPTED);
                }
            }
            expect(Client.texts(client.take("priorities", 3)), "5 3 1");
            try (Client.Inbox low = client.consume("priorities", builder -> builder.priority(-1));
                    Client.Inbox high = client.consume("priorities", builder -> builder.priority(10))) {
                client.publish("priorities", "a", "b");
                expect(Client.texts(high.take(2)), "a b");
            }
        }
    }

    static void requesterAndResponder() throws Exception {
        try (Client server = Client.connect();
                Client client = Client.connect()) {
            server.classic("requests");
            List<Boolean> alive = new ArrayList<>();
            Responder responder = server.connection.responderBuilder().requestQueue("requests")
                    .handler((context, request) -> {
                        alive.add(context.isRequesterAlive(request));
                        return context.message(("re: " + new String(request.body())).getBytes());
                    })
                    .build();
            server.management.queue("answers").type(QueueType.CLASSIC).exclusive(false).declare();
            for (String replyTo : new String[] {null, "answers"}) {
                var builder = client.connection.requesterBuilder().requestAddress().queue("requests").requester();
                Requester requester = (replyTo == null ? builder : builder.replyToQueue(replyTo)).build();
                for (int number = 0; number < 10; number++) {
                    Message answer = requester.publish(requester.message(("" + number).getBytes()))
                            .get(Client.PATIENCE_S, TimeUnit.SECONDS);
                    expect(new String(answer.body()), "re: " + number);
                }
                requester.close();
            }
            responder.close();
            expect(alive.stream().distinct().toList(), List.of(true));
            expect(List.of(server.count("requests"), server.count("answers")), List.of(0L, 0L));
        }
    }

    static void exclusiveQueues() throws Exception {
        try (Client other = Client.connect()) {
            String name;
            try (Client owner = Client.connect()) {
                QueueInfo info = owner.management.queue().type(QueueType.CLASSIC).exclusive(true).autoDelete(true)
                        .declare();
                name = info.name();
                expect(info.exclusive(), true);
                refused(AmqpException.class, "exclusive", () -> other.consume(name, builder -> builder));
            }
            refused(AmqpException.AmqpEntityDoesNotExistException.class, "", () -> other.count(name));
        }
    }

    static void streamsAreReadFromAnywhere() throws Exception {
        try (Client client = Client.connect()) {
            client.management.queue("anywhere").stream().maxAge(Duration.ofDays(1))
                    .maxSegmentSizeBytes(ByteCapacity.MB(1)).queue().maxLengthBytes(ByteCapacity.GB(1)).declare();
            client.publish("anywhere", "0 1 2 3 4".split(" "));
            Thread.sleep(5);
            Instant later = Instant.now(); // behind the chunks so far
            Thread.sleep(5);
            client.publish("anywhere", "5 6 7 8 9".split(" "));
            expect(client.management.queueInfo("anywhere").type(), QueueType.STREAM);
            expect(client.count("anywhere"), 10L);
            streamFrom(client, 0, StreamOffsetSpecification.FIRST);
            streamFrom(client, 7, 7L);
            streamFrom(client, 5, later);
            streamFrom(client, 9, StreamOffsetSpecification.LAST);
            streamFrom(client, 0, "1h");
            try (Client.Inbox waiting = client.consume(
                    "anywhere", builder -> builder.stream().offset(StreamOffsetSpecification.NEXT).builder())) {
                client.publish("anywhere", "new");
                expect(Client.texts(waiting.take(1)), "new");
            }
            client.management.queueDelete("anywhere");
        }
    }

    static void streamFrom(Client client, int first, Object place) throws Exception {
        List<Client.Delivery> got = client.take("anywhere", 10 - first, builder -> {
            var stream = builder.stream();
            if (place instanceof StreamOffsetSpecification named) {
                return stream.offset(named).builder();
            } else if (place instanceof Instant time) {
                return stream.offset(time).builder();
            } else if (place instanceof Long offset) {
                return stream.offset(offset).builder();
            }
            return stream.offset((String) place).builder();
        });
        expect(place + ": " + Client.texts(got), place + ": " + "0 1 2 3 4 5 6 7 8 9".substring(2 * first));
        expect(got.get(0).message().annotation("x-stream-offset"), (long) first);
    }

    static void streamsFilterOnTheServer() throws Exception {
        try (Client client = Client.connect()) {
            client.stream("filtered");
            String[] values = {"a", "b", null};
            String[] subjects = {"tea", "tea", "coffee"};
            try (Publisher publisher = client.to("filtered")) {
                for (int number = 0; number < 6; number++) { // each a chunk of its own
                    Message message = publisher.message(("" + number).getBytes())
                            .subject(subjects[number % 3]).property("cups", number % 3 + 1);
                    if (values[number % 3] != null) {
                        message.annotation("x-stream-filter-value", values[number % 3]);
                    }
                    expect(Client.outcome(publisher, message), ACCEPTED);
                }
            }
            expectFiltered(client, "0 3", filter -> filter.stream().filterValues("a").filter());
            expectFiltered(client, "0 1 3 4", filter -> filter.stream().filterValues("a", "b").filter());
            expectFiltered(client, "0 2 3 5",
                    filter -> filter.stream().filterValues("a").filterMatchUnfiltered(true).filter());
            expectFiltered(client, "0 1 3 4", filter -> filter.subject("tea"));
            expectFiltered(client, "2 5", filter -> filter.subject("&p:cof"));
            expectFiltered(client, "1 4", filter -> filter.property("cups", 2));
            expectFiltered(client, "0 3", filter -> filter.subject("tea").property("cups", 1));
            expectFiltered(client, "1 4", filter -> filter.sql("properties.subject LIKE 't%' AND cups > 1"));
            expectFiltered(client, "1 4", filter -> filter.sql("cups < 3").stream().filterValues("b").filter());
        }
    }

    /** The last one that passes ends the consumer: what passes wrongly comes before it and is seen. */
    static void expectFiltered(Client client, String found, UnaryOperator<StreamFilterOptions> filter) throws Exception {
        int count = (found.length() + 1) / 2;
        expect(Client.texts(client.take("filtered", count, builder -> filter
                .apply(builder.stream().offset(StreamOffsetSpecification.FIRST).filter()).stream().builder())), found);
    }

    static void streamsKeepWhateverIsSettled() throws Exception {
        try (Client client = Client.connect()) {
            client.stream("kept", "a", "b", "c");
            try (Client.Inbox inbox = client.consume(
                    "kept", builder -> builder.stream().offset(StreamOffsetSpecification.FIRST).builder())) {
                inbox.next().context().accept();
                inbox.next().context().discard();
                inbox.next().context().requeue();
            }
            expect(Client.texts(client.take(
                            "kept", 3, builder -> builder.stream().offset(StreamOffsetSpecification.FIRST).builder())),
                    "a b c");
            expect(client.count("kept"), 3L);
            refused(AmqpException.class, "400", () -> client.management.queuePurge("kept"));
            client.management.queueDelete("kept");
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
        System.out.printf("rabbitmq-java: %d passed, %d failed%n", checks.size() - failed, failed);
        System.exit(failed > 0 ? 1 : 0);
    }
}
