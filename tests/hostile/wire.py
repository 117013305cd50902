"""AMQP 1.0 as bytes, for clients that break the rules."""
import socket
import ssl
import struct

NULL, TRUE, FALSE = b"\x40", b"\x41", b"\x42"
OPEN, BEGIN, ATTACH, FLOW, TRANSFER, DISPOSITION, DETACH, END, CLOSE = range(0x10, 0x19)
SASL_INIT = 0x41
MANY = 2**31 - 1


def symbol(text):
    return b"\xa3" + bytes([len(text)]) + text.encode()


def string(text):
    return b"\xb1" + struct.pack(">I", len(text)) + text.encode()


def binary(data):
    return b"\xb0" + struct.pack(">I", len(data)) + data


def uint(number):
    return b"\x70" + struct.pack(">I", number)


def compound(code, items):
    body = b"".join(items)
    return bytes([code]) + struct.pack(">II", len(body) + 4, len(items)) + body


def described(code, *fields):
    return b"\x00\x53" + bytes([code]) + compound(0xD0, fields)


def frame(body, channel=0, kind=0):
    return struct.pack(">IBBH", len(body) + 8, 2, kind, channel) + body


def data(payload):
    """Returns a message with one data section."""
    return b"\x00\x53\x75" + binary(payload)


def list_of_uints(encoded):
    """Returns the fields of a list, as long as they are unsigned or null."""
    wide = encoded[0] == 0xD0
    count = struct.unpack(">I", encoded[5:9])[0] if wide else encoded[2]
    at, fields = 9 if wide else 3, []
    for _ in range(count):
        size = {0x40: 0, 0x43: 0, 0x52: 1, 0x60: 2, 0x70: 4}.get(encoded[at])
        if size is None:
            break
        fields.append(int.from_bytes(encoded[at + 1:at + 1 + size], "big"))
        at += 1 + size
    return fields


FROM_THE_FIRST = compound(0xD1, [symbol("rabbitmq:stream-offset-spec"),
                                 b"\x00" + symbol("rabbitmq:stream-offset-spec") + string("first")])


# A FLOW of the session, which the broker must answer.
ECHO = frame(described(FLOW, uint(0), uint(MANY), uint(0), uint(MANY), NULL, NULL, NULL, NULL, NULL, TRUE))


def frame091(kind, channel, body):
    """Returns a frame of AMQP 0.9.1."""
    return struct.pack(">BHI", kind, channel, len(body)) + body + b"\xce"


def method(channel, class_id, method_id, arguments=b""):
    return frame091(1, channel, struct.pack(">HH", class_id, method_id) + arguments)


def short(text):
    return bytes([len(text)]) + text.encode()


def publish091(channel, queue, payload, mandatory=False):
    """Returns a message of AMQP 0.9.1 to a queue, in as many frames as it needs."""
    parts = [payload[at:at + 100_000] for at in range(0, len(payload), 100_000)]
    return (method(channel, 60, 40, b"\0\0" + short("") + short(queue) + (b"\1" if mandatory else b"\0"))
            + frame091(2, channel, struct.pack(">HHQH", 60, 0, len(payload), 0))
            + b"".join(frame091(3, channel, part) for part in parts))


def route091(channel, exchange, key, headers):
    """Returns an empty message of AMQP 0.9.1 to an exchange, with these headers: texts, or lists of texts."""
    def field(value):
        if isinstance(value, str):
            return b"S" + struct.pack(">I", len(value)) + value.encode()
        items = b"".join(map(field, value))
        return b"A" + struct.pack(">I", len(items)) + items
    entries = b"".join(short(name) + field(value) for name, value in headers.items())
    table = struct.pack(">I", len(entries)) + entries
    return (method(channel, 60, 40, b"\0\0" + short(exchange) + short(key) + b"\0")
            + frame091(2, channel, struct.pack(">HHQH", 60, 0, 0, 1 << 13) + table))


def get091(channel, queue):
    """Asks for one message of a queue, which is settled as it is sent."""
    return method(channel, 60, 70, b"\0\0" + short(queue) + b"\1")


def consume091(channel, queue, argument=b"", tag=""):
    """Consumes from a queue, with an argument of this value. Deliveries are settled as they are sent."""
    entry = short("x") + b"S" + struct.pack(">I", len(argument)) + argument if argument else b""
    table = struct.pack(">I", len(entry)) + entry
    return method(channel, 60, 20, b"\0\0" + short(queue) + short(tag) + b"\2" + table)


def attach(name, handle, address, channel=0):
    """Returns an ATTACH of a link on which the client sends."""
    return frame(described(ATTACH, string(name), uint(handle), FALSE, NULL, NULL, described(0x28, NULL),
                           described(0x29, string(address)), NULL, FALSE, uint(0)), channel)


def connect(port, receive_buffer=None):
    opened = socket.socket()
    if receive_buffer:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    opened.settimeout(60)
    opened.connect(("127.0.0.1", port))
    return opened


class Client091:
    """One connection of AMQP 0.9.1. It sends only what a test tells it to send."""

    def __init__(self, port, receive_buffer=None):
        self.socket = connect(port, receive_buffer)
        self.buffer = b""
        self.socket.sendall(b"AMQP\0\0\x09\x01")
        self.wait_for(10, 10)
        login = b"\0guest\0guest"
        self.socket.sendall(method(0, 10, 11, b"\0\0\0\0" + short("PLAIN") + struct.pack(">I", len(login)) + login
                                   + short("en_US")))
        self.wait_for(10, 30)
        self.socket.sendall(method(0, 10, 31, struct.pack(">HIH", 0, 131072, 0)) + method(0, 10, 40, short("/") + b"\0\0"))
        self.wait_for(10, 41)

    def wait_for(self, class_id, method_id):
        """Reads until this method arrives."""
        found = None
        while found != (class_id, method_id):
            while len(self.buffer) < 8 or len(self.buffer) < 8 + struct.unpack(">I", self.buffer[3:7])[0]:
                got = self.socket.recv(1 << 16)
                if not got:
                    raise EOFError("the broker closed the connection")
                self.buffer += got
            size = 8 + struct.unpack(">I", self.buffer[3:7])[0]
            found = struct.unpack(">HH", self.buffer[7:11]) if self.buffer[0] == 1 else None
            self.buffer = self.buffer[size:]

    def open_channel(self, channel):
        self.socket.sendall(method(channel, 20, 10, b"\0"))
        self.wait_for(20, 11)

    def close(self):
        self.socket.close()


