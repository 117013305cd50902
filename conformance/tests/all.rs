//! The tests that are no page. One binary, because linking one for each file takes minutes.

mod bare_message;
mod corpus;
mod ledger;
