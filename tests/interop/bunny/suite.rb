# What programs with Bunny do, the usual client of AMQP 0.9.1 in Ruby.
require 'bunny'
require 'timeout'

HOST, PORT = ENV.fetch('SLUICE_AMQP').split(':')
QUEUE_TYPE = ENV.fetch('SLUICE_QUEUE_TYPE')
PATIENCE = 30 # seconds; a guard against hanging, not a measure

def connect(**options)
  connection = Bunny.new(host: HOST, port: PORT.to_i, logger: Logger.new(File::NULL), **options)
  connection.start
  return connection unless block_given?
  begin
    yield connection
  ensure
    connection.close if connection.open?
  end
end

def channel(**options)
  connect(**options) { |connection| yield connection.create_channel.tap(&:confirm_select) }
end

def queue(channel, name, arguments = {})
  channel.queue(name, durable: true, arguments: { 'x-queue-type' => QUEUE_TYPE }.merge(arguments))
end

def get(queue)
  Timeout.timeout(PATIENCE) do
    loop do
      delivery, properties, body = queue.pop
      return [delivery, properties, body] if delivery
      sleep 0.005
    end
  end
end

def expect(found, wanted)
  raise "found #{found.inspect}, wanted #{wanted.inspect}" unless found == wanted
end

def refused(type, words)
  yield
rescue type => error
  raise "wanted #{words}, got #{error.message}" unless error.message.include?(words)
else
  raise 'was not refused'
end

CHECKS = {
  login: lambda do
    connect { |connection| expect(connection.server_properties['product'], 'RabbitMQ') }
    refused(Bunny::AuthenticationFailureError, 'guest') { connect(password: 'wrong') }
    refused(Bunny::NotAllowedError, 'vhost nowhere not found') { connect(vhost: 'nowhere') }
  end,

  publish_and_subscribe: lambda do
    channel do |ch|
      jobs = queue(ch, 'subscribed')
      arrived = Queue.new
      consumer = jobs.subscribe(manual_ack: true) do |delivery, properties, body|
        arrived << [body, properties.headers, properties.message_id]
        ch.ack(delivery.delivery_tag)
      end
      100.times do |number|
        jobs.publish(number.to_s, persistent: true, headers: { 'n' => number, 'l' => [1, 'a'] }, message_id: 'm')
      end
      expect(ch.wait_for_confirms, true)
      100.times do |number|
        body, headers, id = Timeout.timeout(PATIENCE) { arrived.pop }
        expect([body, headers['n'], headers['l'], id], [number.to_s, number, [1, 'a'], 'm'])
      end
      consumer.cancel
      expect(jobs.message_count, 0)
    end
  end,

  settlement: lambda do
    channel do |ch|
      jobs = queue(ch, 'settled')
      %w[a b].each { |body| jobs.publish(body) }
      ch.wait_for_confirms
      delivery, _, body = Timeout.timeout(PATIENCE) { jobs.pop(manual_ack: true) }
      expect([body, delivery.redelivered?], ['a', false])
      ch.nack(delivery.delivery_tag, false, true)
      Timeout.timeout(PATIENCE) { sleep 0.005 until jobs.message_count == 2 }
      delivery, _, body = jobs.pop(manual_ack: true)
      expect([body, delivery.redelivered?], ['a', true])
      ch.reject(delivery.delivery_tag)
      expect(get(jobs)[2], 'b')
    end
  end,

  exchanges: lambda do
    channel do |ch|
      jobs = queue(ch, 'routed')
      logs = ch.topic('bunny-logs', durable: true)
      jobs.bind(logs, routing_key: 'error.#')
      returned = Queue.new
      logs.on_return { |info, _, body| returned << [info.reply_code, body] }
      logs.publish('a', routing_key: 'error.disk', mandatory: true)
      logs.publish('b', routing_key: 'info', mandatory: true)
      ch.wait_for_confirms
      expect(get(jobs)[2], 'a')
      expect(Timeout.timeout(PATIENCE) { returned.pop }, [312, 'b'])
    end
  end,

  errors: lambda do
    connect do |connection|
      refused(Bunny::NotFound, "no queue 'absent' in vhost '/'") do
        connection.create_channel.queue('absent', passive: true)
      end
      queue(connection.create_channel, 'fixed')
      refused(Bunny::PreconditionFailed, "inequivalent arg 'x-max-length' for queue 'fixed'") do
        queue(connection.create_channel, 'fixed', 'x-max-length' => 5)
      end
      refused(Bunny::ResourceLocked, 'cannot obtain exclusive access') do
        connection.create_channel.queue('mine', exclusive: true)
        connect { |other| other.create_channel.queue('mine', passive: true) }
      end
    end
  end,

  a_connection_is_recovered: lambda do
    recovered = Queue.new
    # A message that is published while the library logs in again would be sent in the middle of the login.
    channel(network_recovery_interval: 0.2, recovery_completed: -> { recovered << true }) do |ch|
      jobs = queue(ch, 'recovered')
      own = ch.queue('', exclusive: true)
      topic = ch.topic('bunny-brief', durable: true, auto_delete: true)
      own.bind(topic, routing_key: '#')
      arrived = Queue.new
      own.subscribe { |_, _, body| arrived << body }
      jobs.publish('a')
      ch.wait_for_confirms
      ch.connection.transport.socket.shutdown # below the library
      body = Timeout.timeout(PATIENCE) do
        recovered.pop
        topic.publish('again', routing_key: 'x')
        arrived.pop
      end
      expect([body, get(jobs)[2]], %w[again a])
    end
  end,
}.freeze

chosen = CHECKS.select { |name, _| ARGV.empty? || ARGV.include?(name.to_s) }
failed = 0
chosen.each do |name, check|
  Timeout.timeout(2 * PATIENCE) { check.call }
  puts "ok   #{name}"
rescue Exception => error # any error is a failed check
  failed += 1
  puts "FAIL #{name} #{error.full_message(highlight: false)}"
end
puts "bunny: #{chosen.size - failed} passed, #{failed} failed"
exit(failed.zero?)
