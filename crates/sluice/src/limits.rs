//! File descriptors: every connection needs one.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Below this many, a program with many connections will run out.
const WANTED: u64 = 65_536;

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
