//! A client for the checks: fe2o3-amqp and the management API.

use std::error::Error;
use std::fmt::Debug;
use std::sync::Arc;

use fe2o3_amqp::connection::ConnectionHandle;
use fe2o3_amqp::link::delivery::Delivery;
use fe2o3_amqp::link::receiver::CreditMode;
use fe2o3_amqp::link::{ReceiverAttachError, SenderAttachError};
use fe2o3_amqp::sasl_profile::SaslProfile;
use fe2o3_amqp::session::SessionHandle;
use fe2o3_amqp::types::definitions::{AmqpError, ErrorCondition, SenderSettleMode};
use fe2o3_amqp::types::messaging::{Header, Message, Outcome, Properties, Source, Target};
use fe2o3_amqp::types::primitives::Value;
use fe2o3_amqp::{Connection, Receiver, Sender, Session};
use serde_amqp::described::Described;
use serde_amqp::descriptor::Descriptor;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

pub type Checked<T = ()> = Result<T, Box<dyn Error>>;

/// A connection with one session.
pub struct Client {
    connection: ConnectionHandle<()>,
    pub session: SessionHandle<()>,
    links: u32,
}

impl Client {
    pub async fn connect() -> Checked<Self> {
        Self::connect_with(guest("guest"), None).await
    }

    /// Connects to the virtual host that this hostname names.
    pub async fn to(hostname: &str) -> Checked<Self> {
        let builder = Connection::builder().container_id("interop").sasl_profile(guest("guest"));
        let address = format!("amqp://{}", std::env::var("SLUICE_AMQP")?);
        let mut connection = builder.hostname(hostname).open(address.as_str()).await?;
        let session = match Session::begin(&mut connection).await {
            Ok(session) => session,
            // The session only knows that the connection has ended.
            Err(_) => return Err(connection.on_close().await.err().ok_or("ended without an error")?.into()),
        };
        Ok(Self { connection, session, links: 0 })
    }

    pub async fn connect_with(sasl: SaslProfile, idle_time_out_ms: Option<u32>) -> Checked<Self> {
        let mut builder = Connection::builder().container_id("interop").sasl_profile(sasl);
        if let Some(idle) = idle_time_out_ms {
            builder = builder.idle_time_out(idle);
        }
        let mut connection =
            builder.open(format!("amqp://{}", std::env::var("SLUICE_AMQP")?).as_str()).await?;
        let session = Session::begin(&mut connection).await?;
        Ok(Self { connection, session, links: 0 })
    }

    /// Connects with TLS. Logs in with the certificate of guest if it `is_certified`, otherwise with the password.
    pub async fn over_tls(is_certified: bool) -> Checked<Self> {
        let (address, folder) = (std::env::var("SLUICE_AMQPS")?, std::env::var("SLUICE_TLS")?);
        let mut authorities = RootCertStore::empty();
        for authority in CertificateDer::pem_file_iter(format!("{folder}/ca.pem"))? {
            authorities.add(authority?)?;
        }
        let config = ClientConfig::builder().with_root_certificates(authorities);
        let config = if is_certified {
            let chain =
                CertificateDer::pem_file_iter(format!("{folder}/client.pem"))?.collect::<Result<_, _>>()?;
            config
                .with_client_auth_cert(chain, PrivateKeyDer::from_pem_file(format!("{folder}/client.key"))?)?
        } else {
            config.with_no_client_auth()
        };
        let sasl = if is_certified { SaslProfile::External } else { guest("guest") };
        let builder = Connection::builder().container_id("interop").scheme("amqps").domain("localhost").sasl_profile(sasl);
        // TLS begins at once, without a protocol header of its own [5.2.1].
        let builder = builder.alt_tls_establishment(true).rustls_connector(TlsConnector::from(Arc::new(config)));
        let mut connection = builder.open_with_stream(TcpStream::connect(&address).await?).await?;
        let session = Session::begin(&mut connection).await?;
        Ok(Self { connection, session, links: 0 })
    }

