// What programs with amqp091-go do, the usual client of AMQP 0.9.1 in Go.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// errSkipped is what a check panics with that does not apply.
type errSkipped string

type namedCheck struct {
	name string
	run  func(context.Context)
}

var checks = []namedCheck{
	{"connect_with_plain", connectWithPlain},
	{"connect_refused", connectRefused},
	{"other_mechanisms", otherMechanisms},
	{"tls_with_a_password", tlsWithAPassword},
	{"tls_with_a_certificate", tlsWithACertificate},
	{"headers_of_every_type", headersOfEveryType},
	{"many_confirms_in_flight", manyConfirmsInFlight},
	{"confirms_and_returns_on_go_channels", confirmsAndReturns},
	{"a_full_queue_nacks", aFullQueueNacks},
	{"many_goroutines_publish", manyGoroutinesPublish},
	{"prefetch_and_settlement", prefetchAndSettlement},
	{"methods_without_answers", methodsWithoutAnswers},
	{"errors_close_the_channel", errorsCloseTheChannel},
	{"a_deleted_queue_cancels", aDeletedQueueCancels},
	{"cancelling_ends_the_go_channel", cancellingEnds},
	{"transactions", transactions},
	{"exchanges_and_bindings", exchangesAndBindings},
	{"direct_reply_to", directReplyTo},
	{"streams", streams},
	{"a_new_secret", aNewSecret},
	{"a_broken_connection_is_recovered", aBrokenConnection},
	{"quiet_connections_stay", quietConnectionsStay},
}

func connectWithPlain(ctx context.Context) {
	c := connect(ctx)
	expect(c.conn.Properties["product"], any("RabbitMQ"))
	expect(c.conn.Properties["capabilities"].(amqp.Table)["publisher_confirms"], any(true))
	expect([]int{int(c.conn.Config.ChannelMax), c.conn.Config.FrameSize}, []int{2047, 131072})
}

func connectRefused(context.Context) {
	address := os.Getenv("SLUICE_AMQP")
	for login, wanted := range map[string]int{
		"guest:wrong@" + address:               403,
		"nobody:guest@" + address + "/nowhere": 403,
		"guest:guest@" + address + "/nowhere":  530,
	} {
		_, err := amqp.Dial("amqp://" + login)
		var problem *amqp.Error
		if !errors.As(err, &problem) || problem.Code != wanted {
			panic(fmt.Errorf("wanted %d for %s, got %v", wanted, login, err))
		}
	}
}

func otherMechanisms(ctx context.Context) {
	for _, sasl := range []amqp.Authentication{
		&amqp.AMQPlainAuth{Username: "guest", Password: "guest"}, &amqp.PlainAuth{Username: "guest", Password: "guest"},
	} {
		connectWith(ctx, amqp.Config{SASL: []amqp.Authentication{sasl}}).onQueue("of-a-mechanism")
	}
	_, err := dial(amqp.Config{SASL: []amqp.Authentication{&amqp.AMQPlainAuth{Username: "guest", Password: "wrong"}}})
	if err == nil {
		panic(errors.New("was not refused"))
	}
}

func tlsAddress() string {
	address := os.Getenv("SLUICE_AMQPS")
	if address == "" {
		panic(errSkipped("the broker has no TLS"))
	}
	return strings.Replace(address, "127.0.0.1", "localhost", 1)
}

func tlsWithAPassword(ctx context.Context) {
	c := of(ctx, must(amqp.DialTLS("amqps://guest:guest@"+tlsAddress(), overTLS(""))))
	c.onQueue("over-tls", strings.Repeat("x", 300_000))
	expect(len(c.get("over-tls").Body), 300_000)
}

func tlsWithACertificate(ctx context.Context) {
	c := of(ctx, must(amqp.DialTLS_ExternalAuth("amqps://"+tlsAddress(), overTLS("client"))))
	c.queue("of-a-certificate", nil)
	sent := c.send("", "of-a-certificate", amqp.Publishing{UserId: "guest"})
	expect(must(sent.WaitContext(ctx)), true)
	expect(c.get("of-a-certificate").UserId, "guest")
}

