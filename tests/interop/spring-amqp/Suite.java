import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.springframework.amqp.AmqpRejectAndDontRequeueException;
import org.springframework.amqp.core.AcknowledgeMode;
import org.springframework.amqp.core.Binding;
import org.springframework.amqp.core.BindingBuilder;
import org.springframework.amqp.core.Message;
import org.springframework.amqp.core.MessageListener;
import org.springframework.amqp.core.Queue;
import org.springframework.amqp.core.QueueBuilder;
import org.springframework.amqp.core.TopicExchange;
import org.springframework.amqp.rabbit.connection.CachingConnectionFactory;
import org.springframework.amqp.rabbit.connection.CorrelationData;
import org.springframework.amqp.rabbit.core.RabbitAdmin;
import org.springframework.amqp.rabbit.core.RabbitTemplate;
import org.springframework.amqp.rabbit.listener.AbstractMessageListenerContainer;
import org.springframework.amqp.rabbit.listener.DirectMessageListenerContainer;
import org.springframework.amqp.rabbit.listener.SimpleMessageListenerContainer;
import org.springframework.context.support.GenericApplicationContext;

/** What programs with Spring AMQP do: declarations by beans, templates, and listener containers. */
public final class Suite {
    interface Check {
        void run() throws Exception;
    }

    static final long PATIENCE_MS = 30_000; // a guard against hanging, not a measure
    static final String QUEUE_TYPE = System.getenv("SLUICE_QUEUE_TYPE");
    static final Map<String, Check> CHECKS = new LinkedHashMap<>();

    static {
        CHECKS.put("returns_with_confirms", Suite::returnsWithConfirms);
        CHECKS.put("a_template_sends_and_receives", Suite::aTemplateSendsAndReceives);
        CHECKS.put("requests_and_replies", Suite::requestsAndReplies);
        CHECKS.put("a_listener_that_fails_dead_letters", Suite::aListenerThatFails);
        CHECKS.put("a_direct_container", Suite::aDirectContainer);
        CHECKS.put("transactions", Suite::transactions);
        CHECKS.put("everything_is_declared_again", Suite::everythingIsDeclaredAgain);
    }

    static CachingConnectionFactory factory(String address) {
        CachingConnectionFactory factory = new CachingConnectionFactory(
                address.split(":")[0], Integer.parseInt(address.split(":")[1]));
        factory.setUsername("guest");
        factory.setPassword("guest");
        return factory;
    }

    static CachingConnectionFactory factory() {
        return factory(System.getenv("SLUICE_AMQP"));
    }

    static Queue queue(String name) {
        return QueueBuilder.durable(name).withArgument("x-queue-type", QUEUE_TYPE).build();
    }

    static <T> T await(BlockingQueue<T> from) throws InterruptedException {
        T value = from.poll(PATIENCE_MS, TimeUnit.MILLISECONDS);
        if (value == null) {
            throw new AssertionError("nothing arrived");
        }
        return value;
    }

    static void returnsWithConfirms() throws Exception {
        CachingConnectionFactory factory = factory();
        factory.setPublisherConfirmType(CachingConnectionFactory.ConfirmType.CORRELATED);
        factory.setPublisherReturns(true);
        try {
            new RabbitAdmin(factory).declareQueue(queue("confirmed"));
            RabbitTemplate template = new RabbitTemplate(factory);
            template.setMandatory(true);
            for (String key : List.of("confirmed", "nobody")) {
                CorrelationData data = new CorrelationData(key);
                template.convertAndSend("", key, "a", data);
                expect(data.getFuture().get(PATIENCE_MS, TimeUnit.MILLISECONDS).ack(), true);
                int code = data.getReturned() == null ? 0 : data.getReturned().getReplyCode();
                expect(code, key.equals("nobody") ? 312 : 0);
            }
        } finally {
            factory.destroy();
        }
    }

