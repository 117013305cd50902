// The story of every suite here, told with RabbitMQ's own AMQP 1.0 client for Go.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/Azure/go-amqp"
	rmq "github.com/rabbitmq/rabbitmq-amqp-go-client/pkg/rabbitmqamqp"
)

const messages = 10_000

type namedCheck struct {
	name string
	run  func(context.Context)
}

var checks = []namedCheck{
	{"connect_and_close", connectAndClose},
	{"wrong_password_is_refused", wrongPasswordIsRefused},
	{"a_missing_virtual_host_is_an_error_that_names_it", aMissingVirtualHostIsAnError},
	{"declare_over_management", declareOverManagement},
	{"names_of_any_kind", namesOfAnyKind},
	{"send_and_receive_10000_of_mixed_sizes", sendAndReceiveMixedSizes},
	{"properties_arrive_as_they_were_sent", propertiesArrive},
	{"requeue_redelivers", requeueRedelivers},
	{"discard_dead_letters", discardDeadLetters},
	{"expired_dead_letters", expiredDeadLetters},
	{"the_full_queue_rejects", theFullQueueRejects},
	{"purge_and_count", purgeAndCount},
	{"closing_gives_back_what_is_unsettled", closingGivesBack},
	{"missing_queue_is_not_found", missingQueueIsNotFound},
	{"exchanges_route", exchangesRoute},
	{"headers_exchange_routes", headersExchangeRoutes},
	{"deleting_the_queue_detaches_its_links", deletingTheQueueDetaches},
	{"one_publisher_for_many_addresses", onePublisherForManyAddresses},
	{"settled_as_they_are_sent", settledAsTheyAreSent},
	{"requester_and_responder", requesterAndResponder},
	{"exclusive_queues_end_with_their_connection", exclusiveQueues},
	{"streams_are_read_from_anywhere", streamsAreReadFromAnywhere},
	{"streams_filter_on_the_server", streamsFilterOnTheServer},
	{"streams_keep_whatever_is_settled", streamsKeepWhateverIsSettled},
}

func connectAndClose(ctx context.Context) {
	environment := environment("guest")
	connection := must(environment.NewConnection(ctx))
	expect(connection.Properties()["product"], any("RabbitMQ"))
	expect(len(environment.Connections()), 1)
	check(environment.CloseConnections(ctx))
	expect(len(environment.Connections()), 0)
}

func wrongPasswordIsRefused(ctx context.Context) {
	_, err := environment("wrong").NewConnection(ctx)
	if err == nil || ctx.Err() != nil {
		panic(fmt.Errorf("was not refused: %v", err))
	}
}

// With recovery, which is the library's default.
func aMissingVirtualHostIsAnError(ctx context.Context) {
	absent := rmq.NewEnvironment("amqp://guest:guest@"+os.Getenv("SLUICE_AMQP")+"/absent", nil)
	_, err := absent.NewConnection(ctx)
	fails(err, "vhost 'absent' not found")
}

func declareOverManagement(ctx context.Context) {
	c := connect(ctx)
	m := c.Management()
	specification := &rmq.ClassicQueueSpecification{Name: "declared", MaxLength: 100, MessageTTL: 3_600_000}
	c.declare(specification)
	info := c.declare(specification)
	expect(info.Name(), "declared")
	expect([]bool{info.IsDurable(), info.IsExclusive(), info.IsAutoDelete()}, []bool{true, false, false})
	expect(info.Type(), rmq.Classic)
	expect(info.Members(), []string{info.Leader()})
	expect(info.Arguments(), map[string]any{
		"x-queue-type": "classic", "x-max-length": int64(100), "x-message-ttl": int64(3_600_000)})
	_, err := m.DeclareQueue(ctx, &rmq.ClassicQueueSpecification{Name: "declared", MaxLength: 1})
	expect(errors.Is(err, rmq.ErrPreconditionFailed), true)
	_, err = m.QueueInfo(ctx, "absent")
	expect(errors.Is(err, rmq.ErrDoesNotExist), true)
	check(m.DeleteQueue(ctx, "declared"))
	_, err = m.QueueInfo(ctx, "declared")
	expect(errors.Is(err, rmq.ErrDoesNotExist), true)
	check(m.DeleteQueue(ctx, "declared")) // nothing to do is no error
	c.close()
}

