//! `sluice check`: health checks for scripts. They succeed, or fail with the reason and exit code 1.

use std::time::SystemTime;

use clap::{Args, Subcommand, ValueEnum};
use hyper::StatusCode;
use serde_json::Value;

use crate::configuration::{self, CheckConfig};
use crate::failure::Failure;
use crate::http::{Api, Ask};
use crate::objects::segment;
use crate::output::print;
use crate::table::{cell, rows_of};
use crate::trust::Trust;
use crate::words::moment;
use crate::{alarms, escape};

#[derive(Debug, Subcommand)]
pub(crate) enum Check {
    /// The node has started and takes connections, also while an alarm stops publishers
    Ready(Options),
    /// Every shard answers. Needs no user; asks the port of the metrics
    Live {
        /// The URL of the metrics
        #[arg(
            long,
            env = "SLUICE_METRICS_URL",
            value_name = "URL",
            default_value = "http://127.0.0.1:15692"
        )]
        metrics_url: String,
        /// Print the response
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        trust: Trust,
    },
    /// No alarm stops publishers
    Alarms(Options),
    /// No alarm of the node that answers stops publishers
    LocalAlarms(Options),
    /// No certificate expires within this time; shows until when each is valid
    Certificates {
        /// A number of days, weeks, months or years: 2 weeks
        #[arg(value_parser = Within::parse)]
        within: Within,
        #[arg(value_enum)]
        unit: Option<Unit>,
        #[command(flatten)]
        options: Options,
    },
    /// Somebody listens on this port of the node
    Port {
        port: u16,
        #[command(flatten)]
        options: Options,
    },
    /// There is a listener for each of these protocols, with commas between: amqp, amqps, http, ...
    Protocols {
        protocols: String,
        #[command(flatten)]
        options: Options,
    },
    /// The node may have more connections
    ConnectionLimit(Options),
    /// Every virtual host is in use; a virtual host of this broker always is
    VirtualHosts(Options),
    /// Every quorum queue has a leader
    Leaders {
        /// Look at this virtual host only
        #[arg(long, short = 'p', value_name = "NAME")]
        vhost: Option<String>,
        /// Look only at queues whose names match this regular expression
        #[arg(long, value_name = "PATTERN")]
        pattern: Option<String>,
        #[command(flatten)]
        options: Options,
    },
    /// The cluster can still change definitions if this node stops; the check succeeds on a node that is alone
    QuorumCritical(Options),
    /// The broker would start with this configuration; reports all problems, each with file and line; needs no broker
    Config(CheckConfig),
}

#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Print the response of the management API
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    api: Api,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Unit {
    #[value(alias = "day")]
    Days,
    #[value(alias = "week")]
    Weeks,
    #[value(alias = "month")]
    Months,
    #[value(alias = "year")]
    Years,
}

/// A time, whose unit may be another argument.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Within {
    number: u32,
    unit: Option<Unit>,
}

/// What the time of `sluice check certificates` looks like.
const WITHIN: &str = "a number and one of days, weeks, months or years are needed, such as 2 weeks";

/// A time, in years, within which every certificate expires.
const EVER: u32 = 100_000;

impl Within {
    fn parse(text: &str) -> Result<Self, String> {
        let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = text.split_at(end);
        let number = number.parse().map_err(|_| WITHIN)?;
        let unit = match unit.trim() {
            "" => None,
            unit => Some(Unit::from_str(unit, true).map_err(|_| WITHIN)?),
        };
        Ok(Self { number, unit })
    }

    /// Returns the route of the check. `unit` is the other argument.
    fn path(self, unit: Option<Unit>) -> Result<String, Failure> {
        let unit = match (self.unit, unit) {
            (Some(unit), None) | (None, Some(unit)) => unit.to_possible_value(),
            _ => None,
        };
        let unit = unit.ok_or_else(|| Failure::usage(WITHIN.to_owned()))?;
        Ok(certificate_path(self.number, unit.get_name()))
    }
}

fn certificate_path(number: u32, unit: &str) -> String {
    format!("/api/health/checks/certificate-expiration/{number}/{unit}")
}

/// Carries out the check, and prints `ok`.
///
/// # Errors
/// The broker's reason why the check has failed.
pub(crate) fn run(check: &Check) -> Result<(), Failure> {
    let (words, path, options) = match check {
        Check::Config(config) => return configuration::check(config),
        Check::Live { metrics_url, json, trust } => {
            let api = Api::without_login(metrics_url, trust);
            let api = api.map_err(|why| Failure::usage(format!("--metrics-url: {why}")))?;
            return ask(&api, "liveness", "/health/live", *json);
        }
        Check::Ready(options) => ("readiness".to_owned(), "ready-to-serve-clients".to_owned(), options),
        Check::Alarms(options) => {
            return crate::amqp::block_on(ask_named(options, "alarms", &checks("alarms"), alarms_named));
        }
        Check::LocalAlarms(options) => {
            let path = checks("local-alarms");
            return crate::amqp::block_on(ask_named(options, "local alarms", &path, alarms_named));
        }
        Check::Certificates { within, unit, options } => {
            return ask_certificates(options, &within.path(*unit)?);
        }
        Check::Port { port, options } => (format!("port {port}"), format!("port-listener/{port}"), options),
        Check::Protocols { protocols, options } => {
            let path = format!("protocol-listener/{}", segment(protocols));
            (format!("protocols {protocols}"), path, options)
        }
        Check::Leaders { vhost, pattern, options } => {
            let whose = vhost.as_ref().map(|vhost| format!("vhost/{}", segment(vhost)));
            let whose = whose.unwrap_or_else(|| "all-vhosts".to_owned());
            let named = pattern.as_ref().map(|pattern| format!("/pattern/{}", segment(pattern)));
            let path = format!("quorum-queues-without-elected-leaders/{whose}{}", named.unwrap_or_default());
            ("leaders of quorum queues".to_owned(), path, options)
        }
        Check::VirtualHosts(options) => ("virtual hosts".to_owned(), "virtual-hosts".to_owned(), options),
        Check::QuorumCritical(options) => {
            ("majorities".to_owned(), "node-is-quorum-critical".to_owned(), options)
        }
        Check::ConnectionLimit(options) => {
            ("the limit of connections".to_owned(), "below-node-connection-limit".to_owned(), options)
        }
    };
    ask(&options.api, &words, &checks(&path), options.json)
}

