//! File descriptors: every connection needs one.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Below this many, a broker with many connections will run out.
const WANTED: u64 = 65_536;

/// Raises the limit to what the system allows, and says so if that is little.
pub fn raise_file_descriptors() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum
        && let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })
    {
        tracing::warn!("cannot raise the limit of file descriptors from {current:?} to {maximum:?}: {error}");
    }
    let now = getrlimit(Resource::Nofile).current;
    if let Some(now) = now.filter(|now| *now < WANTED) {
        tracing::warn!(
            "at most {now} file descriptors: fewer than {WANTED} may be too few for many connections"
        );
    }
}