func namesOfAnyKind(ctx context.Context) {
	c := connect(ctx)
	for _, name := range []string{"a/b c", "50%", "plus+plus", "ends with ?", "key=value;", "grün"} {
		c.classic(name, "m")
		expect(c.info(name).Name(), name)
		expect(texts(c.takeFrom(name, 1, nil)), "m")
		check(c.Management().DeleteQueue(ctx, name))
	}
	c.close()
}

// sizeOf is 12 bytes to 1 MiB, 72 MB in all.
func sizeOf(number int) int {
	switch {
	case number%200 == 0:
		return 1 << 20
	case number%50 == 1:
		return 1 << 16
	case number%10 == 2:
		return 4096
	}
	return 12 + number*7%500
}

func bodyOf(number int) []byte {
	size := sizeOf(number)
	return bytes.Repeat(fmt.Appendf(nil, "%012d", number), size/12+1)[:size]
}

func sendAndReceiveMixedSizes(ctx context.Context) {
	c := connect(ctx)
	c.classic("bulk")
	publisher := c.publisher(queue("bulk"))
	confirmed := make(chan string, messages)
	for number := range messages {
		message := rmq.NewMessage(bodyOf(number))
		message.ApplicationProperties = map[string]any{
			"number": int64(number), "crc": int64(crc32.ChecksumIEEE(message.GetData()))}
		check(publisher.PublishAsync(ctx, message, func(result *rmq.PublishResult, err error) {
			if err != nil {
				confirmed <- err.Error()
				return
			}
			confirmed <- outcome(result)
		}))
	}
	for range messages {
		expect(<-confirmed, "accepted")
	}
	check(publisher.Close(ctx))
	expect(c.count("bulk"), messages)
	consumer := c.consumer("bulk", &rmq.ConsumerOptions{InitialCredits: 200})
	for number := range messages {
		delivery := consumer.next()
		message := delivery.Message()
		expect(message.ApplicationProperties["number"], any(number))
		expect(len(message.GetData()), sizeOf(number))
		expect(message.ApplicationProperties["crc"], any(crc32.ChecksumIEEE(message.GetData())))
		expect(message.Header.Durable, true)
		check(delivery.Accept(ctx))
	}
	consumer.stop()
	expect(c.count("bulk"), 0)
	c.close()
}

func propertiesArrive(ctx context.Context) {
	c := connect(ctx)
	c.classic("properties")
	text := func(text string) *string { return &text }
	sent := rmq.NewMessage([]byte("octets"))
	sent.Header = &amqp.MessageHeader{Durable: true, Priority: 7, TTL: time.Hour}
	sent.Properties = &amqp.MessageProperties{
		MessageID: "id-1", Subject: text("tea"), CorrelationID: uint64(17), ContentType: text("text/plain"),
		ReplyTo: text("/queues/other"), GroupID: text("g"), GroupSequence: new(uint32)}
	sent.ApplicationProperties = map[string]any{"text": "ü", "number": int64(5), "yes": true, "half": 0.5}
	sent.Annotations = amqp.Annotations{"x-note": "n"}
	expect(c.send(queue("properties"), sent), "accepted")
	got := c.takeFrom("properties", 1, nil)[0]
	expect(fmt.Sprint(got.Header.Durable, got.Header.Priority), "true 7")
	for _, of := range []func(*amqp.MessageProperties) any{
		func(p *amqp.MessageProperties) any { return p.MessageID },
		func(p *amqp.MessageProperties) any { return p.CorrelationID },
		func(p *amqp.MessageProperties) any { return *p.Subject },
		func(p *amqp.MessageProperties) any { return *p.ContentType },
		func(p *amqp.MessageProperties) any { return *p.ReplyTo },
		func(p *amqp.MessageProperties) any { return *p.GroupID },
		func(p *amqp.MessageProperties) any { return *p.GroupSequence },
	} {
		expect(of(got.Properties), of(sent.Properties))
	}
	expect(got.ApplicationProperties, sent.ApplicationProperties)
	expect(got.Annotations["x-note"], any("n"))
	c.close()
}