    static void aTemplateSendsAndReceives() throws Exception {
        CachingConnectionFactory factory = factory();
        try {
            RabbitAdmin admin = new RabbitAdmin(factory);
            admin.declareQueue(queue("templated"));
            RabbitTemplate template = new RabbitTemplate(factory);
            template.setReceiveTimeout(PATIENCE_MS);
            template.convertAndSend("", "templated", "text", message -> {
                message.getMessageProperties().setHeader("n", 7);
                message.getMessageProperties().setPriority(3);
                return message;
            });
            Message found = template.receive("templated");
            expect(new String(found.getBody()), "text");
            expect(found.getMessageProperties().getHeaders().get("n"), 7);
            expect(found.getMessageProperties().getPriority(), 3);
            expect(admin.getQueueInfo("templated").getMessageCount(), 0L);
            admin.deleteQueue("templated");
            expect(admin.getQueueInfo("templated"), null);
        } finally {
            factory.destroy();
        }
    }

    static void requestsAndReplies() throws Exception {
        CachingConnectionFactory factory = factory();
        SimpleMessageListenerContainer container = new SimpleMessageListenerContainer(factory);
        try {
            new RabbitAdmin(factory).declareQueue(queue("questions"));
            RabbitTemplate template = new RabbitTemplate(factory); // it uses direct reply-to
            template.setReplyTimeout(PATIENCE_MS);
            start(container, "questions", message -> {
                var asked = message.getMessageProperties();
                template.convertAndSend("", asked.getReplyTo(), "re: " + new String(message.getBody()), reply -> {
                    reply.getMessageProperties().setCorrelationId(asked.getCorrelationId());
                    return reply;
                });
            });
            for (int number = 0; number < 20; number++) {
                expect(template.convertSendAndReceive("", "questions", "q" + number), "re: q" + number);
            }
        } finally {
            container.stop();
            factory.destroy();
        }
    }

    static void start(AbstractMessageListenerContainer container, String queue, MessageListener listener) {
        container.setQueueNames(queue);
        container.setMessageListener(listener);
        container.setShutdownTimeout(100);
        container.afterPropertiesSet();
        container.start();
    }

    static void aListenerThatFails() throws Exception {
        CachingConnectionFactory factory = factory();
        SimpleMessageListenerContainer container = new SimpleMessageListenerContainer(factory);
        container.setConcurrentConsumers(2);
        try {
            RabbitAdmin admin = new RabbitAdmin(factory);
            admin.declareQueue(queue("grave"));
            admin.declareQueue(QueueBuilder.durable("mortal").withArgument("x-queue-type", QUEUE_TYPE)
                    .deadLetterExchange("").deadLetterRoutingKey("grave").build());
            start(container, "mortal", message -> {
                if (message.getMessageProperties().isRedelivered()) {
                    throw new AmqpRejectAndDontRequeueException("on purpose, to dead-letter it");
                }
                throw new IllegalStateException("on purpose, to requeue it");
            });
            RabbitTemplate template = new RabbitTemplate(factory);
            template.setReceiveTimeout(PATIENCE_MS);
            template.convertAndSend("", "mortal", "a");
            Map<String, ?> death = template.receive("grave").getMessageProperties().getXDeathHeader().get(0);
            expect(death.get("reason") + " " + death.get("queue"), "rejected mortal");
        } finally {
            container.stop();
            factory.destroy();
        }
    }

    static void aDirectContainer() throws Exception {
        CachingConnectionFactory factory = factory();
        DirectMessageListenerContainer container = new DirectMessageListenerContainer(factory);
        container.setConsumersPerQueue(3);
        container.setAcknowledgeMode(AcknowledgeMode.AUTO);
        container.setPrefetchCount(5);
        BlockingQueue<String> arrived = new LinkedBlockingQueue<>();
        try {
            RabbitAdmin admin = new RabbitAdmin(factory);
            admin.declareQueue(queue("direct"));
            start(container, "direct", message -> arrived.add(new String(message.getBody())));
            RabbitTemplate template = new RabbitTemplate(factory);
            for (int number = 0; number < 100; number++) {
                template.convertAndSend("", "direct", "" + number);
            }
            var found = new java.util.TreeSet<Integer>();
            for (int number = 0; number < 100; number++) {
                found.add(Integer.parseInt(await(arrived)));
            }
            expect(found.size(), 100);
        } finally {
            container.stop();
            factory.destroy();
        }
    }