func headersOfEveryType(ctx context.Context) {
	c := connect(ctx)
	c.queue("typed", nil)
	headers := amqp.Table{
		"bool": true, "uint8": byte(200), "int8": int8(-8), "int16": int16(-1616), "int32": int32(-32),
		"int64": int64(1) << 62, "uint16": uint16(60_000), "uint32": uint32(4_000_000_000), "float32": float32(0.1),
		"float64": 0.1, "decimal": amqp.Decimal{Scale: 2, Value: 314}, "string": "grüße", "bytes": []byte{0, 255},
		"time": time.Unix(1_700_000_000, 0), "nil": nil, "list": []any{int32(1), "two", nil, amqp.Table{"deep": []any{true}}},
		"table": amqp.Table{"a": amqp.Table{"b": true}}, "x-own": "x",
	}
	sent := amqp.Publishing{
		Headers: headers, ContentType: "a/b", ContentEncoding: "gzip", DeliveryMode: amqp.Persistent, Priority: 4,
		CorrelationId: "c", ReplyTo: "r", Expiration: "60000", MessageId: "m", Timestamp: time.Unix(1_700_000_000, 0),
		Type: "t", UserId: "guest", AppId: "a", Body: []byte("body"),
	}
	expect(must(c.send("", "typed", sent).WaitContext(ctx)), true)
	got := c.get("typed")
	delete(got.Headers, "x-delivery-count")
	delete(got.Headers, "x-acquired-count")
	expect(got.Headers, headers)
	expect(amqp.Publishing{
		Headers: headers, ContentType: got.ContentType, ContentEncoding: got.ContentEncoding, DeliveryMode: got.DeliveryMode,
		Priority: got.Priority, CorrelationId: got.CorrelationId, ReplyTo: got.ReplyTo, Expiration: got.Expiration,
		MessageId: got.MessageId, Timestamp: got.Timestamp, Type: got.Type, UserId: got.UserId, AppId: got.AppId,
		Body: got.Body,
	}, sent)
}

func manyConfirmsInFlight(ctx context.Context) {
	const count = 5000
	c := connect(ctx)
	c.queue("in-flight", nil)
	var waiting []*amqp.DeferredConfirmation
	for number := range count {
		body := strings.Repeat(fmt.Sprintf("%05d", number), 1+number%300)
		waiting = append(waiting, c.send("", "in-flight", amqp.Publishing{Body: []byte(body), DeliveryMode: 2}))
	}
	for number, confirmation := range waiting {
		expect(must(confirmation.WaitContext(ctx)), true)
		expect(confirmation.DeliveryTag, uint64(number+1))
	}
	check(c.ch.Qos(200, 0, false))
	deliveries := c.consume("in-flight", nil)
	for number := range count {
		delivery := next(ctx, deliveries)
		expect(string(delivery.Body), strings.Repeat(fmt.Sprintf("%05d", number), 1+number%300))
		if number%50 == 49 {
			check(delivery.Ack(true))
		}
	}
	nothing(deliveries)
}

func confirmsAndReturns(ctx context.Context) {
	c := connect(ctx)
	c.queue("noted", nil)
	confirms := c.ch.NotifyPublish(make(chan amqp.Confirmation, 10))
	returns := c.ch.NotifyReturn(make(chan amqp.Return, 10))
	for _, key := range []string{"noted", "nobody", "noted"} {
		check(c.ch.PublishWithContext(ctx, "", key, true, false, amqp.Publishing{Body: []byte(key)}))
	}
	expect(c.ch.GetNextPublishSeqNo(), uint64(4))
	returned := next(ctx, returns)
	expect([]any{returned.ReplyCode, returned.ReplyText, returned.Exchange, returned.RoutingKey, string(returned.Body)},
		[]any{uint16(312), "NO_ROUTE", "", "nobody", "nobody"})
	for tag := range uint64(3) {
		expect(next(ctx, confirms), amqp.Confirmation{DeliveryTag: tag + 1, Ack: true})
	}
}

