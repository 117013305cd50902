#!/bin/bash
# What people measure RabbitMQ with: RabbitMQ's PerfTest. It fails if a message or a confirm is missing.
set -uo pipefail
lib=$1
uri=amqp://guest:guest@$SLUICE_AMQP
arguments=x-queue-type=$SLUICE_QUEUE_TYPE
passed=0 failed=0

# check NAME OPTION...: runs PerfTest to its end, which it reaches only if everything arrives.
check() {
    local name=$1 said; shift
    if said=$(timeout 60 java -cp "$lib/*" com.rabbitmq.perf.PerfTest --uri "$uri" --queue-args "$arguments" \
            --auto-delete false --flag persistent "$@" 2>&1) && ! grep -qiE 'exception|nacked: [1-9]' <<<"$said"; then
        echo "ok   $name"; passed=$((passed + 1))
    else
        echo "FAIL $name"; echo "$said" | tail -n 20; failed=$((failed + 1))
    fi
}

check one_publisher_with_confirms --queue one -x 1 -y 1 --confirm 100 --qos 200 --multi-ack-every 100 \
    --pmessages 20000 --cmessages 20000
check several_publishers_of_a_queue --queue several -x 4 -y 1 --confirm 50 --qos 100 \
    --pmessages 2500 --cmessages 10000 --size 1000
check many_queues --queue-pattern 'many-%d' --queue-pattern-from 1 --queue-pattern-to 10 -x 10 -y 10 --confirm 10 \
    --qos 10 --pmessages 200 --cmessages 200
check without_confirms --queue fast -x 1 -y 1 --autoack --pmessages 50000 --cmessages 50000

echo "perftest: $passed passed, $failed failed"
[ "$failed" = 0 ]
