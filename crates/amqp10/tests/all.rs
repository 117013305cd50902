//! The tests of the codec and the endpoints from outside. One binary, because linking one for each file takes minutes.

mod script;
mod tally;

mod allocations;
mod corpus;
mod transcripts;
mod violations;
mod wire_serves_both_roles;
