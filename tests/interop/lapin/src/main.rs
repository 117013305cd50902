//! What programs with lapin do, the usual client of AMQP 0.9.1 in Rust.

mod client;

use std::collections::BTreeMap;
use std::time::Duration;

use client::{
    Checked, Client, PATIENCE, Relay, bodies, body, confirming, expect, next, nothing, queue_type, refused,
};
use futures_lite::StreamExt;
use lapin::options::{
    BasicAckOptions, BasicCancelOptions, BasicConsumeOptions, BasicGetOptions, BasicNackOptions,
    BasicPublishOptions, BasicRecoverOptions, BasicRejectOptions, ExchangeBindOptions,
    ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions, QueueDeleteOptions, QueuePurgeOptions,
};
use lapin::types::{AMQPValue, DecimalValue, FieldArray, FieldTable};
use lapin::{BasicProperties, Confirmation, Connection, ConnectionProperties, ExchangeKind};

/// Why a check does not apply.
type Skipped = Option<&'static str>;

async fn connect_with_plain() -> Checked<Skipped> {
    let client = Client::connect().await?;
    expect(client.connection.status().connected(), true)?;
    client.close().await?;
    Ok(None)
}

async fn connect_refused() -> Checked<Skipped> {
    for (login, rest, words) in [
        ("guest:wrong", "", "ACCESS_REFUSED"),
        ("nobody:guest", "", "ACCESS_REFUSED"),
        ("guest:guest", "/nowhere", "vhost nowhere not found"),
    ] {
        let url = format!("amqp://{login}@{}{rest}", std::env::var("SLUICE_AMQP")?);
        let outcome = Connection::connect(&url, ConnectionProperties::default()).await;
        refused(outcome.map(|_| ()), words)?;
    }
    Ok(None)
}

async fn mechanisms_and_frame_sizes() -> Checked<Skipped> {
    let is_rabbitmq = std::env::var("SLUICE_AGAINST").is_ok_and(|name| name == "rabbitmq");
    // RabbitMQ wants frames of at least 8,192 bytes.
    let frames = if is_rabbitmq { 8192 } else { 4096 };
    for rest in ["/%2f?auth_mechanism=amqplain".to_string(), format!("/%2f?frame_max={frames}&heartbeat=10")]
    {
        let client = Client::connect_with("guest:guest", &rest, ConnectionProperties::default()).await?;
        client.queue("sizes", &[]).await?;
        for size in [0, frames - 9, frames - 8, frames - 7, 500_000] {
            expect(client.publish("", "sizes", &"x".repeat(size)).await?, true)?;
            expect(client.get("sizes").await?.data.len(), size)?;
        }
        client.close().await?;
    }
    Ok(None)
}

async fn tls_with_a_password() -> Checked<Skipped> {
    let Some(client) = Client::over_tls(false).await? else { return Ok(Some("the broker has no TLS")) };
    client.on_queue("over-tls", &["x".repeat(300_000).as_str()]).await?;
    expect(client.get("over-tls").await?.data.len(), 300_000)?;
    client.close().await?;
    Ok(None)
}

async fn tls_with_a_certificate() -> Checked<Skipped> {
    let Some(client) = Client::over_tls(true).await? else { return Ok(Some("the broker has no TLS")) };
    client.on_queue("of-a-certificate", &["a"]).await?;
    client.close().await?;
    Ok(None)
}