func aFullQueueNacks(ctx context.Context) {
	c := connect(ctx)
	c.queue("full", amqp.Table{"x-max-length": 3, "x-overflow": "reject-publish"})
	accepted := 0
	for range 50 { // the limit of a quorum queue is soft
		if !must(c.send("", "full", amqp.Publishing{}).WaitContext(ctx)) {
			break
		}
		accepted++
	}
	if accepted < 3 || accepted == 50 || (!quorum && accepted != 3) {
		panic(fmt.Errorf("%d were accepted", accepted))
	}
}

func manyGoroutinesPublish(ctx context.Context) {
	const publishers, each = 20, 100
	c := connect(ctx)
	c.queue("shared", nil)
	deliveries := c.consume("shared", nil)
	var group sync.WaitGroup
	problems := make(chan any, publishers)
	for publisher := range publishers {
		group.Add(1)
		go func() {
			defer group.Done()
			defer func() {
				if problem := recover(); problem != nil {
					problems <- problem
				}
			}()
			own := &client{ctx: ctx, conn: c.conn}
			own.ch = own.channel()
			for number := range each {
				own.publish("", "shared", fmt.Sprintf("%d %d", publisher, number))
			}
			check(own.ch.Close())
		}()
	}
	last := map[int]int{}
	for range publishers * each {
		delivery := next(ctx, deliveries)
		var publisher, number int
		must(fmt.Sscan(string(delivery.Body), &publisher, &number))
		expect(number, last[publisher]) // in the order of its channel
		last[publisher]++
		check(delivery.Ack(false))
	}
	group.Wait()
	expect(len(problems), 0)
}

func prefetchAndSettlement(ctx context.Context) {
	c := connect(ctx)
	c.onQueue("settled", "a", "b", "c", "d")
	check(c.ch.Qos(2, 0, false))
	deliveries := c.consume("settled", nil)
	got := take(ctx, deliveries, 2)
	nothing(deliveries)
	check(got[0].Nack(false, true))
	again := next(ctx, deliveries)
	expect([]any{string(again.Body), again.Redelivered}, []any{"a", true})
	check(got[1].Reject(false))
	expect(bodies(take(ctx, deliveries, 1)), []string{"c"})
	check(again.Ack(true)) // the tags before it are settled already, or are not smaller
	got = take(ctx, deliveries, 1)
	expect(bodies(got), []string{"d"})
	check(got[0].Ack(true))
	state := must(c.ch.QueueDeclarePassive("settled", true, false, false, false, nil))
	expect([]int{state.Messages, state.Consumers}, []int{0, 1})
}

func methodsWithoutAnswers(ctx context.Context) {
	c := connect(ctx)
	arguments := amqp.Table{"x-queue-type": queueType}
	must(c.ch.QueueDeclare("no-wait", true, false, false, true, arguments))
	check(c.ch.ExchangeDeclare("no-wait", "topic", true, false, false, true, nil))
	check(c.ch.ExchangeDeclare("no-wait-2", "fanout", true, false, false, true, nil))
	check(c.ch.ExchangeBind("no-wait-2", "a.#", "no-wait", true, nil))
	check(c.ch.QueueBind("no-wait", "", "no-wait-2", true, nil))
	deliveries := must(c.ch.ConsumeWithContext(ctx, "no-wait", "mine", true, false, false, true, nil))
	c.publish("no-wait", "a.b", "x")
	expect(next(ctx, deliveries).ConsumerTag, "mine")
	check(c.ch.Cancel("mine", true))
	c.publish("no-wait", "a", "y")
	must(c.ch.QueuePurge("no-wait", true))
	must(c.ch.QueueDelete("no-wait", false, false, true))
	check(c.ch.ExchangeDelete("no-wait", false, true))
	refused(404, "no exchange 'no-wait' in vhost '/'", func() error {
		return c.ch.ExchangeDeclarePassive("no-wait", "topic", true, false, false, false, nil)
	})
}

