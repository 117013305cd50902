// The story of every suite here, told with go-amqp.
package main

import (
	"bytes"
	"context"
	"fmt"
	"hash/crc32"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/Azure/go-amqp"
)

const messages = 10_000

type namedCheck struct {
	name string
	run  func(context.Context)
}

var checks = []namedCheck{
	{"connect_with_plain", connectWithPlain},
	{"connect_with_anonymous", connectWithAnonymous},
	{"wrong_password_is_refused", wrongPasswordIsRefused},
	{"a_missing_virtual_host_is_an_error_that_names_it", aMissingVirtualHostIsAnError},
	{"tls_with_a_password", tlsWithAPassword},
	{"tls_with_a_certificate", tlsWithACertificate},
	{"declare_over_management", declareOverManagement},
	{"send_and_receive_10000_of_mixed_sizes", sendAndReceiveMixedSizes},
	{"release_redelivers", releaseRedelivers},
	{"reject_discards", rejectDiscards},
	{"reject_dead_letters", rejectDeadLetters},
	{"modify_counts_the_failure", modifyCountsTheFailure},
	{"drain_returns_what_is_there_and_tells", drainReturnsWhatIsThere},
	{"one_credit_gets_one_message", oneCreditGetsOneMessage},
	{"detach_redelivers_in_order", detachRedeliversInOrder},
	{"missing_queue_is_not_found", missingQueueIsNotFound},
	{"fanout_and_topic_route", fanoutAndTopicRoute},
	{"unroutable_is_released", unroutableIsReleased},
	{"deleting_the_queue_detaches_its_links", deletingTheQueueDetaches},
	{"settled_both_ways", settledBothWays},
	{"a_publisher_that_detaches_gets_its_outcomes", detachedPublisherGetsItsOutcomes},
	{"anonymous_terminus_routes_by_to", anonymousTerminus},
	{"streams_are_read_from_anywhere", streamsAreReadFromAnywhere},
	{"streams_filter_on_the_server", streamsFilterOnTheServer},
	{"streams_keep_whatever_is_settled", streamsKeepWhateverIsSettled},
	{"idle_connection_stays", idleConnectionStays},
}

func connectWithPlain(ctx context.Context) {
	c := connect(ctx)
	expect(c.conn.Properties()["product"], any("RabbitMQ"))
	c.close()
}

func tlsWithAPassword(ctx context.Context) {
	c := overTLS(ctx, amqp.SASLTypePlain("guest", "guest"), "")
	var sent []string
	for _, size := range []int{10, 1000, 50_000, 300_000} {
		sent = append(sent, strings.Repeat("x", size))
	}
	c.onQueue("over-tls", sent...)
	expect(bodies(c.consumer("over-tls").drain()), sent)
	c.close()
}

func tlsWithACertificate(ctx context.Context) {
	c := overTLS(ctx, amqp.SASLTypeExternal(""), "client")
	c.onQueue("of-a-certificate", "a")
	c.close()
}

func connectWithAnonymous(ctx context.Context) {
	connectWith(ctx, amqp.SASLTypeAnonymous(), amqp.ConnOptions{}).close()
}

func wrongPasswordIsRefused(ctx context.Context) {
	_, err := dial(ctx, amqp.SASLTypePlain("guest", "wrong"), amqp.ConnOptions{})
	if err == nil || ctx.Err() != nil {
		panic(fmt.Errorf("was not refused: %v", err))
	}
}

// The broker answers with OPEN and CLOSE. The library reports the CLOSE with the first session.
func aMissingVirtualHostIsAnError(ctx context.Context) {
	conn, err := dial(ctx, amqp.SASLTypePlain("guest", "guest"), amqp.ConnOptions{HostName: "vhost:absent"})
	if err == nil {
		_, err = conn.NewSession(ctx, nil)
	}
	ended(err, "vhost 'absent' not found")
}

