// What programs with rabbitmq-c do, the usual client of AMQP 0.9.1 in C.
#include <amqp.h>
#include <amqp_tcp_socket.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#define PATIENCE_S 30 // a guard against hanging, not a measure

static jmp_buf failure; // where a check that fails goes

static void fail(const char *format, ...) {
    va_list values;
    va_start(values, format);
    vprintf(format, values);
    va_end(values);
    printf("\n");
    longjmp(failure, 1);
}

static void expect(long found, long wanted, const char *what) {
    if (found != wanted) {
        fail("%s: found %ld, wanted %ld", what, found, wanted);
    }
}

static amqp_bytes_t text(const char *of) { return amqp_cstring_bytes(of); }

static void expect_text(amqp_bytes_t found, const char *wanted) {
    if (found.len != strlen(wanted) || memcmp(found.bytes, wanted, found.len) != 0) {
        fail("found %.*s, wanted %s", (int)found.len, (char *)found.bytes, wanted);
    }
}

static amqp_connection_state_t log_in(const char *password, amqp_rpc_reply_t *reply) {
    char host[256];
    int port = 0;
    if (sscanf(getenv("SLUICE_AMQP"), "%255[^:]:%d", host, &port) != 2) {
        fail("SLUICE_AMQP is no host:port");
    }
    amqp_connection_state_t connection = amqp_new_connection();
    amqp_socket_t *socket = amqp_tcp_socket_new(connection);
    expect(amqp_socket_open(socket, host, port), AMQP_STATUS_OK, "connecting");
    // 131,072 bytes in a frame, and a heartbeat each 5 s.
    *reply = amqp_login(connection, "/", 0, 131072, 5, AMQP_SASL_METHOD_PLAIN, "guest", password);
    return connection;
}

static void succeeded(amqp_connection_state_t connection, const char *what) {
    amqp_rpc_reply_t reply = amqp_get_rpc_reply(connection);
    if (reply.reply_type != AMQP_RESPONSE_NORMAL) {
        fail("%s: reply type %d, %s", what, reply.reply_type, amqp_error_string2(reply.library_error));
    }
}

// Connects, and opens channel 1.
static amqp_connection_state_t connect_to_broker(void) {
    amqp_rpc_reply_t reply;
    amqp_connection_state_t connection = log_in("guest", &reply);
    expect(reply.reply_type, AMQP_RESPONSE_NORMAL, "login");
    amqp_channel_open(connection, 1);
    succeeded(connection, "opening a channel");
    return connection;
}

static void leave(amqp_connection_state_t connection) {
    amqp_connection_close(connection, AMQP_REPLY_SUCCESS);
    amqp_destroy_connection(connection);
}

static amqp_queue_declare_ok_t *declare(amqp_connection_state_t connection, const char *queue, int passive) {
    amqp_table_entry_t entry = {.key = text("x-queue-type"),
        .value = {.kind = AMQP_FIELD_KIND_UTF8, .value = {.bytes = text(getenv("SLUICE_QUEUE_TYPE"))}}};
    amqp_table_t arguments = {.num_entries = 1, .entries = &entry};
    return amqp_queue_declare(connection, 1, text(queue), passive, 1, 0, 0, arguments);
}

static void publish(amqp_connection_state_t connection, const char *queue, const char *body, int mandatory) {
    amqp_basic_properties_t properties = {
        ._flags = AMQP_BASIC_DELIVERY_MODE_FLAG | AMQP_BASIC_CONTENT_TYPE_FLAG,
        .delivery_mode = AMQP_DELIVERY_PERSISTENT, .content_type = text("text/plain")};
    expect(amqp_basic_publish(connection, 1, amqp_empty_bytes, text(queue), mandatory, 0, &properties, text(body)),
           AMQP_STATUS_OK, "publishing");
}

// Waits for a method of the broker that answers no request.
static amqp_method_t next_method(amqp_connection_state_t connection) {
    amqp_frame_t frame;
    struct timeval patience = {.tv_sec = PATIENCE_S};
    expect(amqp_simple_wait_frame_noblock(connection, &frame, &patience), AMQP_STATUS_OK, "waiting");
    expect(frame.frame_type, AMQP_FRAME_METHOD, "the frame");
    return frame.payload.method;
}

static void login(void) {
    leave(connect_to_broker());
    amqp_rpc_reply_t reply;
    amqp_connection_state_t connection = log_in("wrong", &reply);
    expect(reply.reply_type, AMQP_RESPONSE_SERVER_EXCEPTION, "a wrong password");
    amqp_connection_close_t *close = reply.reply.decoded;
    expect(close->reply_code, 403, "a wrong password");
    amqp_destroy_connection(connection);
}

static void publish_and_consume(void) {
    amqp_connection_state_t connection = connect_to_broker();
    declare(connection, "of-c", 0);
    succeeded(connection, "declaring");
    amqp_confirm_select(connection, 1);
    succeeded(connection, "asking for confirms");
    static char big[300001];
    memset(big, 'x', sizeof big - 1);
    const char *bodies[] = {"one", "two", big};
    for (int i = 0; i < 3; i++) {
        publish(connection, "of-c", bodies[i], 1);
        amqp_method_t method = next_method(connection);
        expect(method.id, AMQP_BASIC_ACK_METHOD, "the confirm");
    }
    amqp_basic_qos(connection, 1, 0, 10, 0);
    amqp_basic_consume(connection, 1, text("of-c"), amqp_empty_bytes, 0, 0, 0, amqp_empty_table);
    succeeded(connection, "consuming");
    for (int i = 0; i < 3; i++) {
        amqp_envelope_t envelope;
        struct timeval patience = {.tv_sec = PATIENCE_S};
        amqp_rpc_reply_t reply = amqp_consume_message(connection, &envelope, &patience, 0);
        expect(reply.reply_type, AMQP_RESPONSE_NORMAL, "a delivery");
        expect_text(envelope.message.body, bodies[i]);
        expect_text(envelope.message.properties.content_type, "text/plain");
        expect(envelope.redelivered, 0, "redelivered");
        expect(amqp_basic_ack(connection, 1, envelope.delivery_tag, 0), AMQP_STATUS_OK, "acknowledging");
        amqp_destroy_envelope(&envelope);
    }
    amqp_queue_declare_ok_t *found = declare(connection, "of-c", 1);
    expect(found->message_count, 0, "messages");
    expect(found->consumer_count, 1, "consumers");
    leave(connection);
}