    pub async fn close(mut self) -> Checked {
        self.session.end().await?;
        self.connection.close().await?;
        Ok(())
    }

    fn link_name(&mut self) -> String {
        self.links += 1;
        format!("link-{}", self.links)
    }

    pub async fn sender(&mut self, target: impl Into<Target>) -> Result<Sender, SenderAttachError> {
        let name = self.link_name();
        Sender::builder().name(name).target(target).attach(&mut self.session).await
    }

    /// A sender that sends its messages settled.
    pub async fn settled_sender(&mut self, target: &str) -> Checked<Sender> {
        let name = self.link_name();
        let builder =
            Sender::builder().name(name).target(target).sender_settle_mode(SenderSettleMode::Settled);
        Ok(builder.attach(&mut self.session).await?)
    }

    /// A receiver for which the check grants credit and settles.
    pub async fn receiver(&mut self, source: &str) -> Result<Receiver, ReceiverAttachError> {
        self.receiver_with(source, CreditMode::Manual, SenderSettleMode::Mixed).await
    }

    pub async fn receiver_with(
        &mut self,
        source: &str,
        credit: CreditMode,
        settle: SenderSettleMode,
    ) -> Result<Receiver, ReceiverAttachError> {
        let name = self.link_name();
        let builder =
            Receiver::builder().name(name).source(source).credit_mode(credit).sender_settle_mode(settle);
        builder.attach(&mut self.session).await
    }

    /// A consumer of a stream with these filters, each a name, a descriptor and a value.
    pub async fn reader(&mut self, stream: &str, filters: Vec<(&str, &str, Value)>) -> Checked<Receiver> {
        let mut source = Source::builder().address(format!("/queues/{stream}"));
        for (name, descriptor, value) in filters {
            let descriptor = Descriptor::Name(descriptor.into());
            source = source.add_to_filter(name, Described { descriptor, value });
        }
        let builder = Receiver::builder().name(self.link_name()).source(source.build());
        Ok(builder.credit_mode(CreditMode::Manual).attach(&mut self.session).await?)
    }

    /// Sends durable messages, each with `to` if it is given. Returns the outcomes.
    pub async fn send(
        &mut self,
        target: impl Into<Target>,
        to: Option<&str>,
        bodies: &[&str],
    ) -> Checked<Vec<&'static str>> {
        let mut sender = self.sender(target).await?;
        let mut outcomes = Vec::new();
        for body in bodies {
            let properties = to.map(|to| Properties::builder().to(to.to_owned()).build());
            let message =
                Message::builder().header(durable()).properties(properties).value(body.to_string()).build();
            outcomes.push(name_of(&sender.send(message).await?));
        }
        sender.close().await?;
        Ok(outcomes)
    }

    /// Declares a queue that contains these messages.
    pub async fn on_queue(&mut self, name: &str, bodies: &[&str]) -> Checked {
        queue(name).await?;
        let outcomes = self.send(format!("/queues/{name}"), None, bodies).await?;
        expect(outcomes, vec!["accepted"; bodies.len()])
    }
}

pub fn guest(password: &str) -> SaslProfile {
    SaslProfile::Plain { username: "guest".into(), password: password.into() }
}

pub fn durable() -> Header {
    Header { durable: true, ..Header::default() }
}

pub fn name_of(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Accepted(_) => "accepted",
        Outcome::Rejected(_) => "rejected",
        Outcome::Released(_) => "released",
        _ => "another outcome",
    }
}

/// Receives messages for which credit was granted already.
pub async fn take(receiver: &mut Receiver, count: usize) -> Checked<Vec<Delivery<Value>>> {
    let mut deliveries = Vec::new();
    for _ in 0..count {
        deliveries.push(receiver.recv().await?);
    }
    Ok(deliveries)
}

/// Gets one message synchronously, with one credit.
pub async fn get(receiver: &mut Receiver) -> Checked<Delivery<Value>> {
    receiver.set_credit(1).await?;
    Ok(receiver.recv().await?)
}