func declareOverManagement(ctx context.Context) {
	c := connect(ctx)
	m := c.manage()
	durable := map[string]any{"durable": true, "arguments": map[string]any{"x-queue-type": queueType}}
	queue := m.ask("201", "PUT", "/queues/declared", durable).(map[string]any)
	expect(queue["name"], any("declared"))
	expect(queue["type"], any(queueType))
	m.ask("200", "PUT", "/queues/declared", durable)
	m.ask("409", "PUT", "/queues/declared", map[string]any{"durable": true, "auto_delete": true})
	expect(m.messages("declared"), any(uint64(0)))
	m.ask("200", "GET", "/queues/declared", amqp.Null{})
	m.ask("404", "GET", "/queues/absent", nil)
	expect(m.ask("200", "DELETE", "/queues/declared", nil), any(map[string]any{"message_count": 0}))
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
	c.manage().queue("bulk")
	sender := c.sender("/queues/bulk")
	var receipts []amqp.SendReceipt
	accepted := func() {
		expect(outcome(must(receipts[0].Wait(ctx))), "accepted")
		receipts = receipts[1:]
	}
	for number := range messages {
		message := amqp.NewMessage(bodyOf(number))
		message.Header = &amqp.MessageHeader{Durable: true}
		message.ApplicationProperties = map[string]any{
			"number": int64(number), "crc": int64(crc32.ChecksumIEEE(message.GetData()))}
		receipts = append(receipts, must(sender.SendWithReceipt(ctx, message, nil)))
		if len(receipts) > 100 {
			accepted()
		}
	}
	for len(receipts) > 0 {
		accepted()
	}

	consumer := c.consumerWith("bulk", &amqp.ReceiverOptions{Credit: 200})
	for number := range messages {
		message := consumer.take(1)[0]
		expect(message.ApplicationProperties["number"], any(int64(number)))
		expect(len(message.GetData()), sizeOf(number))
		expect(any(int64(crc32.ChecksumIEEE(message.GetData()))), message.ApplicationProperties["crc"])
		expect(*message.Header, amqp.MessageHeader{Durable: true, FirstAcquirer: true})
		check(consumer.AcceptMessage(ctx, message))
	}
	consumer.detach()
	expect(c.manage().messages("bulk"), any(uint64(0)))
	c.close()
}

// seen is what a consumer sees of a message that has been delivered before.
type seen struct {
	body          string
	deliveryCount uint32
	firstAcquirer bool
}

func see(messages ...*amqp.Message) []seen {
	var all []seen
	for _, m := range messages {
		all = append(all, seen{string(m.GetData()), m.Header.DeliveryCount, m.Header.FirstAcquirer})
	}
	return all
}

func bodies(messages []*amqp.Message) []string {
	var all []string
	for _, m := range messages {
		all = append(all, string(m.GetData()))
	}
	return all
}

func releaseRedelivers(ctx context.Context) {
	c := connect(ctx)
	c.onQueue("released", "a", "b")
	consumer := c.consumer("released")
	message := consumer.get()
	expect(see(message), []seen{{"a", 0, true}})
	check(consumer.ReleaseMessage(ctx, message))
	message = consumer.get()
	expect(see(message), []seen{{"a", 0, false}})
	check(consumer.AcceptMessage(ctx, message))
	expect(see(consumer.get()), []seen{{"b", 0, true}})
	c.close()
}

func rejectDiscards(ctx context.Context) {
	c := connect(ctx)
	c.onQueue("rejected", "a", "b")
	consumer := c.consumer("rejected")
	message := consumer.get()
	expect(see(message), []seen{{"a", 0, true}})
	check(consumer.RejectMessage(ctx, message, nil))
	expect(bodies(consumer.drain()), []string{"b"})
	c.close()
}