async fn headers_of_every_type() -> Checked<Skipped> {
    let client = Client::connect().await?;
    client.queue("typed", &[]).await?;
    let text = |text: &str| AMQPValue::LongString(text.into());
    let table = |pairs: &[(&str, AMQPValue)]| {
        let pairs = pairs.iter().map(|(name, value)| ((*name).into(), value.clone()));
        FieldTable::from(pairs.collect::<BTreeMap<_, _>>())
    };
    let headers = table(&[
        ("bool", AMQPValue::Boolean(true)),
        ("i8", AMQPValue::ShortShortInt(-8)),
        ("u8", AMQPValue::ShortShortUInt(200)),
        ("i16", AMQPValue::ShortInt(-1600)),
        ("u16", AMQPValue::ShortUInt(60_000)),
        ("i32", AMQPValue::LongInt(-320_000)),
        ("u32", AMQPValue::LongUInt(4_000_000_000)),
        ("i64", AMQPValue::LongLongInt(i64::MIN)),
        ("float", AMQPValue::Float(0.1)),
        ("double", AMQPValue::Double(0.1)),
        ("decimal", AMQPValue::DecimalValue(DecimalValue { scale: 2, value: 314 })),
        ("text", text("grüße")),
        ("time", AMQPValue::Timestamp(1_700_000_000)),
        ("bytes", AMQPValue::ByteArray(vec![0, 255].into())),
        ("nothing", AMQPValue::Void),
        (
            "list",
            AMQPValue::FieldArray(FieldArray::from(vec![
                AMQPValue::LongInt(1),
                AMQPValue::Void,
                text("two"),
            ])),
        ),
        ("table", AMQPValue::FieldTable(table(&[("a", AMQPValue::FieldTable(table(&[("b", text("c"))])))]))),
    ]);
    let sent = BasicProperties::default()
        .with_headers(headers)
        .with_content_type("a/b".into())
        .with_content_encoding("gzip".into())
        .with_delivery_mode(2)
        .with_priority(3)
        .with_correlation_id("c".into())
        .with_reply_to("r".into())
        .with_expiration("60000".into())
        .with_message_id("m".into())
        .with_timestamp(1_700_000_000)
        .with_type("t".into())
        .with_user_id("guest".into())
        .with_app_id("a".into())
        .with_cluster_id("k".into());
    client.send("", "typed", BasicPublishOptions::default(), "body", sent.clone()).await?;
    let mut got = client.get("typed").await?;
    let counts = ["x-delivery-count", "x-acquired-count"]; // of quorum queues
    let headers = got.properties.headers().clone().unwrap_or_default();
    let headers: BTreeMap<_, _> = headers
        .inner()
        .iter()
        .filter(|(name, _)| !counts.contains(&name.as_str()))
        .map(|(n, v)| (n.clone(), v.clone()))
        .collect();
    got.properties = got.properties.with_headers(headers.into());
    expect(got.properties, sent)?;
    client.close().await?;
    Ok(None)
}

async fn confirms_as_futures() -> Checked<Skipped> {
    let client = Client::connect().await?;
    client.queue("in-flight", &[]).await?;
    let mut waiting = Vec::new();
    for number in 0..2000 {
        let payload = format!("{number}");
        let options = BasicPublishOptions::default();
        let properties = BasicProperties::default().with_delivery_mode(2);
        waiting.push(
            client
                .channel
                .basic_publish("".into(), "in-flight".into(), options, payload.as_bytes(), properties)
                .await?,
        );
    }
    for confirmation in waiting {
        expect(confirmation.await?, Confirmation::Ack(None))?;
    }
    let mut consumer = client.consume("in-flight", 100, &[]).await?;
    for number in 0..2000 {
        let delivery = next(&mut consumer).await?;
        expect(body(&delivery), number.to_string())?;
        if number % 50 == 49 {
            delivery.acker.ack(BasicAckOptions { multiple: true }).await?;
        }
    }
    nothing(&mut consumer).await?;
    client.close().await?;
    Ok(None)
}

async fn returned_with_the_confirm() -> Checked<Skipped> {
    let client = Client::connect().await?;
    let options = BasicPublishOptions { mandatory: true, ..Default::default() };
    let confirmation = client.send("amq.direct", "nobody", options, "a", BasicProperties::default()).await?;
    let Confirmation::Ack(Some(returned)) = confirmation else {
        return Err(format!("found {confirmation:?}").into());
    };
    expect((returned.reply_code, returned.reply_text.as_str()), (312, "NO_ROUTE"))?;
    expect((returned.delivery.routing_key.as_str(), body(&returned.delivery).as_str()), ("nobody", "a"))?;
    client.close().await?;
    Ok(None)
}

