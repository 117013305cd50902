package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/Azure/go-amqp"
)

const patience = 30 * time.Second // a guard against hanging, not a measure

// queueType is the type of every queue that a check declares, streams excepted.
var queueType = os.Getenv("SLUICE_QUEUE_TYPE")

// client is one connection with one session. Its methods panic with what went wrong, which fails the check.
type client struct {
	ctx     context.Context
	conn    *amqp.Conn
	session *amqp.Session
	pairs   int
}

func dial(ctx context.Context, sasl amqp.SASLType, options amqp.ConnOptions) (*amqp.Conn, error) {
	options.SASLType = sasl
	return amqp.Dial(ctx, "amqp://"+os.Getenv("SLUICE_AMQP"), &options)
}

func connect(ctx context.Context) *client {
	return connectWith(ctx, amqp.SASLTypePlain("guest", "guest"), amqp.ConnOptions{})
}

func connectWith(ctx context.Context, sasl amqp.SASLType, options amqp.ConnOptions) *client {
	conn := must(dial(ctx, sasl, options))
	return &client{ctx: ctx, conn: conn, session: must(conn.NewSession(ctx, nil))}
}

// authority returns the authority of the broker's certificate.
func authority() *x509.CertPool {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(must(os.ReadFile(os.Getenv("SLUICE_TLS") + "/ca.pem")))
	return roots
}

// dialTLS connects with TLS, and shows a certificate if one is named.
func dialTLS(ctx context.Context, sasl amqp.SASLType, certificate string) (*amqp.Conn, error) {
	config := &tls.Config{RootCAs: authority(), ServerName: "localhost"}
	if certificate != "" {
		file := os.Getenv("SLUICE_TLS") + "/" + certificate
		config.Certificates = []tls.Certificate{must(tls.LoadX509KeyPair(file+".pem", file+".key"))}
	}
	options := &amqp.ConnOptions{SASLType: sasl, TLSConfig: config}
	return amqp.Dial(ctx, "amqps://"+os.Getenv("SLUICE_AMQPS"), options)
}

func overTLS(ctx context.Context, sasl amqp.SASLType, certificate string) *client {
	conn := must(dialTLS(ctx, sasl, certificate))
	return &client{ctx: ctx, conn: conn, session: must(conn.NewSession(ctx, nil))}
}

// close closes the connection, and accepts an EOF: over TLS, the library loses the broker's CLOSE when the end of TLS
// comes in the same read (its readFrame drops what it has read together with an error).
func (c *client) close() {
	if err := c.conn.Close(); err != nil && err.Error() != io.EOF.Error() {
		panic(err)
	}
}

func (c *client) sender(address string) *amqp.Sender {
	return must(c.session.NewSender(c.ctx, address, nil))
}

// send sends durable messages to `address`, with `to` if that is not empty, and returns the outcomes.
func (c *client) send(address, to string, bodies ...string) []string {
	sender := c.sender(address)
	defer func() { check(sender.Close(c.ctx)) }()
	var receipts []amqp.SendReceipt
	for _, body := range bodies {
		message := amqp.NewMessage([]byte(body))
		message.Header = &amqp.MessageHeader{Durable: true}
		if to != "" {
			message.Properties = &amqp.MessageProperties{To: &to}
		}
		receipts = append(receipts, must(sender.SendWithReceipt(c.ctx, message, nil)))
	}
	var outcomes []string
	for i := range receipts {
		outcomes = append(outcomes, outcome(must(receipts[i].Wait(c.ctx))))
	}
	return outcomes
}

func outcome(state amqp.DeliveryState) string {
	switch state.(type) {
	case *amqp.StateAccepted:
		return "accepted"
	case *amqp.StateRejected:
		return "rejected"
	case *amqp.StateReleased:
		return "released"
	}
	return fmt.Sprintf("%T", state)
}

// sendOne sends a message and expects that it is accepted.
func (c *client) sendOne(address string, message *amqp.Message) {
	sender := c.sender(address)
	defer func() { check(sender.Close(c.ctx)) }()
	receipt := must(sender.SendWithReceipt(c.ctx, message, nil))
	expect(outcome(must(receipt.Wait(c.ctx))), "accepted")
}

// onQueue declares a queue with these messages in it.
func (c *client) onQueue(name string, bodies ...string) {
	c.manage().queue(name)
	for _, outcome := range c.send("/queues/"+name, "", bodies...) {
		expect(outcome, "accepted")
	}
}

// consumer is a receiver whose credit and settlement are the check's.
type consumer struct {
	*amqp.Receiver
	ctx context.Context
}

