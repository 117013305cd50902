//! The tests of queues from outside. One binary, because linking one for each file takes minutes.

mod counting;
mod nobody;

mod filters;
mod memory;
mod monoglot;
mod work;