func requeueRedelivers(ctx context.Context) {
	c := connect(ctx)
	c.classic("requeued", "a")
	consumer := c.consumer("requeued", one)
	first := consumer.next()
	check(first.Requeue(ctx))
	second := consumer.next()
	check(second.RequeueWithAnnotations(ctx, amqp.Annotations{"x-opt-why": "later"}))
	third := consumer.next()
	expect(seen(first.Message(), second.Message(), third.Message()), []string{"0 true", "0 false", "0 false"})
	check(third.Accept(ctx))
	consumer.stop()
	expect(c.count("requeued"), 0)
	c.close()
}

func discardDeadLetters(ctx context.Context) {
	c := connect(ctx)
	c.classic("dead")
	must(c.Management().DeclareExchange(ctx, &rmq.FanOutExchangeSpecification{Name: "graveyard"}))
	c.bind("graveyard", "dead", "")
	c.declare(&rmq.ClassicQueueSpecification{Name: "alive", DeadLetterExchange: "graveyard"}, "a", "b", "c")
	consumer := c.consumer("alive", nil)
	check(consumer.next().Discard(ctx, &amqp.Error{Condition: "amqp:not-allowed", Description: "not for us"}))
	check(consumer.next().DiscardWithAnnotations(ctx, amqp.Annotations{"x-opt-why": "bad"}))
	consumer.take(1)
	consumer.stop()
	got := c.takeFrom("dead", 2, nil)
	expect(texts(got), "a b")
	for _, message := range got {
		expect(message.Annotations["x-first-death-queue"], any("alive"))
		expect(message.Annotations["x-first-death-reason"], any("rejected"))
	}
	expect(c.count("alive"), 0)
	c.close()
}

func expiredDeadLetters(ctx context.Context) {
	c := connect(ctx)
	c.classic("expired-dead")
	c.declare(&rmq.ClassicQueueSpecification{Name: "short-lived", MessageTTL: 1, DeadLetterRoutingKey: "expired-dead",
		Arguments: map[string]any{"x-dead-letter-exchange": ""}}, "a")
	got := c.takeFrom("expired-dead", 1, nil)
	expect(texts(got), "a")
	expect(got[0].Annotations["x-first-death-reason"], any("expired"))
	c.close()
}

func theFullQueueRejects(ctx context.Context) {
	c := connect(ctx)
	c.declare(&rmq.ClassicQueueSpecification{
		Name: "full", MaxLength: 1, OverflowStrategy: &rmq.RejectPublishOverflowStrategy{}}, "a")
	expectPrefix(c.send(queue("full"), rmq.NewMessage([]byte("b"))), "rejected: ")
	expect(c.count("full"), 1)
	c.close()
}

func purgeAndCount(ctx context.Context) {
	c := connect(ctx)
	c.classic("purged", "a", "b", "c")
	expect(c.count("purged"), 3)
	expect(must(c.Management().PurgeQueue(ctx, "purged")), 3)
	expect(must(c.Management().PurgeQueue(ctx, "purged")), 0)
	c.publish(queue("purged"), "d")
	expect(texts(c.takeFrom("purged", 1, nil)), "d")
	c.close()
}

func closingGivesBack(ctx context.Context) {
	c := connect(ctx)
	c.classic("given-back", "a", "b", "c")
	first := c.consumer("given-back", &rmq.ConsumerOptions{InitialCredits: 3})
	first.next()
	check(first.next().Accept(ctx))
	first.next()
	expect(c.info("given-back").ConsumerCount(), 1)
	expect(c.count("given-back"), 0) // none is ready
	first.stop()
	expect(c.info("given-back").ConsumerCount(), 0)
	got := c.takeFrom("given-back", 2, nil)
	expect(texts(got), "a c")
	expect(seen(got...), []string{"1 false", "1 false"})
	c.close()
}