static void get_and_nack(void) {
    amqp_connection_state_t connection = connect_to_broker();
    declare(connection, "got-by-c", 0);
    amqp_confirm_select(connection, 1);
    publish(connection, "got-by-c", "a", 0);
    expect(next_method(connection).id, AMQP_BASIC_ACK_METHOD, "the confirm");
    for (int again = 0; again < 2; again++) {
        amqp_rpc_reply_t reply;
        do { // a requeued message may need a moment
            reply = amqp_basic_get(connection, 1, text("got-by-c"), 0);
            expect(reply.reply_type, AMQP_RESPONSE_NORMAL, "get");
        } while (reply.reply.id == AMQP_BASIC_GET_EMPTY_METHOD);
        amqp_basic_get_ok_t *got = reply.reply.decoded;
        expect(got->redelivered, again, "redelivered");
        uint64_t tag = got->delivery_tag;
        amqp_message_t message;
        reply = amqp_read_message(connection, 1, &message, 0);
        expect_text(message.body, "a");
        amqp_destroy_message(&message);
        expect(amqp_basic_nack(connection, 1, tag, 0, !again), AMQP_STATUS_OK, "nack");
    }
    leave(connection);
}

static void returned_messages(void) {
    amqp_connection_state_t connection = connect_to_broker();
    publish(connection, "no-such-queue", "a", 1);
    amqp_method_t method = next_method(connection);
    expect(method.id, AMQP_BASIC_RETURN_METHOD, "the return");
    amqp_basic_return_t *returned = method.decoded;
    expect(returned->reply_code, 312, "its code");
    expect_text(returned->reply_text, "NO_ROUTE");
    amqp_message_t message;
    amqp_read_message(connection, 1, &message, 0);
    expect_text(message.body, "a");
    amqp_destroy_message(&message);
    leave(connection);
}

static void errors_of_channels(void) {
    amqp_connection_state_t connection = connect_to_broker();
    declare(connection, "absent", 1);
    amqp_rpc_reply_t reply = amqp_get_rpc_reply(connection);
    expect(reply.reply_type, AMQP_RESPONSE_SERVER_EXCEPTION, "the answer");
    expect(reply.reply.id, AMQP_CHANNEL_CLOSE_METHOD, "the answer");
    amqp_channel_close_t *close = reply.reply.decoded;
    expect(close->reply_code, 404, "its code");
    expect_text(close->reply_text, "NOT_FOUND - no queue 'absent' in vhost '/'");
    amqp_channel_close_ok_t ok;
    expect(amqp_send_method(connection, 1, AMQP_CHANNEL_CLOSE_OK_METHOD, &ok), AMQP_STATUS_OK, "closing");
    amqp_channel_open(connection, 1);
    succeeded(connection, "opening the channel again");
    leave(connection);
}

static void transactions(void) {
    amqp_connection_state_t connection = connect_to_broker();
    declare(connection, "tx-of-c", 0);
    amqp_tx_select(connection, 1);
    publish(connection, "tx-of-c", "lost", 0);
    amqp_tx_rollback(connection, 1);
    publish(connection, "tx-of-c", "kept", 0);
    amqp_tx_commit(connection, 1);
    succeeded(connection, "the commit");
    amqp_rpc_reply_t reply;
    do {
        reply = amqp_basic_get(connection, 1, text("tx-of-c"), 1);
    } while (reply.reply.id == AMQP_BASIC_GET_EMPTY_METHOD);
    amqp_message_t message;
    amqp_read_message(connection, 1, &message, 0);
    expect_text(message.body, "kept");
    amqp_destroy_message(&message);
    leave(connection);
}

static const struct {
    const char *name;
    void (*run)(void);
} checks[] = {
    {"login", login}, {"publish_and_consume", publish_and_consume}, {"get_and_nack", get_and_nack},
    {"returned_messages", returned_messages}, {"errors_of_channels", errors_of_channels},
    {"transactions", transactions},
};

// Runs a check. Returns whether it passed.
static int passes(const char *name, void (*run)(void)) {
    if (setjmp(failure) != 0) {
        printf("FAIL %s\n", name);
        return 0;
    }
    run();
    printf("ok   %s\n", name);
    return 1;
}

static int is_chosen(const char *name, int count, char **names) {
    for (int i = 1; i < count; i++) {
        if (strcmp(names[i], name) == 0) {
            return 1;
        }
    }
    return count == 1;
}

// Runs every check, or those named on the command line.
int main(int count, char **names) {
    int passed = 0, failed = 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    alarm(4 * PATIENCE_S); // ends a check that waits in the library
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++) {
        if (is_chosen(checks[i].name, count, names)) {
            int ok = passes(checks[i].name, checks[i].run);
            passed += ok;
            failed += !ok;
        }
    }
    printf("rabbitmq-c: %d passed, %d failed\n", passed, failed);
    return failed > 0;
}
