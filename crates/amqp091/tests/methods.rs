//! Every method is the same after it is written and read again.

use amqp091::*;
use bytes::BytesMut;
use proptest::prelude::*;

/// Values for the arguments of a method, taken in turns.
#[derive(Debug)]
struct Pool {
    numbers: Vec<u64>,
    texts: Vec<String>,
    octets: Vec<Vec<u8>>,
    /// Encoded tables.
    tables: Vec<Vec<u8>>,
}

struct Draw<'p> {
    pool: &'p Pool,
    next: usize,
}

impl<'p> Draw<'p> {
    fn take<T>(&mut self, of: fn(&'p Pool) -> &'p Vec<T>) -> &'p T {
        let of = of(self.pool);
        self.next += 1;
        &of[self.next % of.len()]
    }
}

trait Drawn<'p> {
    fn drawn(draw: &mut Draw<'p>) -> Self;
}

macro_rules! number {
    ($($kind:ty),*) => {
        $(impl Drawn<'_> for $kind {
            fn drawn(draw: &mut Draw<'_>) -> Self {
                *draw.take(|pool| &pool.numbers) as $kind
            }
        })*
    };
}

number!(u8, u16, u32, u64);

impl Drawn<'_> for bool {
    fn drawn(draw: &mut Draw<'_>) -> Self {
        draw.take(|pool| &pool.numbers) % 2 == 1
    }
}

impl<'p> Drawn<'p> for &'p str {
    fn drawn(draw: &mut Draw<'p>) -> Self {
        draw.take(|pool| &pool.texts).as_str()
    }
}

impl<'p> Drawn<'p> for &'p [u8] {
    fn drawn(draw: &mut Draw<'p>) -> Self {
        draw.take(|pool| &pool.octets).as_slice()
    }
}

impl<'p> Drawn<'p> for Secret<'p> {
    fn drawn(draw: &mut Draw<'p>) -> Self {
        Secret::new(draw.take::<Vec<u8>>(|pool| &pool.octets))
    }
}

impl<'p> Drawn<'p> for Table<'p> {
    fn drawn(draw: &mut Draw<'p>) -> Self {
        Table::from_entries(draw.take::<Vec<u8>>(|pool| &pool.tables))
    }
}

/// Defines `draw_all`, which returns one of each method. The compiler checks that none is missing.
macro_rules! methods {
    ($($name:ident $({ $($field:ident),* })?)*) => {
        fn draw_all<'p>(draw: &mut Draw<'p>) -> Vec<Method<'p>> {
            fn is_listed(method: &Method<'_>) {
                match method { $(Method::$name(_) => {})* }
            }
            let all = vec![$(Method::from($name $({ $($field: Drawn::drawn(draw)),* })?)),*];
            all.iter().for_each(is_listed);
            all
        }
    };
}

methods! {
    ConnectionStart { version_major, version_minor, server_properties, mechanisms, locales }
    ConnectionStartOk { client_properties, mechanism, response, locale }
    ConnectionSecure { challenge }
    ConnectionSecureOk { response }
    ConnectionTune { channel_max, frame_max, heartbeat }
    ConnectionTuneOk { channel_max, frame_max, heartbeat }
    ConnectionOpen { virtual_host }
    ConnectionOpenOk
    ConnectionClose { reply_code, reply_text, class_id, method_id }
    ConnectionCloseOk
    ConnectionBlocked { reason }
    ConnectionUnblocked
    ConnectionUpdateSecret { new_secret, reason }
    ConnectionUpdateSecretOk
    ChannelOpen
    ChannelOpenOk
    ChannelFlow { active }
    ChannelFlowOk { active }
    ChannelClose { reply_code, reply_text, class_id, method_id }
    ChannelCloseOk
    AccessRequest { realm, exclusive, passive, active, write, read }
    AccessRequestOk { ticket }
    ExchangeDeclare { exchange, kind, passive, durable, auto_delete, internal, nowait, arguments }
    ExchangeDeclareOk
    ExchangeDelete { exchange, if_unused, nowait }
    ExchangeDeleteOk
    ExchangeBind { destination, source, routing_key, nowait, arguments }
    ExchangeBindOk
    ExchangeUnbind { destination, source, routing_key, nowait, arguments }
    ExchangeUnbindOk
    QueueDeclare { queue, passive, durable, exclusive, auto_delete, nowait, arguments }
    QueueDeclareOk { queue, message_count, consumer_count }
    QueueBind { queue, exchange, routing_key, nowait, arguments }
    QueueBindOk
    QueuePurge { queue, nowait }
    QueuePurgeOk { message_count }
    QueueDelete { queue, if_unused, if_empty, nowait }
    QueueDeleteOk { message_count }
    QueueUnbind { queue, exchange, routing_key, arguments }
    QueueUnbindOk
    BasicQos { prefetch_size, prefetch_count, global }
    BasicQosOk
    BasicConsume { queue, consumer_tag, no_local, no_ack, exclusive, nowait, arguments }
    BasicConsumeOk { consumer_tag }
    BasicCancel { consumer_tag, nowait }
    BasicCancelOk { consumer_tag }
    BasicPublish { exchange, routing_key, mandatory, immediate }
    BasicReturn { reply_code, reply_text, exchange, routing_key }
    BasicDeliver { consumer_tag, delivery_tag, redelivered, exchange, routing_key }
    BasicGet { queue, no_ack }
    BasicGetOk { delivery_tag, redelivered, exchange, routing_key, message_count }
    BasicGetEmpty
    BasicAck { delivery_tag, multiple }
    BasicReject { delivery_tag, requeue }
    BasicRecoverAsync { requeue }
    BasicRecover { requeue }
    BasicRecoverOk
    BasicNack { delivery_tag, multiple, requeue }
    ConfirmSelect { nowait }
    ConfirmSelectOk
    TxSelect
    TxSelectOk
    TxCommit
    TxCommitOk
    TxRollback
    TxRollbackOk
}