fn checks(path: &str) -> String {
    format!("/api/health/checks/{path}")
}

fn ask(api: &Api, words: &str, path: &str, json: bool) -> Result<(), Failure> {
    let words = format!("check {words}");
    crate::amqp::block_on(Ask::get(&words, path).print(api, json, said))
}

/// Asks for a check, and names in the failure what is wrong. `name` gets the answer and the nodes; these are empty if the user may not
/// see them.
async fn ask_named(
    options: &Options,
    words: &str,
    path: &str,
    name: fn(&Value, &[Value]) -> Vec<String>,
) -> Result<(), Failure> {
    let words = format!("check {words}");
    let api = &options.api;
    let (status, answer) = api.exchange(Ask::get(&words, path)).await?;
    if status.is_success() {
        return print(&if options.json { escape::json(&answer) } else { said(&answer) });
    }
    if status != StatusCode::SERVICE_UNAVAILABLE {
        return Err(api.refused(&words, status, &answer));
    }
    if options.json {
        print(&escape::json(&answer))?;
    }
    let nodes = api.exchange(Ask::get(&words, "/api/nodes")).await;
    let nodes = nodes.map_or(Value::Null, |(_, nodes)| nodes);
    let named = name(&answer, rows_of(&nodes));
    Err(match named.is_empty() {
        true => api.refused(&words, status, &answer),
        false => api.failed(&words, &named.join("; ")),
    })
}

/// Asks for the certificates that expire, and prints when each expires if none does so within the time.
fn ask_certificates(options: &Options, path: &str) -> Result<(), Failure> {
    crate::amqp::block_on(async {
        ask_named(options, "certificates", path, certificates_named).await?;
        if options.json {
            return Ok(());
        }
        // The answer of a check names only those that expire within its time.
        let path = certificate_path(EVER, "years");
        let (_, all) = options.api.exchange(Ask::get("list the certificates", &path)).await?;
        print(&certificates_named(&all, &[]).iter().map(|line| format!("{line}\n")).collect::<String>())
    })
}

/// Names the alarms of an answer, with their reasons.
fn alarms_named(answer: &Value, nodes: &[Value]) -> Vec<String> {
    let named = |alarm: &Value| {
        let node = nodes.iter().find(|node| node["name"] == alarm["node"]).unwrap_or(&Value::Null);
        let resource = alarm["resource"].as_str().unwrap_or_default();
        format!("alarm on {}: {}", cell(&alarm["node"]), alarms::reason(resource, node))
    };
    rows_of(&answer["alarms"]).iter().map(named).collect()
}

/// Names the certificates of an answer, and when each expires.
fn certificates_named(answer: &Value, _: &[Value]) -> Vec<String> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let now = now.ok().and_then(|now| i64::try_from(now.as_secs()).ok()).unwrap_or(0);
    let named = |certificate: &Value| {
        let (file, subject) = (cell(&certificate["certfile"]), cell(&certificate["subject"]));
        let when = certificate["not_after"].as_i64().map(|at| {
            let word = if at < now { "has expired" } else { "expires" };
            format!("{word} on {}", moment(at))
        });
        let problem = certificate["problem"].as_str().map(|problem| {
            format!("changed files cannot be used, and the certificate before stays in use: {problem}")
        });
        let why = when.into_iter().chain(problem).collect::<Vec<_>>().join("; ");
        format!("{file} ({subject}) {why}")
    };
    rows_of(&answer["expired"]).iter().map(named).collect()
}

fn said(answer: &Value) -> String {
    format!("{}\n", answer["status"].as_str().unwrap_or("ok"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn alarms_and_certificates_are_named() {
        let answer =
            json!({"alarms": [{"node": "n@h", "resource": "disk"}, {"node": "o@h", "resource": "memory"}]});
        let nodes = [json!({"name": "n@h", "disk_free": 1_000_000, "disk_free_limit": 50_000_000})];
        assert_eq!(
            alarms_named(&answer, &nodes),
            [
                "alarm on n@h: disk: 1 MB (976.6 KiB) free, the limit is 50 MB (47.7 MiB); publishers are stopped",
                "alarm on o@h: memory: publishers are stopped"
            ]
        );
        let answer = json!({"expired": [
            {"certfile": "a.pem", "subject": "CN=a", "not_after": 1_000_000_000, "problem": null},
            {"certfile": "b.pem", "subject": "CN=b", "not_after": 32_503_680_000_i64, "problem": "no key"},
        ]});
        assert_eq!(
            certificates_named(&answer, &[]),
            [
                "a.pem (CN=a) has expired on 2001-09-09 01:46 UTC",
                "b.pem (CN=b) expires on 3000-01-01 00:00 UTC; changed files cannot be used, and the certificate before stays in \
                 use: no key"
            ]
        );
    }
}