func missingQueueIsNotFound(ctx context.Context) {
	c := connect(ctx)
	_, err := c.NewPublisher(ctx, queue("absent"), nil)
	refused(amqp.ErrCondNotFound, err)
	_, err = c.NewConsumer(ctx, "absent", nil)
	refused(amqp.ErrCondNotFound, err)
	_, err = c.NewPublisher(ctx, exchange("absent", "key"), nil)
	refused(amqp.ErrCondNotFound, err)
	c.classic("after-refusals", "a")
	c.close()
}

func exchangesRoute(ctx context.Context) {
	c := connect(ctx)
	m := c.Management()
	c.classic("orders")
	c.classic("audit")
	must(m.DeclareExchange(ctx, &rmq.FanOutExchangeSpecification{Name: "news"}))
	must(m.DeclareExchange(ctx, &rmq.TopicExchangeSpecification{Name: "events"}))
	must(m.DeclareExchange(ctx, &rmq.TopicExchangeSpecification{Name: "events"}))
	_, err := m.DeclareExchange(ctx, &rmq.DirectExchangeSpecification{Name: "events"})
	expect(errors.Is(err, rmq.ErrPreconditionFailed), true)
	c.bind("news", "audit", "")
	toOrders := c.bind("events", "orders", "order.*")
	toNews := must(m.Bind(ctx, &rmq.ExchangeToExchangeBindingSpecification{
		SourceExchange: "events", DestinationExchange: "news", BindingKey: "#"}))
	c.publish(exchange("news", ""), "n")
	c.publish(exchange("events", "order.new"), "o")
	c.publish(exchange("events", "user.new"), "u")
	got := c.takeFrom("orders", 1, nil)
	expect(texts(got), "o")
	expect(got[0].Annotations["x-exchange"], any("events"))
	expect(got[0].Annotations["x-routing-key"], any("order.new"))
	expect(texts(c.takeFrom("audit", 3, nil)), "n o u")

	check(m.Unbind(ctx, toOrders))
	c.publish(exchange("events", "order.new"), "p")
	expect([]int{c.count("orders"), c.count("audit")}, []int{0, 1})
	check(m.Unbind(ctx, toNews))
	expect(c.send(exchange("events", "order.new"), rmq.NewMessage([]byte("q"))), "released")
	check(m.DeleteExchange(ctx, "news"))
	check(m.DeleteExchange(ctx, "events"))
	check(m.DeleteExchange(ctx, "events"))
	c.close()
}

func headersExchangeRoutes(ctx context.Context) {
	c := connect(ctx)
	m := c.Management()
	c.classic("tea-only")
	must(m.DeclareExchange(ctx, &rmq.HeadersExchangeSpecification{Name: "by-headers"}))
	must(m.Bind(ctx, &rmq.ExchangeToQueueBindingSpecification{
		SourceExchange: "by-headers", DestinationQueue: "tea-only",
		Arguments: map[string]any{"x-match": "all", "drink": "tea", "cups": int32(2)}}))
	for drink, wanted := range map[string]string{"tea": "accepted", "coffee": "released"} {
		message := rmq.NewMessage([]byte(drink))
		message.ApplicationProperties = map[string]any{"drink": drink, "cups": int64(2)}
		expect(c.send(exchange("by-headers", ""), message), wanted)
	}
	expect(texts(c.takeFrom("tea-only", 1, nil)), "tea")
	check(m.DeleteExchange(ctx, "by-headers"))
	c.close()
}

func deletingTheQueueDetaches(ctx context.Context) {
	c := connect(ctx)
	c.classic("doomed")
	publisher, consumer := c.publisher(queue("doomed")), c.consumer("doomed", nil)
	check(c.Management().DeleteQueue(ctx, "doomed"))
	_, err := consumer.Receive(ctx)
	refused(amqp.ErrCondResourceDeleted, err)
	_, err = publisher.Publish(ctx, rmq.NewMessage([]byte("a")))
	refused(amqp.ErrCondResourceDeleted, err)
	c.close()
}

func onePublisherForManyAddresses(ctx context.Context) {
	c := connect(ctx)
	c.classic("to-one")
	c.classic("to two")
	publisher := c.publisher(nil)
	for _, name := range []string{"to-one", "to two", "to-one"} {
		message := must(rmq.NewMessageWithAddress([]byte(name), queue(name)))
		expect(outcome(must(publisher.Publish(ctx, message))), "accepted")
	}
	lost := must(rmq.NewMessageWithAddress([]byte("x"), queue("absent")))
	expect(outcome(must(publisher.Publish(ctx, lost))), "released")
	expect(texts(c.takeFrom("to-one", 2, nil)), "to-one to-one")
	expect(texts(c.takeFrom("to two", 1, nil)), "to two")
	c.close()
}

