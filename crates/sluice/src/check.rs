//! `sluice check`: health checks for scripts. They succeed, or fail with the reason and exit code 1.

use clap::{Args, Subcommand, ValueEnum};
use serde_json::Value;

use crate::configuration::{self, CheckConfig};
use crate::failure::Failure;
use crate::http::{Api, Ask};
use crate::objects::segment;
use crate::trust::Trust;

#[derive(Debug, Subcommand)]
pub enum Check {
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
    /// No certificate expires within this time
    Certificates {
        within: u32,
        #[arg(value_enum)]
        unit: Unit,
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
    /// No quorum queue loses its majority if this node stops; the check succeeds on a node that is alone
    QuorumCritical(Options),
    /// The broker would start with this configuration; reports all problems, each with file and line; needs no broker
    Config(CheckConfig),
}

#[derive(Args, Debug)]
pub struct Options {
    /// Print the response of the management API
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    api: Api,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Unit {
    #[value(alias = "day")]
    Days,
    #[value(alias = "week")]
    Weeks,
    #[value(alias = "month")]
    Months,
    #[value(alias = "year")]
    Years,
}

/// Carries out the check, and prints `ok`.
///
/// # Errors
/// The broker's reason why the check has failed.
pub fn run(check: &Check) -> Result<(), Failure> {
    let (words, path, options) = match check {
        Check::Config(config) => return configuration::check(config),
        Check::Live { metrics_url, json, trust } => {
            let api = Api::without_login(metrics_url, trust);
            let api = api.map_err(|why| Failure::usage(format!("--metrics-url: {why}")))?;
            return ask(&api, "liveness", "/health/live", *json);
        }
        Check::Ready(options) => ("readiness".to_owned(), "ready-to-serve-clients".to_owned(), options),
        Check::Alarms(options) => ("alarms".to_owned(), "alarms".to_owned(), options),
        Check::LocalAlarms(options) => ("local alarms".to_owned(), "local-alarms".to_owned(), options),
        Check::Certificates { within, unit, options } => {
            let unit = unit.to_possible_value().map(|unit| unit.get_name().to_owned()).unwrap_or_default();
            ("certificates".to_owned(), format!("certificate-expiration/{within}/{unit}"), options)
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
    ask(&options.api, &words, &format!("/api/health/checks/{path}"), options.json)
}

fn ask(api: &Api, words: &str, path: &str, json: bool) -> Result<(), Failure> {
    let words = format!("check {words}");
    crate::amqp::block_on(Ask::get(&words, path).print(api, json, said))
}

fn said(answer: &Value) -> String {
    format!("{}\n", answer["status"].as_str().unwrap_or("ok"))
}
