//! The memory of a broker that has nothing to do.

use crate::broker;

use std::time::{Duration, Instant};

use broker::{Broker, Directory};

const MIB: u64 = 1 << 20;

/// The bound on the anonymous memory of an idle broker, in bytes: all that the process has of its own. 4.5 MiB were measured, and 5.3
/// MiB after the logins; 1.4 MiB of them are the part of the program that the loader writes to. A release build has less.
///
/// Resident memory has the pages of the program, too. A build for tests has three times as many of them as one for users, and
/// the kernel drops them when it needs the memory. So they are left out.
const IDLE_ANONYMOUS_MAX: u64 = 7 * MIB;

/// The number of logins over each protocol. A leak of 1 KiB for each of them exceeds the bound.
const LOGINS: u32 = 1_000;

/// The time within which memory must be returned. After it, the test fails. The allocator returns it after 250 ms
/// (docs/decisions/0002).
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until the anonymous memory of the broker is within its bound.
fn wait_until_small(broker: &Broker, when: &str) {
    let begin = Instant::now();
    loop {
        let anonymous = broker.anonymous_bytes();
        if anonymous <= IDLE_ANONYMOUS_MAX {
            return;
        }
        assert!(begin.elapsed() < PATIENCE, "{when}: {} KiB of anonymous memory", anonymous / 1024);
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The hash of one password takes 7 MiB. This test fails if they are not returned.
#[tokio::test]
async fn an_idle_broker_is_small_also_after_many_logins() {
    let directory = Directory::new("memory");
    let broker = Broker::start(&directory);
    wait_until_small(&broker, "after the start");
    for _ in 0..LOGINS {
        assert_eq!(broker.get("/api/whoami").0, 200);
    }
    wait_until_small(&broker, "after logins over HTTP");
    let url: client::Url = broker.amqp_url().parse().unwrap();
    for _ in 0..LOGINS {
        let connection = client::Connection::open(&url, client::Options::default()).await.unwrap();
        connection.close().await.unwrap();
    }
    wait_until_small(&broker, "after logins over AMQP 1.0");
    for _ in 0..LOGINS {
        let connection = client::amqp091::Connection::open(&url, Default::default()).await.unwrap();
        connection.close().await.unwrap();
    }
    wait_until_small(&broker, "after logins over AMQP 0.9.1");
}