class Client:
    """One connection with one session. It sends only what a test tells it to send."""

    def __init__(self, port, receive_buffer=None, over_tls=False, user="guest", password="guest", vhost=None):
        self.socket = connect(port, receive_buffer)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if over_tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            self.socket = context.wrap_socket(self.socket)
        self.buffer, self.links = b"", 0
        login = described(SASL_INIT, symbol("PLAIN"), binary(f"\0{user}\0{password}".encode()), NULL)
        self.socket.sendall(b"AMQP\x03\x01\x00\x00" + frame(login, kind=1) + b"AMQP\x00\x01\x00\x00"
                            + frame(described(OPEN, string("hostile"), string(f"vhost:{vhost}") if vhost else NULL))
                            + frame(described(BEGIN, NULL, uint(0), uint(MANY), uint(MANY))))
        self.wait_for(BEGIN)

    def begin(self, channel):
        """Begins another session. Its BEGIN is not waited for."""
        self.socket.sendall(frame(described(BEGIN, NULL, uint(0), uint(MANY), uint(MANY)), channel))

    def close(self):
        try:
            # Also wakes a thread that reads the socket.
            self.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # The broker has closed it first.
        self.socket.close()

    def read(self):
        """Returns the next frame: its performative's code and its bytes."""
        while True:
            if self.buffer.startswith(b"AMQP"):
                self.buffer = self.buffer[8:]
            size = struct.unpack(">I", self.buffer[:4])[0] if len(self.buffer) >= 4 else 8
            if len(self.buffer) < size or len(self.buffer) < 4:
                got = self.socket.recv(1 << 16)
                if not got:
                    raise EOFError("the broker closed the connection")
                self.buffer += got
                continue
            whole, self.buffer = self.buffer[:size], self.buffer[size:]
            if size > 8 and whole[5] == 0:
                return whole[10], whole

    def wait_for(self, code):
        while True:
            found, whole = self.read()
            if found == code:
                return whole
            if found in (DETACH, END, CLOSE):
                raise ConnectionError(f"instead of {code:#x}: {whole!r}")

    def wait_for_any(self, code):
        """Like `wait_for`, but skips other frames."""
        while self.read()[0] != code:
            pass

    def read_on(self):
        """Reads until the connection ends."""
        try:
            while self.socket.recv(1 << 16):
                pass
        except OSError:
            pass

    def sender(self, address):
        handle = self.links
        self.links += 1
        self.socket.sendall(attach(f"link-{handle}", handle, address))
        return handle

    def receiver(self, address, credit=0, filters=None):
        handle = self.links
        self.links += 1
        source = [string(address)] + ([NULL] * 6 + [filters] if filters else [])
        self.socket.sendall(frame(described(ATTACH, string(f"link-{handle}"), uint(handle), TRUE, NULL, NULL,
                                            described(0x28, *source), described(0x29, NULL))))
        if credit:
            self.grant(handle, 0, credit)
        return handle

    def grant(self, handle, delivery_count, credit):
        self.socket.sendall(frame(described(FLOW, uint(0), uint(MANY), uint(0), uint(MANY), uint(handle),
                                            uint(delivery_count), uint(credit))))

    def detach(self, handle):
        self.socket.sendall(frame(described(DETACH, uint(handle), TRUE)))

    def transfer(self, handle, number, payload, begins=True, more=False, settled=False):
        flag = TRUE if more else FALSE
        if begins:
            fields = [uint(handle), uint(number), binary(struct.pack(">I", number)), uint(0), TRUE if settled else FALSE, flag]
        else:
            fields = [uint(handle), NULL, NULL, NULL, NULL, flag]
        self.socket.sendall(frame(described(TRANSFER, *fields) + payload))

    def send(self, handle, number, payload, settled=False, frame_size=30_000):
        """Sends a whole message, in as many frames as it needs."""
        message = data(payload)
        for at in range(0, len(message), frame_size):
            part = message[at:at + frame_size]
            self.transfer(handle, number, part, at == 0, at + frame_size < len(message), settled)

    def send_all(self, handle, count, payload):
        """Sends this many settled messages, as credit allows."""
        limit = 0
        for number in range(count):
            while number >= limit:
                fields = list_of_uints(self.wait_for(FLOW)[11:])
                if len(fields) > 6 and fields[4] == handle:
                    limit = fields[5] + fields[6]
            self.send(handle, number, payload, settled=True)

    def annotate(self, first, last, pairs):
        """Returns messages with annotations, which are pairs of a key and a text."""
        annotations = compound(0xD1, [item for key, text in pairs for item in (symbol(key), string(text))])
        modified = described(0x27, NULL, NULL, annotations)
        self.socket.sendall(frame(described(DISPOSITION, TRUE, uint(first), uint(last), TRUE, modified)))

    def accept(self, first, last):
        """Accepts messages."""
        self.socket.sendall(frame(described(DISPOSITION, TRUE, uint(first), uint(last), TRUE, described(0x24))))
