//! The tests of the log, the packs and the streams from outside. One binary, because linking one for each file takes minutes.

mod chunks;
mod slow_disk;
mod soak;

mod corpus;
mod damage;
mod damage_anywhere;
mod direct;
mod direct_life;
mod direct_writer;
mod directory;
mod faults;
mod forget;
mod formats;
mod pack_formats;
mod pack_space;
mod pack_threads;
mod packs;
mod reserve;
mod rounds;
mod spares;
mod stream_damage;
mod stream_faults;
mod stream_formats;
mod stream_threads;
mod streams;
mod writer;