async fn a_full_queue_nacks() -> Checked<Skipped> {
    let client = Client::connect().await?;
    let overflow = ("x-overflow", AMQPValue::LongString("reject-publish".into()));
    client.queue("full", &[("x-max-length", AMQPValue::LongInt(3)), overflow]).await?;
    let mut accepted = 0;
    while accepted < 50 && client.publish("", "full", "a").await? {
        accepted += 1;
    }
    let is_right = if queue_type() == "quorum" { (3..50).contains(&accepted) } else { accepted == 3 };
    expect((is_right, accepted), (true, accepted))?;
    client.close().await?;
    Ok(None)
}

async fn prefetch_and_settlement() -> Checked<Skipped> {
    let client = Client::connect().await?;
    client.on_queue("settled", &["a", "b", "c", "d"]).await?;
    let mut consumer = client.consume("settled", 2, &[]).await?;
    let (first, second) = (next(&mut consumer).await?, next(&mut consumer).await?);
    nothing(&mut consumer).await?;
    first.acker.nack(BasicNackOptions { requeue: true, ..Default::default() }).await?;
    let again = next(&mut consumer).await?;
    expect((body(&again).as_str(), again.redelivered), ("a", true))?;
    second.acker.reject(BasicRejectOptions { requeue: false }).await?;
    expect(bodies(&mut consumer, 1).await?, ["c"])?;
    again.acker.ack(BasicAckOptions { multiple: false }).await?;
    expect(bodies(&mut consumer, 1).await?, ["d"])?;
    client.channel.basic_recover(BasicRecoverOptions { requeue: true }).await?;
    let (first, second) = (next(&mut consumer).await?, next(&mut consumer).await?);
    let mut found = [body(&first), body(&second)];
    found.sort();
    expect((found, first.redelivered, second.redelivered), (["c".to_string(), "d".to_string()], true, true))?;
    client.close().await?;
    Ok(None)
}

async fn errors_close_the_channel() -> Checked<Skipped> {
    let client = Client::connect().await?;
    client.on_queue("healthy", &["a"]).await?;
    let broken = confirming(&client.connection).await?;
    let got = broken.basic_get("absent".into(), BasicGetOptions::default()).await;
    refused(got, "no queue 'absent' in vhost '/'")?;
    let broken = confirming(&client.connection).await?;
    let passive = QueueDeclareOptions::durable().passive();
    let declared = broken.queue_declare("absent".into(), passive, FieldTable::default()).await;
    refused(declared, "no queue 'absent' in vhost '/'")?;
    let broken = confirming(&client.connection).await?;
    let mut arguments = FieldTable::default();
    arguments.insert("x-queue-type".into(), AMQPValue::LongString(queue_type().into()));
    arguments.insert("x-message-ttl".into(), AMQPValue::LongInt(5));
    let declared = broken.queue_declare("healthy".into(), QueueDeclareOptions::durable(), arguments).await;
    refused(declared, "inequivalent arg 'x-message-ttl' for queue 'healthy'")?;
    expect(body(&client.get("healthy").await?), "a")?;
    client.close().await?;
    Ok(None)
}

async fn consumers_end() -> Checked<Skipped> {
    let client = Client::connect().await?;
    client.on_queue("doomed", &["a"]).await?;
    let mut consumer = client.consume("doomed", 5, &[]).await?;
    next(&mut consumer).await?.acker.ack(BasicAckOptions::default()).await?;
    let other = confirming(&client.connection).await?;
    other.queue_delete("doomed".into(), QueueDeleteOptions::default()).await?;
    let end = tokio::time::timeout(PATIENCE, consumer.next()).await?;
    expect(end.is_none(), true)?;

    client.on_queue("left", &["a", "b"]).await?;
    let mut consumer = client.consume("left", 1, &[]).await?;
    let delivery = next(&mut consumer).await?;
    client.channel.basic_cancel(consumer.tag(), BasicCancelOptions::default()).await?;
    delivery.acker.ack(BasicAckOptions::default()).await?;
    expect(body(&client.get("left").await?), "b")?;
    client.close().await?;
    Ok(None)
}

