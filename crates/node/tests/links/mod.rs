//! Links of real peers on whole shards, in one thread.

mod alarm;
mod backlog;
mod client091;
mod counts;
mod dead_letters;
mod declared;
mod detached;
mod direct_reply;
mod explain;
mod follow;
mod groups;
mod held_back;
mod house;
mod large;
mod late;
mod left;
mod line;
mod login;
mod own_queues;
mod readers;
mod refused;
mod streams;
mod unfinished;
mod unread;
mod unwritten;
mod writes;