func settledAsTheyAreSent(ctx context.Context) {
	c := connect(ctx)
	c.classic("at-most-once", strings.Fields(strings.Repeat("m ", 100))...)
	consumer := c.consumer("at-most-once", &rmq.ConsumerOptions{SettleStrategy: rmq.PreSettled})
	for range 100 {
		fails(consumer.next().Accept(ctx), "already disposed")
	}
	consumer.stop()
	expect(c.count("at-most-once"), 0)
	c.close()
}

func requesterAndResponder(ctx context.Context) {
	server, client := connect(ctx), connect(ctx)
	server.classic("requests")
	// The library knows what to do with an answer only when its request has been confirmed, so the answer waits for that.
	confirmed := make(chan bool)
	responder := must(server.NewResponder(ctx, rmq.ResponderOptions{
		RequestQueue: "requests",
		Handler: func(_ context.Context, request *amqp.Message) (*amqp.Message, error) {
			<-confirmed
			return rmq.NewMessage(append([]byte("re: "), request.GetData()...)), nil
		}}))
	for _, strategy := range []rmq.ConsumerSettleStrategy{rmq.DirectReplyTo, rmq.ExplicitSettle} {
		requester := must(client.NewRequester(ctx, &rmq.RequesterOptions{
			RequestQueueName: "requests", SettleStrategy: strategy}))
		if strategy == rmq.DirectReplyTo {
			expectPrefix(must(requester.GetReplyQueue()), "amq.rabbitmq.reply-to.")
		}
		for number := range 10 {
			body := fmt.Sprint(number)
			answers := must(requester.Publish(ctx, requester.Message([]byte(body))))
			confirmed <- true
			answer, ok := <-answers
			expect(ok, true)
			expect(string(answer.GetData()), "re: "+body)
		}
		check(requester.Close(ctx))
	}
	check(responder.Close(ctx))
	expect(server.count("requests"), 0)
	client.close()
	server.close()
}

func exclusiveQueues(ctx context.Context) {
	owner, other := connect(ctx), connect(ctx)
	name := owner.declare(&rmq.AutoGeneratedQueueSpecification{IsExclusive: true, IsAutoDelete: true}).Name()
	expect(owner.info(name).IsExclusive(), true)
	_, err := other.NewConsumer(ctx, name, nil)
	refused(amqp.ErrCondResourceLocked, err)
	owner.close() // does not wait for the broker's answer, which comes when the queue is gone
	for err = nil; err == nil; {
		_, err = other.Management().QueueInfo(ctx, name)
	}
	expect(errors.Is(err, rmq.ErrDoesNotExist), true)
	other.close()
}

func streamsAreReadFromAnywhere(ctx context.Context) {
	c := connect(ctx)
	c.declare(&rmq.StreamQueueSpecification{
		Name: "anywhere", MaxLengthBytes: rmq.CapacityGB(1), MaxAge: 24 * time.Hour, SegmentSize: rmq.CapacityMB(1)},
		strings.Fields("0 1 2 3 4 5 6 7 8 9")...)
	expect(c.info("anywhere").Type(), rmq.Stream)
	expect(c.count("anywhere"), 10)
	for first, place := range map[int]rmq.IOffsetSpecification{
		0: &rmq.OffsetFirst{}, 7: &rmq.OffsetValue{Offset: 7}, 9: &rmq.OffsetLast{}} {
		got := c.takeFrom("anywhere", 10-first, &rmq.StreamConsumerOptions{Offset: place})
		expect(texts(got), "0 1 2 3 4 5 6 7 8 9"[2*first:])
		expect(got[0].Annotations["x-stream-offset"], any(first))
	}
	waiting := c.consumer("anywhere", &rmq.StreamConsumerOptions{Offset: &rmq.OffsetNext{}})
	c.publish(queue("anywhere"), "new")
	expect(texts(waiting.take(1)), "new")
	waiting.stop()
	check(c.Management().DeleteQueue(ctx, "anywhere"))
	c.close()
}

