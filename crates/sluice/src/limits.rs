//! Limits on file descriptors. Every connection needs one.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Below this limit a warning is logged: a program with many connections would run out of descriptors.
const WANTED: u64 = 65_536;

/// Each HTTP port may use one descriptor out of this many.
const HTTP_PART: u64 = 16;

/// The bounds of the number of connections of an HTTP port. The lower one suffices for a probe and an
/// operator. The upper one is only a small part of a large machine's descriptors.
const HTTP_CONNECTIONS: std::ops::RangeInclusive<u64> = 8..=1024;

/// The number of connections that an HTTP port may have.
pub(crate) fn http_connections() -> u64 {
    let most = *HTTP_CONNECTIONS.end();
    let limit = getrlimit(Resource::Nofile).current;
    limit.map_or(most, |limit| (limit / HTTP_PART).clamp(*HTTP_CONNECTIONS.start(), most))
}

/// Raises the limit to the most that the system allows. Returns a line for the log, with a warning if the
/// limit is low.
pub(crate) fn raise_file_descriptors() -> String {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = match current == maximum {
        true => Ok(()),
        false => setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }),
    };
    let now = getrlimit(Resource::Nofile).current;
    let mut line = match now {
        Some(now) => format!("at most {now} file descriptors"),
        None => "no limit on file descriptors".to_owned(),
    };
    if now.is_some_and(|now| now < WANTED) {
        line += &format!(": fewer than {WANTED} may be too few for many connections");
    }
    if let Err(error) = raised {
        line += &format!("; the limit cannot be raised: {error}");
    }
    line
}
