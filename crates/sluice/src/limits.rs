//! File descriptors: every connection needs one.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Below this many, a program with many connections will run out.
const WANTED: u64 = 65_536;

/// The part of all descriptors that each HTTP port may use.
const HTTP_PART: u64 = 16;

/// Connections of an HTTP port: enough for a probe and an operator, and no more than a small part of a large machine.
const HTTP_CONNECTIONS: std::ops::RangeInclusive<u64> = 8..=1024;

/// How many connections an HTTP port may have.
pub fn http_connections() -> u64 {
    let most = *HTTP_CONNECTIONS.end();
    let limit = getrlimit(Resource::Nofile).current;
    limit.map_or(most, |limit| (limit / HTTP_PART).clamp(*HTTP_CONNECTIONS.start(), most))
}

/// Raises the limit to what the system allows. Returns a line for the log, which says so if that is little.
pub fn raise_file_descriptors() -> String {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = match current == maximum {
        true => Ok(()),
        false => setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }),
    };
    let now = getrlimit(Resource::Nofile).current;
    let mut line = match now {
        Some(now) => format!("at most {now} file descriptors"),
        None => "any number of file descriptors".to_owned(),
    };
    if now.is_some_and(|now| now < WANTED) {
        line += &format!(": fewer than {WANTED} may be too few for many connections");
    }
    if let Err(error) = raised {
        line += &format!("; the limit cannot be raised: {error}");
    }
    line
}
