//! Transcripts: requests on the left, what the machine says on the right.

mod credit;
mod dead;
mod limits;
mod model;
mod paging;
mod properties;
mod shelf;
mod transcript;
mod walk;