async fn exchanges_and_bindings() -> Checked<Skipped> {
    let client = Client::connect().await?;
    let channel = &client.channel;
    client.queue("routed", &[]).await?;
    let durable = ExchangeDeclareOptions { durable: true, ..Default::default() };
    for (name, kind) in [("in", ExchangeKind::Topic), ("out", ExchangeKind::Headers)] {
        channel.exchange_declare(name.into(), kind, durable, FieldTable::default()).await?;
    }
    let none = FieldTable::default();
    channel
        .exchange_bind("out".into(), "in".into(), "a.*".into(), ExchangeBindOptions::default(), none)
        .await?;
    let mut arguments = FieldTable::default();
    arguments.insert("x-match".into(), AMQPValue::LongString("any".into()));
    arguments.insert("size".into(), AMQPValue::LongInt(5));
    let options = QueueBindOptions::default();
    channel.queue_bind("routed".into(), "out".into(), "".into(), options, arguments).await?;
    for (key, size) in [("a.b", 5), ("a.b", 6), ("a", 5)] {
        let mut headers = FieldTable::default();
        headers.insert("size".into(), AMQPValue::LongInt(size));
        let properties = BasicProperties::default().with_headers(headers);
        client.send("in", key, BasicPublishOptions::default(), &format!("{key} {size}"), properties).await?;
    }
    expect(body(&client.get("routed").await?), "a.b 5")?;
    expect(channel.queue_purge("routed".into(), QueuePurgeOptions::default()).await?, 0)?;
    client.close().await?;
    Ok(None)
}

async fn requests_and_replies() -> Checked<Skipped> {
    let (server, asking) = (Client::connect().await?, Client::connect().await?);
    server.queue("questions", &[]).await?;
    let pseudo = "amq.rabbitmq.reply-to";
    let options = BasicConsumeOptions { no_ack: true, ..Default::default() };
    let mut answers =
        asking.channel.basic_consume(pseudo.into(), "".into(), options, FieldTable::default()).await?;
    let properties = BasicProperties::default().with_reply_to(pseudo.into()).with_correlation_id("7".into());
    asking.send("", "questions", BasicPublishOptions::default(), "why", properties).await?;
    let question = server.get("questions").await?;
    let address = question.properties.reply_to().clone().ok_or("no reply address")?;
    let id = question.properties.correlation_id().clone().ok_or("no correlation id")?;
    let properties = BasicProperties::default().with_correlation_id(id);
    server.send("", address.as_str(), BasicPublishOptions::default(), "because", properties).await?;
    let answer = next(&mut answers).await?;
    expect(
        (body(&answer).as_str(), answer.properties.correlation_id().clone()),
        ("because", Some("7".into())),
    )?;
    server.close().await?;
    asking.close().await?;
    Ok(None)
}

async fn streams() -> Checked<Skipped> {
    let client = Client::connect().await?;
    client.queue("stream", &[("x-queue-type", AMQPValue::LongString("stream".into()))]).await?;
    for text in ["a", "b", "c"] {
        expect(client.publish("", "stream", text).await?, true)?;
    }
    let mut consumer = client.consume("stream", 1, &[("x-stream-offset", AMQPValue::LongLongInt(1))]).await?;
    for (offset, text) in [(1, "b"), (2, "c")] {
        let delivery = next(&mut consumer).await?;
        let headers = delivery.properties.headers().clone().unwrap_or_default();
        expect(headers.inner().get("x-stream-offset"), Some(&AMQPValue::LongLongInt(offset)))?;
        expect(body(&delivery), text)?;
        delivery.acker.ack(BasicAckOptions::default()).await?;
    }
    client.close().await?;
    Ok(None)
}

