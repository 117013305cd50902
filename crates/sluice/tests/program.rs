//! Drives the built program as its users do, over its ports and with its verbs. One binary, because linking one for each
//! file takes minutes.
#![forbid(unsafe_code)]

mod authority;
mod broker;

mod ages;
mod amqp091;
mod audit;
mod backends;
mod backup;
mod bench;
mod budgets;
mod configuration;
mod counts;
mod damage;
mod day_to_day;
mod definitions;
mod descriptors;
mod doctor;
mod doors;
mod events;
mod explain;
mod follow;
mod forget;
mod golden;
mod http_bodies;
mod http_messages;
mod kill;
mod listeners;
mod log_lines;
mod modes;
mod moving;
mod nservicebus;
mod operator;
mod origins;
mod pages;
mod rabbitmqadmin;
mod redrive;
mod report;
mod routes;
mod run_time;
mod search;
mod secrets;
mod small_disk;
mod sockets;
mod storage;
mod streams;
mod tls;
mod tls_refusals;
mod tokens;
mod tools;
mod traces;
mod verbs;
mod vhosts;
