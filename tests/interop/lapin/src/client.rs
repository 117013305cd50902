//! A client for the checks: lapin.

use std::error::Error;
use std::fmt::Debug;
use std::time::{Duration, Instant};

use futures_lite::StreamExt;
use lapin::options::{
    BasicConsumeOptions, BasicGetOptions, BasicPublishOptions, BasicQosOptions, ConfirmSelectOptions,
    QueueDeclareOptions,
};
use lapin::tcp::{OwnedIdentity, OwnedTLSConfig};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{
    BasicProperties, Channel, Confirmation, Connection, ConnectionProperties, Consumer, Queue,
    message::Delivery,
};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

pub type Checked<T = ()> = Result<T, Box<dyn Error>>;

/// A guard against hanging, not a measure.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// The time in which a message that must not arrive would arrive.
const QUIET: Duration = Duration::from_millis(150);

/// A connection with one channel that confirms.
pub struct Client {
    pub connection: Connection,
    pub channel: Channel,
}

impl Client {
    pub async fn connect() -> Checked<Self> {
        Self::connect_with("guest:guest", "", ConnectionProperties::default()).await
    }

    /// Connects with a login and with the end of a URL.
    pub async fn connect_with(login: &str, rest: &str, options: ConnectionProperties) -> Checked<Self> {
        let url = format!("amqp://{login}@{}{rest}", std::env::var("SLUICE_AMQP")?);
        Self::of(Connection::connect(&url, options).await?).await
    }

    /// Connects with TLS. Logs in with the certificate of guest if it `is_certified`, otherwise with the password.
    /// Returns nothing if the broker has no TLS.
    pub async fn over_tls(is_certified: bool) -> Checked<Option<Self>> {
        let Some(address) = std::env::var("SLUICE_AMQPS").ok().filter(|address| !address.is_empty()) else {
            return Ok(None);
        };
        let file =
            |name| std::fs::read(format!("{}/{name}", std::env::var("SLUICE_TLS").unwrap_or_default()));
        let identity = match is_certified {
            true => Some(OwnedIdentity::PKCS8 { pem: file("client.pem")?, key: file("client.key")? }),
            false => None,
        };
        let tls = OwnedTLSConfig { identity, cert_chain: Some(String::from_utf8(file("ca.pem")?)?) };
        let (login, rest) =
            if is_certified { ("", "/%2f?auth_mechanism=external") } else { ("guest:guest@", "") };
        let url = format!("amqps://{login}{}{rest}", address.replace("127.0.0.1", "localhost"));
        let runtime = lapin::runtime::default_runtime()?;
        let connection =
            Connection::connect_with_config(&url, ConnectionProperties::default(), tls, runtime).await?;
        Ok(Some(Self::of(connection).await?))
    }

    pub async fn of(connection: Connection) -> Checked<Self> {
        let channel = confirming(&connection).await?;
        Ok(Self { connection, channel })
    }

    pub async fn close(self) -> Checked {
        Ok(self.connection.close(200, "done".into()).await?)
    }

    /// Declares a durable queue of the tested type, with these arguments, which may name another type.
    pub async fn queue(&self, name: &str, arguments: &[(&str, AMQPValue)]) -> Checked<Queue> {
        let mut all = FieldTable::default();
        all.insert("x-queue-type".into(), AMQPValue::LongString(queue_type().into()));
        for (argument, value) in arguments {
            all.insert((*argument).into(), value.clone());
        }
        Ok(self.channel.queue_declare(name.into(), QueueDeclareOptions::durable(), all).await?)
    }

    /// Declares a queue with these messages in it.
    pub async fn on_queue(&self, name: &str, bodies: &[&str]) -> Checked {
        self.queue(name, &[]).await?;
        for body in bodies {
            expect(self.publish("", name, body).await?, true)?;
        }
        Ok(())
    }

    /// Publishes a message. Returns whether the broker confirmed it.
    pub async fn publish(&self, exchange: &str, key: &str, body: &str) -> Checked<bool> {
        let options = BasicPublishOptions::default();
        let properties = BasicProperties::default().with_delivery_mode(2);
        Ok(matches!(self.send(exchange, key, options, body, properties).await?, Confirmation::Ack(None)))
    }