func rejectDeadLetters(ctx context.Context) {
	c := connect(ctx)
	c.onQueue("grave")
	c.manage().queueWith("mortal", map[string]any{
		"x-queue-type": queueType, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "grave"})
	expect(c.send("/queues/mortal", "", "a", "b"), []string{"accepted", "accepted"})
	consumer := c.consumer("mortal")
	check(consumer.RejectMessage(ctx, consumer.get(), nil))
	expect(see(consumer.get()), []seen{{"b", 0, true}})
	message := c.consumer("grave").get()
	expect([]any{string(message.GetData()), message.Header.DeliveryCount}, []any{"a", uint32(1)})
	c.close()
}

func modifyCountsTheFailure(ctx context.Context) {
	c := connect(ctx)
	c.onQueue("modified", "a")
	consumer := c.consumer("modified")
	check(consumer.ModifyMessage(ctx, consumer.get(), &amqp.ModifyMessageOptions{DeliveryFailed: true}))
	message := consumer.get()
	expect(see(message), []seen{{"a", 1, false}})
	check(consumer.ModifyMessage(ctx, message, nil))
	message = consumer.get()
	expect(see(message), []seen{{"a", 1, false}})
	check(consumer.ModifyMessage(ctx, message, &amqp.ModifyMessageOptions{DeliveryFailed: true, UndeliverableHere: true}))
	expect(c.manage().messages("modified"), any(uint64(0)))
	c.close()
}

func drainReturnsWhatIsThere(ctx context.Context) {
	c := connect(ctx)
	c.onQueue("drained", "a", "b", "c")
	consumer := c.consumer("drained")
	expect(bodies(consumer.drain()), []string{"a", "b", "c"})
	check(consumer.IssueCredit(10))
	check(consumer.DrainCredit(ctx, nil))
	if consumer.Prefetched() != nil {
		panic("more than there was")
	}
	c.close()
}

func oneCreditGetsOneMessage(ctx context.Context) {
	c := connect(ctx)
	c.onQueue("one", "a", "b", "c")
	consumer := c.consumer("one")
	for _, body := range []string{"a", "b", "c"} {
		message := consumer.get()
		expect(string(message.GetData()), body)
		if consumer.Prefetched() != nil {
			panic("two messages for one credit")
		}
		check(consumer.AcceptMessage(ctx, message))
	}
	c.close()
}

func detachRedeliversInOrder(ctx context.Context) {
	c := connect(ctx)
	c.onQueue("detached", "0", "1", "2", "3", "4", "5", "6", "7", "8", "9")
	first := c.consumer("detached")
	check(first.IssueCredit(6))
	got := first.take(6)
	expect(bodies(got), []string{"0", "1", "2", "3", "4", "5"})
	check(first.AcceptMessage(ctx, got[1]))
	first.detach()
	second := c.consumer("detached")
	check(second.IssueCredit(9))
	// Classic queues count a DETACH as a failed delivery, and quorum queues do not.
	count := uint32(1)
	if queueType == "quorum" {
		count = 0
	}
	expect(see(second.take(9)...), []seen{{"0", count, false}, {"2", count, false}, {"3", count, false},
		{"4", count, false}, {"5", count, false}, {"6", 0, true}, {"7", 0, true}, {"8", 0, true}, {"9", 0, true}})
	c.close()
}

func missingQueueIsNotFound(ctx context.Context) {
	c := connect(ctx)
	_, err := c.session.NewSender(ctx, "/queues/absent", nil)
	refused(amqp.ErrCondNotFound, err)
	_, err = c.session.NewReceiver(ctx, "/queues/absent", nil)
	refused(amqp.ErrCondNotFound, err)
	_, err = c.session.NewReceiver(ctx, "/queue/old-style", nil)
	refused(amqp.ErrCondInvalidField, err)
	c.onQueue("after-refusals", "a")
	c.close()
}

