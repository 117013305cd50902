package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"reflect"
	"strings"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const (
	patience = 30 * time.Second       // a guard against hanging, not a measure
	quiet    = 150 * time.Millisecond // in which a message that must not arrive would arrive
)

// queueType is the type of every queue that a check declares, if the check does not name another.
var queueType = os.Getenv("SLUICE_QUEUE_TYPE")

var quorum = queueType == "quorum"

// client is a connection with one channel that confirms. Its methods panic with what went wrong, which fails the check.
type client struct {
	ctx  context.Context
	conn *amqp.Connection
	ch   *amqp.Channel
}

func dial(config amqp.Config) (*amqp.Connection, error) {
	return amqp.DialConfig("amqp://guest:guest@"+os.Getenv("SLUICE_AMQP"), config)
}

func connect(ctx context.Context) *client { return connectWith(ctx, amqp.Config{}) }

func connectWith(ctx context.Context, config amqp.Config) *client {
	return of(ctx, must(dial(config)))
}

// of opens a channel on a connection, and closes the connection when the check ends.
func of(ctx context.Context, conn *amqp.Connection) *client {
	context.AfterFunc(ctx, func() { _ = conn.Close() })
	c := &client{ctx: ctx, conn: conn}
	c.ch = c.channel()
	return c
}

// channel opens a further channel that confirms.
func (c *client) channel() *amqp.Channel {
	ch := must(c.conn.Channel())
	check(ch.Confirm(false))
	return ch
}

// overTLS returns the client's side of TLS, which shows a certificate if one is named.
func overTLS(certificate string) *tls.Config {
	folder := os.Getenv("SLUICE_TLS") + "/"
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(must(os.ReadFile(folder + "ca.pem")))
	config := &tls.Config{RootCAs: roots, ServerName: "localhost"}
	if certificate != "" {
		pair := must(tls.LoadX509KeyPair(folder+certificate+".pem", folder+certificate+".key"))
		config.Certificates = []tls.Certificate{pair}
	}
	return config
}

// queue declares a durable queue of the tested type, with these arguments.
func (c *client) queue(name string, arguments amqp.Table) amqp.Queue {
	all := amqp.Table{"x-queue-type": queueType}
	for argument, value := range arguments {
		all[argument] = value
	}
	return must(c.ch.QueueDeclare(name, true, false, false, false, all))
}

// onQueue declares a queue with these messages in it.
func (c *client) onQueue(name string, bodies ...string) {
	c.queue(name, nil)
	c.publish("", name, bodies...)
}

// publish sends messages and waits until all are confirmed.
func (c *client) publish(exchange, key string, bodies ...string) {
	var waiting []*amqp.DeferredConfirmation
	for _, body := range bodies {
		waiting = append(waiting, c.send(exchange, key, amqp.Publishing{
			Body: []byte(body), DeliveryMode: amqp.Persistent}))
	}
	for _, confirmation := range waiting {
		expect(must(confirmation.WaitContext(c.ctx)), true)
	}
}

func (c *client) send(exchange, key string, message amqp.Publishing) *amqp.DeferredConfirmation {
	return must(c.ch.PublishWithDeferredConfirmWithContext(c.ctx, exchange, key, false, false, message))
}

// get waits until the queue has a message. It is acknowledged.
func (c *client) get(queue string) amqp.Delivery {
	for {
		delivery, ok, err := c.ch.Get(queue, true)
		check(err)
		if ok {
			return delivery
		}
		if c.ctx.Err() != nil {
			panic(fmt.Errorf("no message in %s", queue))
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// consume starts a consumer that acknowledges by hand.
func (c *client) consume(queue string, arguments amqp.Table) <-chan amqp.Delivery {
	return must(c.ch.ConsumeWithContext(c.ctx, queue, "", false, false, false, false, arguments))
}

func take(ctx context.Context, deliveries <-chan amqp.Delivery, count int) []amqp.Delivery {
	var got []amqp.Delivery
	for len(got) < count {
		got = append(got, next(ctx, deliveries))
	}
	return got
}

// next receives from a channel of the library.
func next[T any](ctx context.Context, from <-chan T) T {
	select {
	case value, ok := <-from:
		if !ok {
			panic(errors.New("the channel was closed"))
		}
		return value
	case <-ctx.Done():
		panic(errors.New("nothing arrived"))
	}
}

func nothing(deliveries <-chan amqp.Delivery) {
	select {
	case delivery := <-deliveries:
		panic(fmt.Errorf("%q arrived", delivery.Body))
	case <-time.After(quiet):
	}
}

func bodies(deliveries []amqp.Delivery) []string {
	var found []string
	for _, delivery := range deliveries {
		found = append(found, string(delivery.Body))
	}
	return found
}

// socket lets a check break the connection below the library.
type socket struct {
	sync.Mutex
	conns []net.Conn
}

func (s *socket) dial(network, address string) (net.Conn, error) {
	conn, err := net.DialTimeout(network, address, patience)
	if err == nil {
		err = conn.SetDeadline(time.Now().Add(patience)) // until the handshake ends
		s.Lock()
		s.conns = append(s.conns, conn)
		s.Unlock()
	}
	return conn, err
}

func (s *socket) snap() {
	s.Lock()
	defer s.Unlock()
	check(s.conns[len(s.conns)-1].Close())
}

// refused expects an error of a channel with this code and text.
func refused(code int, text string, attempt func() error) {
	err := attempt()
	var problem *amqp.Error
	if !errors.As(err, &problem) || problem.Code != code || !strings.Contains(problem.Reason, text) {
		panic(fmt.Errorf("wanted %d %s, got %v", code, text, err))
	}
}

func expect(found, wanted any) {
	if !reflect.DeepEqual(found, wanted) {
		panic(fmt.Errorf("found %#v, wanted %#v", found, wanted))
	}
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
