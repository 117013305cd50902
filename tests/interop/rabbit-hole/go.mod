module interop

go 1.25.0

require (
	github.com/michaelklishin/rabbit-hole/v2 v2.16.0
	github.com/rabbitmq/amqp091-go v1.16.0
)