func fanoutAndTopicRoute(ctx context.Context) {
	c := connect(ctx)
	m := c.manage()
	m.queue("orders")
	m.queue("audit")
	m.ask("204", "PUT", "/exchanges/news", map[string]any{"type": "fanout"})
	m.ask("204", "PUT", "/exchanges/events", map[string]any{"type": "topic"})
	for _, b := range [][3]string{
		{"news", "orders", ""}, {"news", "audit", ""}, {"events", "orders", "order.*"}, {"events", "audit", "#"}} {
		m.ask("204", "POST", "/bindings", map[string]any{
			"source": b[0], "destination_queue": b[1], "binding_key": b[2], "arguments": map[string]any{}})
	}
	bindings := m.ask("200", "GET", "/bindings?src=events&dstq=orders&key=order.%2A", nil).([]any)
	expect(len(bindings), 1)
	expect(bindings[0].(map[string]any)["binding_key"], any("order.*"))

	expect(c.send("/exchanges/news", "", "n"), []string{"accepted"})
	expect(c.send("/exchanges/events/order.new", "", "o"), []string{"accepted"})
	expect(c.send("/exchanges/events/user.new", "", "u"), []string{"accepted"})
	orders := c.consumer("orders").drain()
	expect(bodies(orders), []string{"n", "o"})
	expect(orders[1].Annotations["x-exchange"], any("events"))
	expect(orders[1].Annotations["x-routing-key"], any("order.new"))
	expect(bodies(c.consumer("audit").drain()), []string{"n", "o", "u"})
	c.close()
}

func unroutableIsReleased(ctx context.Context) {
	c := connect(ctx)
	c.manage().ask("204", "PUT", "/exchanges/nowhere", map[string]any{"type": "direct"})
	expect(c.send("/exchanges/nowhere/key", "", "a"), []string{"released"})
	c.close()
}

func deletingTheQueueDetaches(ctx context.Context) {
	c := connect(ctx)
	m := c.manage()
	m.queue("doomed")
	consumer := c.consumer("doomed")
	check(consumer.IssueCredit(10))
	m.ask("200", "DELETE", "/queues/doomed", nil)
	_, err := consumer.Receive(ctx, nil)
	refused(amqp.ErrCondResourceDeleted, err)
	c.close()
}

func settledBothWays(ctx context.Context) {
	c := connect(ctx)
	m := c.manage()
	m.queue("at-most-once")
	settled := amqp.SenderSettleModeSettled
	sender := must(c.session.NewSender(ctx, "/queues/at-most-once", &amqp.SenderOptions{SettlementMode: &settled}))
	for number := range 100 {
		check(sender.Send(ctx, amqp.NewMessage(fmt.Append(nil, number)), nil))
	}
	consumer := c.consumerWith("at-most-once", &amqp.ReceiverOptions{Credit: 100, RequestedSenderSettleMode: &settled})
	for number, message := range consumer.take(100) {
		expect(string(message.GetData()), fmt.Sprint(number))
	}
	consumer.detach()
	expect(m.messages("at-most-once"), any(uint64(0)))
	c.close()
}

func detachedPublisherGetsItsOutcomes(ctx context.Context) {
	c := connect(ctx)
	defer c.close()
	c.manage().queue("left")
	sender := c.sender("/queues/left")
	var receipts []amqp.SendReceipt
	for range 100 {
		message := amqp.NewMessage([]byte("x"))
		message.Header = &amqp.MessageHeader{Durable: true}
		receipts = append(receipts, must(sender.SendWithReceipt(ctx, message, nil)))
	}
	check(sender.Close(ctx))
	for i := range receipts {
		expect(outcome(known(ctx, &receipts[i])), "accepted")
	}
	expect(len(c.consumer("left").drain()), 100)
}

// Returns the outcome of a message whose link has ended. If both are there, the client takes the outcome or the end of the link at
// random, so it is asked again.
func known(ctx context.Context, receipt *amqp.SendReceipt) amqp.DeliveryState {
	var ended error
	for range 100 {
		state, err := receipt.Wait(ctx)
		if err == nil {
			return state
		}
		ended = err
	}
	check(ended)
	return nil
}

