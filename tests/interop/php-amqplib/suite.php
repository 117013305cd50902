<?php
// What programs with php-amqplib do, the usual client of AMQP 0.9.1 in PHP.
require '/usr/share/php/PhpAmqpLib/autoload.php';

use PhpAmqpLib\Connection\AMQPStreamConnection;
use PhpAmqpLib\Exception\AMQPProtocolChannelException;
use PhpAmqpLib\Message\AMQPMessage;
use PhpAmqpLib\Wire\AMQPTable;

const PATIENCE = 30; // seconds; a guard against hanging, not a measure

function connect(string $password = 'guest', string $vhost = '/'): AMQPStreamConnection
{
    [$host, $port] = explode(':', getenv('SLUICE_AMQP'));
    return new AMQPStreamConnection($host, $port, 'guest', $password, $vhost);
}

function queue($channel, string $name, array $more = []): void
{
    $arguments = new AMQPTable($more + ['x-queue-type' => getenv('SLUICE_QUEUE_TYPE')]);
    $channel->queue_declare($name, false, true, false, false, false, $arguments);
}

function persistent(string $body, array $headers = []): AMQPMessage
{
    $properties = ['delivery_mode' => AMQPMessage::DELIVERY_MODE_PERSISTENT];
    return new AMQPMessage($body, $properties + ($headers ? ['application_headers' => new AMQPTable($headers)] : []));
}

function get($channel, string $queue, bool $noAck = true): AMQPMessage
{
    $deadline = microtime(true) + PATIENCE;
    while (microtime(true) < $deadline) {
        if ($message = $channel->basic_get($queue, $noAck)) {
            return $message;
        }
        usleep(5000);
    }
    throw new Exception("no message in $queue");
}

function expect($found, $wanted): void
{
    if ($found !== $wanted) {
        throw new Exception('found ' . json_encode($found) . ', wanted ' . json_encode($wanted));
    }
}

function refused(string $words, callable $attempt): void
{
    try {
        $attempt();
    } catch (Exception $error) {
        if (!str_contains($error->getMessage(), $words)) {
            throw $error;
        }
        return;
    }
    throw new Exception("was not refused with $words");
}

$checks = [
    'login' => function () {
        expect(connect()->getServerProperties()['product'][1], 'RabbitMQ');
        refused('ACCESS_REFUSED', fn() => connect('wrong'));
        refused('vhost nowhere not found', fn() => connect('guest', 'nowhere'));
    },
    'publish_and_consume' => function () {
        $channel = connect()->channel();
        queue($channel, 'consumed');
        $channel->confirm_select();
        $acked = 0;
        $channel->set_ack_handler(function () use (&$acked) { $acked++; });
        for ($number = 0; $number < 100; $number++) {
            $message = persistent("$number", ['n' => $number, 'list' => [1, 'a'], 'b' => true]);
            $channel->basic_publish($message, '', 'consumed');
        }
        $channel->wait_for_pending_acks(PATIENCE);
        expect($acked, 100);
        $found = [];
        $channel->basic_qos(0, 10, false);
        $channel->basic_consume('consumed', '', false, false, false, false, function ($message) use (&$found) {
            $headers = $message->get('application_headers')->getNativeData();
            $found[] = [$message->getBody(), $headers['n'], $headers['list'], $headers['b']];
            $message->ack();
        });
        while (count($found) < 100) {
            $channel->wait(null, false, PATIENCE);
        }
        expect($found[99], ['99', 99, [1, 'a'], true]);
    },
    'settlement' => function () {
        $channel = connect()->channel();
        queue($channel, 'settled');
        $channel->basic_publish(persistent('a'), '', 'settled');
        get($channel, 'settled', false)->nack(true);
        $again = get($channel, 'settled', false);
        expect([$again->getBody(), $again->isRedelivered()], ['a', true]);
        $again->reject(false);
        expect($channel->basic_get('settled'), null);
    },
    'returns' => function () {
        $channel = connect()->channel();
        $channel->exchange_declare('php', 'topic', false, true, false);
        $returned = null;
        $channel->set_return_listener(function ($code, $text, $exchange, $key) use (&$returned) {
            $returned = [$code, $text, $exchange, $key];
        });
        $channel->basic_publish(persistent('a'), 'php', 'nobody', true);
        $channel->wait(null, false, PATIENCE);
        expect($returned, [312, 'NO_ROUTE', 'php', 'nobody']);
    },
    'errors' => function () {
        $connection = connect();
        refused("no queue 'absent' in vhost '/'", fn() => $connection->channel()->queue_declare('absent', true));
        queue($connection->channel(), 'fixed');
        refused("inequivalent arg 'x-max-length' for queue 'fixed'",
            fn() => queue($connection->channel(), 'fixed', ['x-max-length' => 5]));
        queue($connection->channel(), 'after-errors');
    },
    'dead_letters' => function () {
        $channel = connect()->channel();
        queue($channel, 'grave');
        queue($channel, 'mortal', [
            'x-dead-letter-exchange' => '', 'x-dead-letter-routing-key' => 'grave', 'x-message-ttl' => 20]);
        $channel->basic_publish(persistent('a'), '', 'mortal');
        $death = get($channel, 'grave')->get('application_headers')->getNativeData()['x-death'][0];
        expect([$death['reason'], $death['queue'], $death['count']], ['expired', 'mortal', 1]);
    },
    'transactions' => function () {
        $channel = connect()->channel();
        queue($channel, 'in-transaction');
        $channel->tx_select();
        $channel->basic_publish(persistent('lost'), '', 'in-transaction');
        $channel->tx_rollback();
        $channel->basic_publish(persistent('kept'), '', 'in-transaction');
        $channel->tx_commit();
        expect(get($channel, 'in-transaction')->getBody(), 'kept');
    },
];

$failed = 0;
$chosen = array_filter($checks, fn($name) => $argc === 1 || in_array($name, $argv, true), ARRAY_FILTER_USE_KEY);
foreach ($chosen as $name => $check) {
    try {
        $check();
        echo "ok   $name\n";
    } catch (Throwable $error) {
        $failed++;
        echo "FAIL $name $error\n";
    }
}
printf("php-amqplib: %d passed, %d failed\n", count($chosen) - $failed, $failed);
exit($failed ? 1 : 0);