func errorsCloseTheChannel(ctx context.Context) {
	c := connect(ctx)
	c.onQueue("healthy", "a")
	broken := c.channel()
	closed := broken.NotifyClose(make(chan *amqp.Error, 1))
	refused(404, "no queue 'absent' in vhost '/'", func() error {
		_, err := broken.QueueDeclarePassive("absent", true, false, false, false, nil)
		return err
	})
	problem := next(ctx, closed)
	expect([]any{problem.Code, problem.Server, broken.IsClosed()}, []any{404, true, true})
	broken = c.channel()
	refused(406, "inequivalent arg 'x-max-length' for queue 'healthy'", func() error {
		_, err := broken.QueueDeclare("healthy", true, false, false, false, amqp.Table{
			"x-queue-type": queueType, "x-max-length": 5})
		return err
	})
	broken = c.channel()
	closed = broken.NotifyClose(make(chan *amqp.Error, 1))
	check(broken.PublishWithContext(ctx, "absent", "", false, false, amqp.Publishing{}))
	expect(next(ctx, closed).Reason, "NOT_FOUND - no exchange 'absent' in vhost '/'")
	expect(string(c.get("healthy").Body), "a")
}

func aDeletedQueueCancels(ctx context.Context) {
	c := connect(ctx)
	c.onQueue("doomed")
	cancelled := c.ch.NotifyCancel(make(chan string, 1))
	deliveries := must(c.ch.ConsumeWithContext(ctx, "doomed", "mine", false, false, false, false, nil))
	must((&client{ctx: ctx, conn: c.conn}).channel().QueueDelete("doomed", false, false, false))
	expect(next(ctx, cancelled), "mine")
	if _, open := <-deliveries; open {
		panic(errors.New("the deliveries did not end"))
	}
	c.onQueue("after-doom", "a")
}

func cancellingEnds(ctx context.Context) {
	c := connect(ctx)
	c.onQueue("left", "a")
	consuming, stop := context.WithCancel(ctx)
	deliveries := must(c.ch.ConsumeWithContext(consuming, "left", "", false, false, false, false, nil))
	delivery := next(ctx, deliveries)
	stop()
	for range deliveries { // ends when the broker has answered
		panic(errors.New("another delivery arrived"))
	}
	check(delivery.Nack(false, true))
	expect(c.get("left").Redelivered, true)
}

func transactions(ctx context.Context) {
	c := connect(ctx)
	c.onQueue("in-transaction")
	tx := must(c.conn.Channel())
	check(tx.Tx())
	for _, body := range []string{"lost", "kept"} {
		check(tx.PublishWithContext(ctx, "", "in-transaction", false, false, amqp.Publishing{Body: []byte(body)}))
		if body == "lost" {
			check(tx.TxRollback())
		}
	}
	check(tx.TxCommit())
	expect(string(c.get("in-transaction").Body), "kept")
	expect(c.queue("in-transaction", nil).Messages, 0)
}

func exchangesAndBindings(ctx context.Context) {
	c := connect(ctx)
	c.onQueue("routed")
	check(c.ch.ExchangeDeclare("spill", "fanout", true, false, false, false, nil))
	check(c.ch.ExchangeDeclare("sorter", "headers", true, false, false, false, amqp.Table{"alternate-exchange": "spill"}))
	check(c.ch.QueueBind("routed", "", "sorter", false, amqp.Table{"x-match": "all", "size": int64(5), "kind": "a"}))
	publish := func(body string, headers amqp.Table) {
		check(headers.Validate())
		sent := c.send("sorter", "", amqp.Publishing{Body: []byte(body), Headers: headers})
		expect(must(sent.WaitContext(ctx)), true)
	}
	publish("a", amqp.Table{"size": int64(5), "kind": "a", "more": nil})
	publish("b", amqp.Table{"size": int64(6), "kind": "a"})
	check(c.ch.QueueBind("routed", "", "spill", false, nil))
	publish("c", amqp.Table{})
	expect([]string{string(c.get("routed").Body), string(c.get("routed").Body)}, []string{"a", "c"})
}

