//! The memory of a broker that has nothing to do, and the size of its program.

use crate::broker;

use std::time::{Duration, Instant};

use broker::{Broker, Directory, Starting};

const MIB: u64 = 1 << 20;

/// The bound on the anonymous memory of an idle broker, in bytes: all that the process has of its own. 4.5 MiB were measured, and 5.3
/// MiB after the logins; 1.4 MiB of them are the part of the program that the loader writes to. With the profile `release`, 3.3 and
/// 3.6 MiB were measured.
///
/// Resident memory has the pages of the program, too. A build for tests has twice as many of them as `release`, and
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
    // Each shard has memory of its own, and a machine with many cores has several.
    let broker = Starting::spawn(&directory, &["shards=1"]).finish();
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

/// The bound on what the system loads of the program that the tests run, in bytes. 41.7 MB were measured when the program that is
/// shipped had 17 MB. The latter may have 20 MB without names of functions (`packaging/size`), but CI does not build it, because that takes many minutes. A
/// dependency or a table that makes the one too large adds about as much to the other, in proportion.
const LOADED_MAX: u64 = 49_000_000;

#[test]
fn the_program_is_small() {
    let program = std::fs::read(broker::PROGRAM).unwrap();
    let loaded = loaded_bytes(&program);
    assert!(loaded > 1_000_000, "{loaded} bytes are loaded: is this the program?");
    assert!(loaded <= LOADED_MAX, "{loaded} bytes are loaded");
}

/// Returns the bytes of an ELF file that the system loads: code and data without symbols and line numbers.
fn loaded_bytes(elf: &[u8]) -> u64 {
    const LOAD: u32 = 1;
    assert!(
        elf.starts_with(b"\x7fELF\x02\x01"),
        "an ELF file of 64 bits, with the least significant byte first"
    );
    let u16_at = |at: usize| u16::from_le_bytes(elf[at..at + 2].try_into().unwrap());
    let u64_at = |at: usize| u64::from_le_bytes(elf[at..at + 8].try_into().unwrap());
    let (first, size, count) = (u64_at(32) as usize, usize::from(u16_at(54)), usize::from(u16_at(56)));
    let headers = (0..count).map(|number| first + number * size);
    let loads = headers.filter(|at| u32::from_le_bytes(elf[*at..at + 4].try_into().unwrap()) == LOAD);
    loads.map(|at| u64_at(at + 32)).sum()
}
