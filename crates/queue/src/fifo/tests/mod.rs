//! Transcripts: requests on the left, what the machine says on the right.

mod credit;
mod dead;
mod limits;
mod model;
mod properties;
mod transcript;
mod walk;