/// Receives everything in a queue. fe2o3-amqp does not show the end of a drain, so the management API says
/// how many messages there are.
pub async fn drain(client: &mut Client, queue: &str) -> Checked<Vec<String>> {
    let mut receiver = client.receiver(&format!("/queues/{queue}")).await?;
    let count = messages(queue).await?;
    receiver.set_credit(1000).await?;
    let bodies = take(&mut receiver, count).await?.iter().map(body).collect();
    receiver.close().await?;
    Ok(bodies)
}

pub fn body(delivery: &Delivery<Value>) -> String {
    match delivery.body() {
        Value::String(text) => text.clone(),
        other => format!("{other:?}"),
    }
}

/// Returns the body, delivery-count and first-acquirer.
pub fn seen(delivery: &Delivery<Value>) -> (String, u32, bool) {
    let header = delivery.message().header.clone().unwrap_or_default();
    (body(delivery), header.delivery_count, header.first_acquirer)
}

pub fn expect<T: PartialEq + Debug>(found: T, wanted: T) -> Checked {
    if found == wanted { Ok(()) } else { Err(format!("found {found:?}, wanted {wanted:?}").into()) }
}

/// Checks the condition with which the broker detached a link. `found` is the client's error.
pub fn refused<T, E: Debug>(found: Result<T, E>, condition: AmqpError) -> Checked {
    match found {
        Ok(_) => Err("was not refused".into()),
        Err(error) => {
            let shown = format!("{error:?}");
            let wanted = format!("{:?}", ErrorCondition::AmqpError(condition));
            if shown.contains(&wanted) {
                Ok(())
            } else {
                Err(format!("found {shown}, wanted {wanted}").into())
            }
        }
    }
}

// A session of fe2o3-amqp refuses two links with the same name, as a management link pair has. So these
// requests use HTTP.

pub async fn queue(name: &str) -> Checked {
    queue_of_type(&std::env::var("SLUICE_QUEUE_TYPE")?, name, "").await
}

pub async fn stream(name: &str) -> Checked {
    queue_of_type("stream", name, "").await
}

/// Declares a queue whose rejected messages go to another queue.
pub async fn mortal_queue(name: &str, grave: &str) -> Checked {
    let more = format!(r#", "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "{grave}""#);
    queue_of_type(&std::env::var("SLUICE_QUEUE_TYPE")?, name, &more).await
}

async fn queue_of_type(kind: &str, name: &str, more: &str) -> Checked {
    let body = format!(r#"{{"durable": true, "arguments": {{"x-queue-type": "{kind}"{more}}}}}"#);
    http(201, "PUT", &format!("queues/%2F/{name}"), &body).await.map(drop)
}

pub async fn exchange(name: &str, kind: &str) -> Checked {
    let body = format!(r#"{{"durable": true, "type": "{kind}"}}"#);
    http(201, "PUT", &format!("exchanges/%2F/{name}"), &body).await.map(drop)
}

pub async fn bind(source: &str, queue: &str, key: &str) -> Checked {
    let body = format!(r#"{{"routing_key": "{key}"}}"#);
    http(201, "POST", &format!("bindings/%2F/e/{source}/q/{queue}"), &body).await.map(drop)
}

/// Returns the number of messages of a queue, unsettled ones included.
pub async fn messages(queue: &str) -> Checked<usize> {
    let answer = http(200, "GET", &format!("queues/%2F/{queue}"), "").await?;
    let (_, rest) = answer.split_once(r#""messages":"#).ok_or("no messages in the answer")?;
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    Ok(rest[..end].parse()?)
}

/// Sends one request, and requires this status. Returns the response.
pub async fn http(status: u16, method: &str, path: &str, body: &str) -> Checked<String> {
    let host = std::env::var("SLUICE_HTTP")?;
    let request = format!(
        "{method} /api/{path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\n\
         Connection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = TcpStream::connect(&host).await?;
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    if answer.starts_with(&format!("HTTP/1.1 {status} ")) {
        Ok(answer)
    } else {
        Err(format!("{method} {path}: wanted {status}, found {answer}").into())
    }
}
