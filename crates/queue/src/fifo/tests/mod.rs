//! Transcripts: requests on the left, what the machine says on the right.

mod transcript;
mod walk;