async fn transactions() -> Checked<Skipped> {
    let client = Client::connect().await?;
    client.on_queue("in-transaction", &[]).await?;
    let tx = client.connection.create_channel().await?;
    tx.tx_select().await?;
    for text in ["lost", "kept"] {
        let options = BasicPublishOptions::default();
        let properties = BasicProperties::default();
        tx.basic_publish("".into(), "in-transaction".into(), options, text.as_bytes(), properties)
            .await?
            .await?;
        if text == "lost" {
            tx.tx_rollback().await?;
        }
    }
    tx.tx_commit().await?;
    expect(body(&client.get("in-transaction").await?), "kept")?;
    client.close().await?;
    Ok(None)
}

async fn a_new_secret() -> Checked<Skipped> {
    let client = Client::connect().await?;
    client.connection.update_secret("guest".into(), "it is due".into()).await?;
    client.on_queue("after-the-secret", &["a"]).await?;
    client.close().await?;
    Ok(None)
}

/// The library connects anew, declares again what the program declared, and consumes again.
async fn a_broken_connection_is_recovered() -> Checked<Skipped> {
    let relay = Relay::start().await?;
    let options = ConnectionProperties::default().enable_auto_recover();
    let url = format!("amqp://guest:guest@{}", relay.address);
    let client = Client::of(Connection::connect(&url, options).await?).await?;
    client.on_queue("recovered", &["a"]).await?;
    client
        .channel
        .queue_declare("own".into(), QueueDeclareOptions::exclusive(), FieldTable::default())
        .await?;
    let mut consumer = client.consume("recovered", 1, &[]).await?;
    expect(body(&next(&mut consumer).await?), "a")?;
    relay.cut();
    let delivery = loop {
        match tokio::time::timeout(PATIENCE, consumer.next()).await?.ok_or("the consumer has ended")? {
            Ok(delivery) => break delivery,
            Err(error) => client.channel.wait_for_recovery(error).await?,
        }
    };
    expect((body(&delivery).as_str(), delivery.redelivered), ("a", true))?;
    delivery.acker.ack(BasicAckOptions::default()).await?;
    expect(client.publish("", "own", "b").await?, true)?;
    expect(body(&client.get("own").await?), "b")?;
    client.close().await?;
    Ok(None)
}

async fn quiet_connections_stay() -> Checked<Skipped> {
    let client =
        Client::connect_with("guest:guest", "/%2f?heartbeat=1", ConnectionProperties::default()).await?;
    tokio::time::sleep(Duration::from_millis(3500)).await;
    client.on_queue("after-the-quiet", &["a"]).await?;
    client.close().await?;
    Ok(None)
}

macro_rules! checks {
    ($($name:ident),* $(,)?) => {
        [$((stringify!($name), (|| Box::pin($name()) as _) as Run)),*]
    };
}

type Run = fn() -> std::pin::Pin<Box<dyn Future<Output = Checked<Skipped>>>>;

/// Runs every check, or those named on the command line.
#[tokio::main]
async fn main() {
    let chosen: Vec<String> = std::env::args().skip(1).collect();
    let (mut passed, mut failed) = (0, 0);
    for (name, check) in checks![
        connect_with_plain,
        connect_refused,
        mechanisms_and_frame_sizes,
        tls_with_a_password,
        tls_with_a_certificate,
        headers_of_every_type,
        confirms_as_futures,
        returned_with_the_confirm,
        a_full_queue_nacks,
        prefetch_and_settlement,
        errors_close_the_channel,
        consumers_end,
        exchanges_and_bindings,
        requests_and_replies,
        streams,
        transactions,
        a_new_secret,
        a_broken_connection_is_recovered,
        quiet_connections_stay,
    ] {
        if !chosen.is_empty() && !chosen.iter().any(|c| c == name) {
            continue;
        }
        match tokio::time::timeout(PATIENCE, check()).await {
            Ok(Ok(None)) => {
                passed += 1;
                println!("ok   {name}");
                continue;
            }
            Ok(Ok(Some(reason))) => {
                println!("skip {name} {reason}");
                continue;
            }
            Ok(Err(error)) => println!("FAIL {name}: {error}"),
            Err(_) => println!("FAIL {name}: timed out"),
        }
        failed += 1;
    }
    println!("lapin: {passed} passed, {failed} failed");
    std::process::exit(i32::from(failed > 0));
}