    static void transactions() throws Exception {
        CachingConnectionFactory factory = factory();
        try {
            new RabbitAdmin(factory).declareQueue(queue("in-transaction"));
            RabbitTemplate template = new RabbitTemplate(factory);
            template.setChannelTransacted(true);
            template.setReceiveTimeout(PATIENCE_MS);
            template.convertAndSend("", "in-transaction", "a");
            expect(template.receiveAndConvert("in-transaction"), "a");
        } finally {
            factory.destroy();
        }
    }

    /** When the connection is new, the admin declares all beans again, and the listener consumes again. */
    static void everythingIsDeclaredAgain() throws Exception {
        List<Socket> sockets = new CopyOnWriteArrayList<>();
        try (ServerSocket relay = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
                GenericApplicationContext beans = new GenericApplicationContext()) {
            daemon(() -> {
                while (true) {
                    Socket near = relay.accept();
                    String[] broker = System.getenv("SLUICE_AMQP").split(":");
                    Socket far = new Socket(broker[0], Integer.parseInt(broker[1]));
                    sockets.addAll(List.of(near, far));
                    daemon(() -> near.getInputStream().transferTo(far.getOutputStream()));
                    daemon(() -> far.getInputStream().transferTo(near.getOutputStream()));
                }
            });
            CachingConnectionFactory factory = factory("localhost:" + relay.getLocalPort());
            Queue own = new Queue("spring-own", false, true, true); // exclusive, so that it ends with its connection
            TopicExchange exchange = new TopicExchange("spring-brief", true, true);
            beans.registerBean("own", Queue.class, () -> own);
            beans.registerBean("exchange", TopicExchange.class, () -> exchange);
            beans.registerBean("binding", Binding.class, () -> BindingBuilder.bind(own).to(exchange).with("to.#"));
            RabbitAdmin admin = new RabbitAdmin(factory);
            beans.registerBean("admin", RabbitAdmin.class, () -> admin);
            beans.refresh();
            BlockingQueue<String> arrived = new LinkedBlockingQueue<>();
            SimpleMessageListenerContainer container = new SimpleMessageListenerContainer(factory);
            container.setRecoveryInterval(100);
            start(container, "spring-own", message -> arrived.add(new String(message.getBody())));
            RabbitTemplate template = new RabbitTemplate(factory);
            template.convertAndSend("spring-brief", "to.own", "before");
            expect(await(arrived), "before");
            for (Socket socket : sockets) {
                socket.close();
            }
            String found = null;
            for (int attempt = 0; found == null && attempt < 100; attempt++) {
                try {
                    template.convertAndSend("spring-brief", "to.own", "after");
                } catch (org.springframework.amqp.AmqpException broken) {
                    // The template's connection is not new yet.
                }
                found = arrived.poll(200, TimeUnit.MILLISECONDS);
            }
            expect(found, "after");
            container.stop();
            factory.destroy();
        }
    }

    interface Work {
        void run() throws IOException;
    }

    static void daemon(Work work) {
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

    static void expect(Object found, Object wanted) {
        if (found == null ? wanted != null : !found.equals(wanted)) {
            throw new AssertionError("found " + found + ", wanted " + wanted);
        }
    }

    /** Runs every check, or those named on the command line. */
    public static void main(String[] names) {
        java.util.logging.LogManager.getLogManager().reset(); // checks fail on purpose
        if (names.length > 0) {
            CHECKS.keySet().retainAll(List.of(names));
        }
        int failed = 0;
        for (Map.Entry<String, Check> check : CHECKS.entrySet()) {
            try {
                check.getValue().run();
                System.out.println("ok   " + check.getKey());
            } catch (Throwable problem) {
                failed++;
                System.out.println("FAIL " + check.getKey());
                problem.printStackTrace(System.out);
            }
        }
        System.out.printf("spring-amqp: %d passed, %d failed%n", CHECKS.size() - failed, failed);
        System.exit(failed > 0 ? 1 : 0);
    }
}
