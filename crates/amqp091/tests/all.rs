//! The tests of the codec and the endpoints from outside. One binary, because linking one for each file takes minutes.

mod wire;

mod allocations;
mod corpus;
mod heartbeats;
mod methods;
mod splits;
mod violations;
mod wire_serves_both_roles;