func anonymousTerminus(ctx context.Context) {
	c := connect(ctx)
	c.onQueue("to-one")
	c.onQueue("to%20two")
	for _, sent := range [][2]string{
		{"/queues/to-one", "accepted"}, {"/queues/to%20two", "accepted"}, {"/exchanges/amq.fanout/none", "released"},
		{"/exchanges/absent/key", "rejected"}, {"", "rejected"}} {
		expect(c.send("", sent[0], "for "+sent[0]), []string{sent[1]})
	}
	expect(bodies(c.consumer("to-one").drain()), []string{"for /queues/to-one"})
	expect(bodies(c.consumer("to%20two").drain()), []string{"for /queues/to%20two"})
	c.close()
}

// numbers is what the bodies from one number to below another are.
func numbers(from, to int) []string {
	var all []string
	for number := from; number < to; number++ {
		all = append(all, fmt.Sprint(number))
	}
	return all
}

func streamsAreReadFromAnywhere(ctx context.Context) {
	c := connect(ctx)
	c.manage().stream("anywhere")
	c.send("/queues/anywhere", "", numbers(0, 5)...)
	time.Sleep(2 * time.Millisecond)
	later := time.Now() // behind the chunks so far
	time.Sleep(2 * time.Millisecond)
	c.send("/queues/anywhere", "", numbers(5, 10)...)
	c.send("/queues/anywhere", "", "10")
	one := c.reader("anywhere", -1, offset("first"))
	for number := range 11 {
		message := one.get()
		expect(string(message.GetData()), fmt.Sprint(number))
		expect(message.Annotations["x-stream-offset"], any(int64(number)))
		if one.Prefetched() != nil {
			panic("two messages for one credit")
		}
	}
	for _, from := range []struct {
		place any
		first int
	}{{"first", 0}, {int64(7), 7}, {uint64(7), 7}, {later, 5}, {amqp.Symbol("last"), 10}, {"1h", 0}} {
		reader := c.reader("anywhere", -1, offset(from.place))
		got := reader.drain()
		expect(bodies(got), numbers(from.first, 11))
		expect(got[0].Annotations["x-stream-offset"], any(int64(from.first)))
		reader.detach()
	}
	next := c.reader("anywhere", 100_000)
	c.send("/queues/anywhere", "", numbers(11, 2000)...)
	expect(bodies(next.take(1989)), numbers(11, 2000))
	expect(bodies(c.reader("anywhere", 100_000, offset("first")).take(2000)), numbers(0, 2000))
	_, err := c.session.NewReceiver(ctx, "/queues/anywhere", &amqp.ReceiverOptions{Filters: []amqp.LinkFilter{offset("soon")}})
	refused(amqp.ErrCondPreconditionFailed, err)
	c.close()
}