func directReplyTo(ctx context.Context) {
	server, asking := connect(ctx), connect(ctx)
	server.onQueue("questions")
	const pseudo = "amq.rabbitmq.reply-to"
	answers := must(asking.ch.ConsumeWithContext(ctx, pseudo, "", true, false, false, false, nil))
	asking.send("", "questions", amqp.Publishing{ReplyTo: pseudo, CorrelationId: "1", Body: []byte("why")})
	question := server.get("questions")
	answer := amqp.Publishing{CorrelationId: question.CorrelationId, Body: []byte("because")}
	expect(must(server.send("", question.ReplyTo, answer).WaitContext(ctx)), true)
	got := next(ctx, answers)
	expect([]string{got.CorrelationId, string(got.Body)}, []string{"1", "because"})
}

func streams(ctx context.Context) {
	c := connect(ctx)
	c.queue("stream", amqp.Table{"x-queue-type": "stream", "x-max-length-bytes": int64(1_000_000_000)})
	c.publish("", "stream", "a", "b", "c", "d")
	check(c.ch.Qos(2, 0, false))
	deliveries := c.consume("stream", amqp.Table{"x-stream-offset": int64(1)})
	for offset, body := range []string{"b", "c", "d"} {
		delivery := next(ctx, deliveries)
		expect([]any{string(delivery.Body), delivery.Headers["x-stream-offset"]}, []any{body, int64(offset + 1)})
		check(delivery.Ack(false))
	}
}

func aNewSecret(ctx context.Context) {
	c := connect(ctx)
	check(c.conn.UpdateSecret("guest", "it is due"))
	c.onQueue("after-the-secret", "a")
	expect(string(c.get("after-the-secret").Body), "a")
}

// The library connects anew, declares again what the program declared, and consumes again.
func aBrokenConnection(ctx context.Context) {
	line := &socket{}
	c := connectWith(ctx, amqp.Config{Dial: line.dial, Recovery: &amqp.Recovery{
		ReconnectionConfig: &amqp.ReconnectionConfig{MaxRetryCount: 50, RetryInterval: 50 * time.Millisecond}}})
	states := make(chan *amqp.StateChanged, 50)
	c.ch.NotifyStateChange(states)
	c.onQueue("recovered", "a")
	own := must(c.ch.QueueDeclare("own", false, false, true, false, nil))
	check(c.ch.QueueBind(own.Name, "back", "amq.direct", false, nil))
	check(c.ch.Qos(1, 0, false))
	deliveries := c.consume("recovered", nil)
	expect(string(next(ctx, deliveries).Body), "a")
	line.snap()
	for next(ctx, states).To != amqp.StateOpen {
	}
	again := next(ctx, deliveries)
	expect([]any{string(again.Body), again.Redelivered}, []any{"a", true})
	check(again.Ack(false))
	check(c.ch.PublishWithContext(ctx, "amq.direct", "back", true, false, amqp.Publishing{Body: []byte("b")}))
	expect(string(c.get(own.Name).Body), "b")
}

func quietConnectionsStay(ctx context.Context) {
	c := connectWith(ctx, amqp.Config{Heartbeat: time.Second})
	closed := c.conn.NotifyClose(make(chan *amqp.Error, 1))
	blocked := c.conn.NotifyBlocked(make(chan amqp.Blocking, 1))
	time.Sleep(3500 * time.Millisecond)
	expect([]int{len(closed), len(blocked)}, []int{0, 0})
	c.onQueue("after-the-quiet", "a")
}

func passes(name string, run func(context.Context)) (outcome string) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	defer func() {
		switch problem := recover().(type) {
		case nil:
		case errSkipped:
			fmt.Println("skip", name, problem)
			outcome = "skipped"
		default:
			fmt.Printf("FAIL %s: %v\n%s\n", name, problem, debug.Stack())
			outcome = "failed"
		}
	}()
	run(ctx)
	fmt.Println("ok  ", name)
	return "passed"
}

// Runs every check, or those named on the command line.
func main() {
	outcomes := map[string]int{}
	for _, check := range checks {
		if len(os.Args) == 1 || slices.Contains(os.Args[1:], check.name) {
			outcomes[passes(check.name, check.run)]++
		}
	}
	fmt.Printf("amqp091-go: %d passed, %d failed\n", outcomes["passed"], outcomes["failed"])
	if outcomes["failed"] > 0 {
		os.Exit(1)
	}
}