    pub async fn send(
        &self,
        exchange: &str,
        key: &str,
        options: BasicPublishOptions,
        body: &str,
        properties: BasicProperties,
    ) -> Checked<Confirmation> {
        let sent =
            self.channel.basic_publish(exchange.into(), key.into(), options, body.as_bytes(), properties);
        Ok(sent.await?.await?)
    }

    /// Waits until the queue has a message. It is acknowledged.
    pub async fn get(&self, queue: &str) -> Checked<Delivery> {
        let began = Instant::now();
        loop {
            if let Some(got) = self.channel.basic_get(queue.into(), BasicGetOptions { no_ack: true }).await? {
                return Ok(got.delivery);
            }
            if began.elapsed() > PATIENCE {
                return Err(format!("no message in {queue}").into());
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Consumes with a prefetch and arguments, and acknowledges by hand.
    pub async fn consume(
        &self,
        queue: &str,
        prefetch: u16,
        arguments: &[(&str, AMQPValue)],
    ) -> Checked<Consumer> {
        let mut all = FieldTable::default();
        for (argument, value) in arguments {
            all.insert((*argument).into(), value.clone());
        }
        self.channel.basic_qos(prefetch, BasicQosOptions::default()).await?;
        Ok(self.channel.basic_consume(queue.into(), "".into(), BasicConsumeOptions::default(), all).await?)
    }
}

pub async fn confirming(connection: &Connection) -> Checked<Channel> {
    let channel = connection.create_channel().await?;
    channel.confirm_select(ConfirmSelectOptions::default()).await?;
    Ok(channel)
}

pub fn queue_type() -> String {
    std::env::var("SLUICE_QUEUE_TYPE").unwrap_or_default()
}

pub async fn next(consumer: &mut Consumer) -> Checked<Delivery> {
    let next = tokio::time::timeout(PATIENCE, consumer.next()).await.map_err(|_| "nothing arrived")?;
    Ok(next.ok_or("the consumer has ended")??)
}

pub async fn bodies(consumer: &mut Consumer, count: usize) -> Checked<Vec<String>> {
    let mut found = Vec::new();
    while found.len() < count {
        found.push(body(&next(consumer).await?));
    }
    Ok(found)
}

/// Waits a short time, and expects that nothing arrives.
pub async fn nothing(consumer: &mut Consumer) -> Checked {
    match tokio::time::timeout(QUIET, consumer.next()).await {
        Err(_) => Ok(()),
        Ok(arrived) => Err(format!("{arrived:?} arrived").into()),
    }
}

pub fn body(delivery: &Delivery) -> String {
    String::from_utf8_lossy(&delivery.data).into_owned()
}

pub fn expect<T: PartialEq<U> + Debug, U: Debug>(found: T, wanted: U) -> Checked {
    if found == wanted { Ok(()) } else { Err(format!("found {found:?}, wanted {wanted:?}").into()) }
}

/// Expects an error of the broker whose text contains these words.
pub fn refused<T: Debug>(outcome: lapin::Result<T>, words: &str) -> Checked {
    match outcome {
        Err(error) if error.to_string().contains(words) => Ok(()),
        other => Err(format!("wanted {words}, got {other:?}").into()),
    }
}

/// A relay between the library and the broker, so that a check can break connections.
pub struct Relay {
    pub address: String,
    cut: watch::Sender<u32>,
}

impl Relay {
    pub async fn start() -> Checked<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?.to_string();
        let (cut, cuts) = watch::channel(0);
        let broker = std::env::var("SLUICE_AMQP")?;
        tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                let (broker, mut cuts) = (broker.clone(), cuts.clone());
                cuts.mark_unchanged();
                tokio::spawn(async move {
                    let Ok(mut far) = TcpStream::connect(broker).await else { return };
                    tokio::select! {
                        _ = tokio::io::copy_bidirectional(&mut near, &mut far) => {}
                        _ = cuts.changed() => {}
                    }
                });
            }
        });
        Ok(Self { address, cut })
    }

    /// Breaks all connections.
    pub fn cut(&self) {
        self.cut.send_modify(|count| *count += 1);
    }
}