func streamsFilterOnTheServer(ctx context.Context) {
	c := connect(ctx)
	c.manage().stream("filtered")
	values, subjects := []string{"a", "b", ""}, []string{"tea", "tea", "coffee"}
	for number := range 6 {
		kind := number % 3
		message := amqp.NewMessage(fmt.Append(nil, number))
		message.Properties = &amqp.MessageProperties{Subject: &subjects[kind]}
		message.ApplicationProperties = map[string]any{"cups": int32(kind + 1)}
		if values[kind] != "" {
			message.Annotations = amqp.Annotations{"x-stream-filter-value": values[kind]}
		}
		c.sendOne("/queues/filtered", message) // a chunk of its own
	}
	const sql, bloom, unfiltered = "sql-filter", "rabbitmq:stream-filter", "rabbitmq:stream-match-unfiltered"
	const properties, application = "amqp:properties-filter", "amqp:application-properties-filter"
	type filters map[string]any
	subject := func(value any) map[amqp.Symbol]any { return map[amqp.Symbol]any{"subject": value} }
	codes := map[string]uint64{sql: 0x120, properties: 0x173}
	for _, of := range []struct {
		filters filters
		found   []string
	}{
		{filters{bloom: "a"}, []string{"0", "3"}},
		{filters{bloom: []any{"a", "b"}}, []string{"0", "1", "3", "4"}},
		{filters{bloom: "a", unfiltered: true}, []string{"0", "2", "3", "5"}},
		{filters{properties: subject("tea")}, []string{"0", "1", "3", "4"}},
		{filters{properties: subject("&s:fee")}, []string{"2", "5"}},
		{filters{application: map[string]any{"cups": int64(2)}}, []string{"1", "4"}},
		{filters{properties: subject("tea"), application: map[string]any{"cups": 1.0}}, []string{"0", "3"}},
		{filters{sql: "properties.subject LIKE 't%' AND cups > 1"}, []string{"1", "4"}},
		{filters{sql: "cups < 3", bloom: "b"}, []string{"1", "4"}},
	} {
		all := []amqp.LinkFilter{offset("first")}
		for name, value := range of.filters {
			all = append(all, amqp.NewLinkFilter(name, codes[name], value))
		}
		reader := c.reader("filtered", -1, all...)
		for name := range of.filters {
			if reader.LinkSourceFilterValue(name) == nil {
				panic(fmt.Errorf("%s is not in effect: %v", name, of.filters))
			}
		}
		expect(bodies(reader.drain()), of.found)
		reader.detach()
	}
	reader := c.reader("filtered", -1, offset("first"), amqp.NewLinkFilter(sql, 0x120, "cups <"))
	expect(reader.LinkSourceFilterValue(sql), nil)
	expect(bodies(reader.drain()), numbers(0, 6))
	c.close()
}

func streamsKeepWhateverIsSettled(ctx context.Context) {
	c := connect(ctx)
	m := c.manage()
	m.stream("kept")
	c.send("/queues/kept", "", numbers(0, 4)...)
	reader := c.reader("kept", -1, offset("first"))
	check(reader.IssueCredit(5))
	got := reader.take(4)
	check(reader.AcceptMessage(ctx, got[0]))
	check(reader.ReleaseMessage(ctx, got[1]))
	check(reader.RejectMessage(ctx, got[2], nil))
	check(reader.ModifyMessage(ctx, got[3], &amqp.ModifyMessageOptions{DeliveryFailed: true}))
	if reader.Prefetched() != nil {
		panic("it came again")
	}
	settled := amqp.SenderSettleModeSettled
	again := c.consumerWith("kept", &amqp.ReceiverOptions{
		Credit: 100, RequestedSenderSettleMode: &settled, Filters: []amqp.LinkFilter{offset("first")}})
	expect(see(again.take(4)...), []seen{{"0", 0, true}, {"1", 0, true}, {"2", 0, true}, {"3", 0, true}})
	expect(m.messages("kept"), any(uint64(4)))
	m.ask("200", "DELETE", "/queues/kept", nil)
	_, err := again.Receive(ctx, nil)
	refused(amqp.ErrCondResourceDeleted, err)
	c.close()
}

func idleConnectionStays(ctx context.Context) {
	// go-amqp announces half of it.
	c := connectWith(ctx, amqp.SASLTypePlain("guest", "guest"), amqp.ConnOptions{IdleTimeout: 2 * time.Second})
	time.Sleep(4 * time.Second)
	c.onQueue("after-idling", "a")
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
	if issuer != "" {
		checks = tokenChecks
	}
	passed, failed := 0, 0
	for _, check := range checks {
		if len(os.Args) > 1 && !slices.Contains(os.Args[1:], check.name) {
			continue
		}
		if passes(check.name, check.run) {
			passed++
		} else {
			failed++
		}
	}
	fmt.Printf("go-amqp: %d passed, %d failed\n", passed, failed)
	if failed > 0 {
		os.Exit(1)
	}
}
