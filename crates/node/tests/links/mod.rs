//! Links of real peers on whole shards, in one thread.

mod alarm;
mod applied;
mod backlog;
mod client091;
mod counts;
mod dead_letters;
mod declared;
mod detached;
mod direct_reply;
mod ended;
mod explain;
mod follow;
mod groups;
mod held_back;
mod house;
mod large;
mod late;
mod lateness;
mod left;
mod line;
mod login;
mod long_headers;
#[cfg(debug_assertions)]
mod mistakes;
mod out_of_reach;
mod own_queues;
mod readers;
mod refused;
mod searches;
mod state;
mod streams;
mod troubles;
mod unfinished;
mod unread;
mod unwritten;
mod writes;