func (c *client) consumer(queue string) consumer {
	return c.consumerWith(queue, &amqp.ReceiverOptions{Credit: -1})
}

func (c *client) consumerWith(queue string, options *amqp.ReceiverOptions) consumer {
	return consumer{must(c.session.NewReceiver(c.ctx, "/queues/"+queue, options)), c.ctx}
}

// reader is a consumer of a stream with these filters.
func (c *client) reader(stream string, credit int32, filters ...amqp.LinkFilter) consumer {
	return c.consumerWith(stream, &amqp.ReceiverOptions{Credit: credit, Filters: filters})
}

// offset is the filter that says where a reader begins.
func offset(place any) amqp.LinkFilter {
	return amqp.NewLinkFilter("rabbitmq:stream-offset-spec", 0, place)
}

// take receives what has been granted already.
func (c consumer) take(count int) []*amqp.Message {
	var messages []*amqp.Message
	for range count {
		messages = append(messages, must(c.Receive(c.ctx, nil)))
	}
	return messages
}

// get is the synchronous get: one credit, one message.
func (c consumer) get() *amqp.Message {
	check(c.IssueCredit(1))
	return c.take(1)[0]
}

// drain returns everything there, when the broker says that this is all. There must be something: go-amqp holds back
// credit that is issued just before a drain, so the first message proves that the broker has it.
func (c consumer) drain() []*amqp.Message {
	check(c.IssueCredit(1000))
	messages := c.take(1)
	check(c.DrainCredit(c.ctx, nil))
	for message := c.Prefetched(); message != nil; message = c.Prefetched() {
		messages = append(messages, message)
	}
	return messages
}

func (c consumer) detach() { check(c.Close(c.ctx)) }

// management is the link pair to the broker's management node.
type management struct {
	*client
	sender   *amqp.Sender
	receiver *amqp.Receiver
	requests uint64
}

func (c *client) manage() *management {
	c.pairs++
	name := fmt.Sprintf("pair-%d", c.pairs)
	paired := map[string]any{"paired": true}
	settled := amqp.SenderSettleModeSettled
	// The receiver first: go-amqp grants its credit by itself a moment after the attach, and a request before that is
	// refused.
	receiver := must(c.session.NewReceiver(c.ctx, "/management", &amqp.ReceiverOptions{
		Name: name, TargetAddress: "me", RequestedSenderSettleMode: &settled, Credit: 10, Properties: paired}))
	sender := must(c.session.NewSender(c.ctx, "/management", &amqp.SenderOptions{
		Name: name, SourceAddress: "me", SettlementMode: &settled, Properties: paired}))
	return &management{client: c, sender: sender, receiver: receiver}
}

// ask sends one request and returns the body of the answer, whose status is to be `status`.
func (m *management) ask(status, method, path string, body any) any {
	m.requests++
	me := "$me"
	check(m.sender.Send(m.ctx, &amqp.Message{Value: body, Properties: &amqp.MessageProperties{
		MessageID: m.requests, Subject: &method, To: &path, ReplyTo: &me}}, nil))
	answer := must(m.receiver.Receive(m.ctx, nil))
	expect(answer.Properties.CorrelationID, any(m.requests))
	if found := *answer.Properties.Subject; found != status {
		panic(fmt.Errorf("%s %s: found %s %v, wanted %s", method, path, found, answer.Value, status))
	}
	return answer.Value
}

func (m *management) queue(name string) {
	m.queueWith(name, map[string]any{"x-queue-type": queueType})
}

func (m *management) stream(name string) {
	m.queueWith(name, map[string]any{"x-queue-type": "stream"})
}

func (m *management) queueWith(name string, arguments map[string]any) {
	m.ask("201", "PUT", "/queues/"+name, map[string]any{"durable": true, "arguments": arguments})
}

func (m *management) messages(queue string) any {
	return m.ask("200", "GET", "/queues/"+queue, nil).(map[string]any)["message_count"]
}

// refused checks that the broker detached the link with this condition, at its attach or later.
func refused(condition amqp.ErrCond, err error) {
	var atAttach *amqp.Error
	var later *amqp.LinkError
	if errors.As(err, &later) {
		atAttach = later.RemoteErr
	} else if !errors.As(err, &atAttach) {
		panic(fmt.Errorf("found %v, wanted a link refused with %s", err, condition))
	}
	expect(atAttach.Condition, condition)
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func expect[T any](found, wanted T) {
	if fmt.Sprint(found) != fmt.Sprint(wanted) {
		panic(fmt.Errorf("found %v, wanted %v", found, wanted))
	}
}