/// Returns the class and the method that a payload begins with, and the arguments.
fn split(payload: &[u8]) -> (u16, u16, &[u8]) {
    let ([c0, c1, m0, m1], arguments) = payload.split_first_chunk().expect("class and method");
    (u16::from_be_bytes([*c0, *c1]), u16::from_be_bytes([*m0, *m1]), arguments)
}

fn pool() -> impl Strategy<Value = Pool> {
    let texts = proptest::collection::vec("\\PC{0,60}", 1..5);
    let octets = proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..300), 1..4);
    let entry = ("[a-z]{1,9}", any::<u32>()).prop_map(|(name, value)| {
        [&[name.len() as u8][..], name.as_bytes(), b"i", &value.to_be_bytes()].concat()
    });
    let table = proptest::collection::vec(entry, 0..4).prop_map(|entries| entries.concat());
    let tables = proptest::collection::vec(table, 1..3);
    let numbers = proptest::collection::vec(any::<u64>(), 1..7);
    (numbers, texts, octets, tables).prop_map(|(numbers, texts, octets, tables)| Pool {
        numbers,
        texts,
        octets,
        tables,
    })
}

proptest! {
    #[test]
    fn every_method_is_read_as_it_was_written(pool in pool()) {
        for method in draw_all(&mut Draw { pool: &pool, next: 0 }) {
            let mut out = BytesMut::new();
            method.put(&mut out);
            let (class, number, arguments) = split(&out);
            prop_assert_eq!((class, number), (method.class_id(), method.method_id()));
            prop_assert_eq!(Method::parse(class, number, arguments), Ok(method));
            // No start of the arguments is a whole method, and neither is anything longer.
            for len in 0..arguments.len() {
                prop_assert!(Method::parse(class, number, &arguments[..len]).is_err(), "{} of {len}", method.name());
            }
            out.extend_from_slice(&[0]);
            prop_assert!(Method::parse(class, number, split(&out).2).is_err(), "{}", method.name());
        }
    }

    #[test]
    fn no_arguments_make_the_reader_panic(arguments in proptest::collection::vec(any::<u8>(), 0..80)) {
        let pool = Pool { numbers: vec![0], texts: vec![String::new()], octets: vec![vec![]], tables: vec![vec![]] };
        for method in draw_all(&mut Draw { pool: &pool, next: 0 }) {
            let Ok(parsed) = Method::parse(method.class_id(), method.method_id(), &arguments) else { continue };
            let mut out = BytesMut::new();
            parsed.put(&mut out);
            prop_assert_eq!(Method::parse(method.class_id(), method.method_id(), split(&out).2), Ok(parsed));
        }
    }
}

/// The layout of a method with most types of arguments, octet by octet.
#[test]
fn a_method_has_the_layout_of_the_specification() {
    let declare = QueueDeclare {
        queue: "tasks",
        passive: false,
        durable: true,
        exclusive: false,
        auto_delete: true,
        nowait: true,
        arguments: Table::from_entries(b"\x01ai\x00\x00\x00\x07"),
    };
    let mut out = BytesMut::new();
    declare.put(&mut out);
    assert_eq!(out, &b"\x00\x32\x00\x0a\x00\x00\x05tasks\x1a\x00\x00\x00\x07\x01ai\x00\x00\x00\x07"[..]);

    // The ticket and bits that have no meaning are accepted, and not kept.
    let (arguments, bits_at) = (&mut out[4..].to_vec(), 8);
    arguments[1] = 101;
    arguments[bits_at] |= 0xe0;
    assert_eq!(Method::parse(50, 10, arguments), Ok(Method::QueueDeclare(declare)));
}

#[test]
fn a_short_string_is_cut_between_characters() {
    let mut out = BytesMut::new();
    let name = format!("x{}", "ä".repeat(130));
    BasicCancelOk { consumer_tag: &name }.put(&mut out);
    let cut = BasicCancelOk { consumer_tag: &name[..255] };
    assert_eq!(Method::parse(60, 31, &out[4..]), Ok(cut.into()));
    out.clear();
    BasicCancelOk { consumer_tag: &name[1..] }.put(&mut out);
    assert_eq!(out[4], 254);
}

#[test]
fn reply_codes_have_the_numbers_and_names_of_the_specification() {
    for (code, number, name, ends_connection) in [
        (ReplyCode::ReplySuccess, 200, "REPLY_SUCCESS", false),
        (ReplyCode::NoRoute, 312, "NO_ROUTE", false),
        (ReplyCode::ConnectionForced, 320, "CONNECTION_FORCED", true),
        (ReplyCode::PreconditionFailed, 406, "PRECONDITION_FAILED", false),
        (ReplyCode::InternalError, 541, "INTERNAL_ERROR", true),
    ] {
        assert_eq!((code.number(), code.name(), code.ends_connection()), (number, name, ends_connection));
        assert_eq!(ReplyCode::from_number(number), Some(code));
    }
    assert_eq!(ReplyCode::from_number(0), None);
}