func streamsFilterOnTheServer(ctx context.Context) {
	c := connect(ctx)
	c.stream("filtered")
	kinds := []struct {
		value, subject string
		cups           int64
	}{{"a", "tea", 1}, {"b", "tea", 2}, {"", "coffee", 3}}
	for number := range 6 {
		kind := kinds[number%3]
		message := rmq.NewMessage(fmt.Append(nil, number)) // each a chunk of its own
		if kind.value != "" {
			message = rmq.NewMessageWithFilter(fmt.Append(nil, number), kind.value)
		}
		message.Properties = &amqp.MessageProperties{Subject: &kind.subject}
		message.ApplicationProperties = map[string]any{"cups": kind.cups}
		expect(c.send(queue("filtered"), message), "accepted")
	}
	subject := func(subject string) *amqp.MessageProperties { return &amqp.MessageProperties{Subject: &subject} }
	cups := func(cups int64) map[string]any { return map[string]any{"cups": cups} }
	for _, filter := range []struct {
		options rmq.StreamFilterOptions
		found   string
	}{
		{rmq.StreamFilterOptions{Values: []string{"a"}}, "0 3"},
		{rmq.StreamFilterOptions{Values: []string{"a", "b"}}, "0 1 3 4"},
		{rmq.StreamFilterOptions{Values: []string{"a"}, MatchUnfiltered: true}, "0 2 3 5"},
		{rmq.StreamFilterOptions{Properties: subject("tea")}, "0 1 3 4"},
		{rmq.StreamFilterOptions{Properties: subject("&p:cof")}, "2 5"},
		{rmq.StreamFilterOptions{ApplicationProperties: cups(2)}, "1 4"},
		{rmq.StreamFilterOptions{Properties: subject("tea"), ApplicationProperties: cups(1)}, "0 3"},
		{rmq.StreamFilterOptions{SQL: "properties.subject LIKE 't%' AND cups > 1"}, "1 4"},
		{rmq.StreamFilterOptions{SQL: "cups < 3", Values: []string{"b"}}, "1 4"},
	} {
		// The last one that passes ends the consumer: what passes wrongly comes before it and is seen.
		got := c.takeFrom("filtered", (len(filter.found)+1)/2, &rmq.StreamConsumerOptions{
			Offset: &rmq.OffsetFirst{}, StreamFilterOptions: &filter.options})
		expect(texts(got), filter.found)
	}
	c.close()
}

func streamsKeepWhateverIsSettled(ctx context.Context) {
	c := connect(ctx)
	c.stream("kept", "a", "b", "c")
	first := func() *rmq.StreamConsumerOptions { return &rmq.StreamConsumerOptions{Offset: &rmq.OffsetFirst{}} }
	consumer := c.consumer("kept", first())
	check(consumer.next().Accept(ctx))
	check(consumer.next().Discard(ctx, nil))
	check(consumer.next().Requeue(ctx))
	consumer.stop()
	expect(texts(c.takeFrom("kept", 3, first())), "a b c")
	expect(c.count("kept"), 3)
	check(c.Management().DeleteQueue(ctx, "kept"))
	c.close()
}

func passes(name string, run func(context.Context)) (ok bool) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	defer func() {
		if problem := recover(); problem != nil {
			fmt.Printf("FAIL %s: %v\n%s\n", name, problem, debug.Stack())
			ok = false
		}
	}()
	run(ctx)
	fmt.Println("ok  ", name)
	return true
}

// Runs every check, or those named on the command line.
func main() {
	slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, nil))) // the library tells of each refused link there
	if issuer != "" {
		checks = tokenChecks
	}
	passed, failed := 0, 0
	for _, check := range checks {
		if !chosen(check.name) {
			continue
		}
		if passes(check.name, check.run) {
			passed++
		} else {
			failed++
		}
	}
	fmt.Printf("rabbitmq-go: %d passed, %d failed\n", passed, failed)
	if failed > 0 {
		os.Exit(1)
	}
}
