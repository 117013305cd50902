package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/Azure/go-amqp"
	rmq "github.com/rabbitmq/rabbitmq-amqp-go-client/pkg/rabbitmqamqp"
)

const patience = 30 * time.Second // a guard against hanging, not a measure

// client is one connection. Its methods panic with what went wrong, which fails the check.
type client struct {
	*rmq.AmqpConnection
	ctx context.Context
}

func environment(password string) *rmq.Environment {
	return rmq.NewEnvironment("amqp://guest:"+password+"@"+os.Getenv("SLUICE_AMQP")+"/", &rmq.AmqpConnOptions{
		RecoveryConfiguration: &rmq.RecoveryConfiguration{ActiveRecovery: false}})
}

func connect(ctx context.Context) *client {
	return &client{must(environment("guest").NewConnection(ctx)), ctx}
}

// close closes the connection. The library closes the socket when it has sent its CLOSE. If the broker is quicker, with its own CLOSE
// and the end of the connection, the library reports that end as an error, which it is not.
func (c *client) close() {
	if err := c.Close(c.ctx); err != nil && err.Error() != io.EOF.Error() {
		panic(err)
	}
}

// declare declares a queue with these messages in it.
func (c *client) declare(specification rmq.IQueueSpecification, bodies ...string) *rmq.AmqpQueueInfo {
	info := must(c.Management().DeclareQueue(c.ctx, specification))
	c.publish(queue(info.Name()), bodies...)
	return info
}

func (c *client) classic(name string, bodies ...string) {
	c.declare(&rmq.ClassicQueueSpecification{Name: name}, bodies...)
}

func (c *client) stream(name string, bodies ...string) {
	c.declare(&rmq.StreamQueueSpecification{Name: name}, bodies...)
}

func (c *client) bind(source, queue, key string) string {
	return must(c.Management().Bind(c.ctx, &rmq.ExchangeToQueueBindingSpecification{
		SourceExchange: source, DestinationQueue: queue, BindingKey: key}))
}

func (c *client) info(queue string) *rmq.AmqpQueueInfo {
	return must(c.Management().QueueInfo(c.ctx, queue))
}

func (c *client) count(queue string) int { return int(c.info(queue).MessageCount()) }

func queue(name string) rmq.ITargetAddress { return &rmq.QueueAddress{Queue: name} }

func exchange(name, key string) rmq.ITargetAddress {
	return &rmq.ExchangeAddress{Exchange: name, Key: key}
}

func (c *client) publisher(to rmq.ITargetAddress) *rmq.Publisher {
	return must(c.NewPublisher(c.ctx, to, nil))
}

// publish publishes texts, each confirmed before the next.
func (c *client) publish(to rmq.ITargetAddress, bodies ...string) {
	for _, body := range bodies {
		expect(c.send(to, rmq.NewMessage([]byte(body))), "accepted")
	}
}

func (c *client) send(to rmq.ITargetAddress, message *amqp.Message) string {
	publisher := c.publisher(to)
	defer func() { check(publisher.Close(c.ctx)) }()
	return outcome(must(publisher.Publish(c.ctx, message)))
}

func outcome(result *rmq.PublishResult) string {
	switch state := result.Outcome.(type) {
	case *rmq.StateAccepted:
		return "accepted"
	case *rmq.StateRejected:
		return fmt.Sprint("rejected: ", state.Error)
	case *rmq.StateReleased:
		return "released"
	}
	return fmt.Sprintf("%T", result.Outcome)
}

// consumer is a consumer whose settlement is the check's.
type consumer struct {
	*rmq.Consumer
	ctx context.Context
}

func (c *client) consumer(queue string, options rmq.IConsumerOptions) consumer {
	return consumer{must(c.NewConsumer(c.ctx, queue, options)), c.ctx}
}

func (c consumer) next() rmq.IDeliveryContext { return must(c.Receive(c.ctx)) }

func (c consumer) stop() { check(c.Close(c.ctx)) }

// take accepts this many messages.
func (c consumer) take(count int) (messages []*amqp.Message) {
	for range count {
		delivery := c.next()
		check(delivery.Accept(c.ctx))
		messages = append(messages, delivery.Message())
	}
	return messages
}

// takeFrom consumes this many messages on a consumer of its own.
func (c *client) takeFrom(queue string, count int, options rmq.IConsumerOptions) []*amqp.Message {
	consumer := c.consumer(queue, options)
	defer consumer.stop()
	return consumer.take(count)
}

// one receives one message at a time.
var one = &rmq.ConsumerOptions{InitialCredits: 1}

func texts(messages []*amqp.Message) string {
	var texts []string
	for _, message := range messages {
		texts = append(texts, string(message.GetData()))
	}
	return strings.Join(texts, " ")
}

// seen is what is known of a delivery before this one: how often it failed, and whether this is the first.
func seen(messages ...*amqp.Message) (seen []string) {
	for _, message := range messages {
		seen = append(seen, fmt.Sprint(message.Header.DeliveryCount, message.Header.FirstAcquirer))
	}
	return seen
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

func fails(err error, part string) {
	if err == nil || !strings.Contains(err.Error(), part) {
		panic(fmt.Errorf("found error %v, wanted one with %q", err, part))
	}
}

func expect[T any](found, wanted T) {
	if fmt.Sprint(found) != fmt.Sprint(wanted) {
		panic(fmt.Errorf("found %v, wanted %v", found, wanted))
	}
}

func expectPrefix(found, wanted string) {
	if !strings.HasPrefix(found, wanted) {
		panic(fmt.Errorf("found %q, wanted %q...", found, wanted))
	}
}

func chosen(name string) bool { return len(os.Args) == 1 || slices.Contains(os.Args[1:], name) }
