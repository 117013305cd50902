//! `sluice check`: health checks for scripts. They succeed, or fail with the reason and exit code 1.

use clap::{Args, Subcommand, ValueEnum};
use serde_json::Value;

use crate::declare::segment;
use crate::failure::Failure;
use crate::http::Api;
use crate::table::Ask;

#[derive(Args, Debug)]
pub struct Check {
    #[command(subcommand)]
    what: What,
    /// Print the response of the management API
    #[arg(long, global = true)]
    json: bool,
    #[command(flatten)]
    api: Api,
}

/// The aliases are the names of `rabbitmq-diagnostics`.
#[derive(Debug, Subcommand)]
enum What {
    /// No alarm stops publishers
    #[command(alias = "check_alarms")]
    Alarms,
    /// No alarm of the node that answers stops publishers
    #[command(alias = "check_local_alarms")]
    LocalAlarms,
    /// The node takes connections, and no alarm stops publishers
    #[command(alias = "check_running")]
    Ready,
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
    },
    /// No certificate expires within this time
    #[command(alias = "check_certificate_expiration")]
    Certificates {
        within: u32,
        #[arg(value_enum)]
        unit: Unit,
    },
    /// Somebody listens on this port of the node
    #[command(alias = "check_port_listener")]
    Port { port: u16 },
    /// There is a listener for each of these protocols, with commas between: amqp, amqps, http, ...
    #[command(alias = "check_protocol_listener")]
    Protocols { protocols: String },
    /// Every quorum queue has a leader
    Leaders {
        /// Look at this virtual host only
        #[arg(long, short = 'p', value_name = "NAME")]
        vhost: Option<String>,
        /// Look only at queues whose names match this regular expression
        #[arg(long, value_name = "PATTERN")]
        pattern: Option<String>,
    },
    /// Every virtual host is in use; a virtual host of this broker always is
    #[command(alias = "check_virtual_hosts")]
    VirtualHosts,
    /// No quorum queue loses its majority if this node stops; the check succeeds on a node that is alone
    #[command(alias = "check_if_node_is_quorum_critical")]
    QuorumCritical,
    /// The node may have more connections
    ConnectionLimit,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Unit {
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
    let (words, path) = match &check.what {
        What::Live { metrics_url } => {
            let api = check.api.at(metrics_url);
            return ask(&api, "liveness", "/health/live", check.json);
        }
        What::Alarms => ("alarms".to_owned(), "alarms".to_owned()),
        What::LocalAlarms => ("local alarms".to_owned(), "local-alarms".to_owned()),
        What::Ready => ("readiness".to_owned(), "ready-to-serve-clients".to_owned()),
        What::Certificates { within, unit } => {
            let unit = unit.to_possible_value().map(|unit| unit.get_name().to_owned()).unwrap_or_default();
            ("certificates".to_owned(), format!("certificate-expiration/{within}/{unit}"))
        }
        What::Port { port } => (format!("port {port}"), format!("port-listener/{port}")),
        What::Protocols { protocols } => {
            (format!("protocols {protocols}"), format!("protocol-listener/{}", segment(protocols)))
        }
        What::Leaders { vhost, pattern } => {
            let whose = vhost.as_ref().map(|vhost| format!("vhost/{}", segment(vhost)));
            let whose = whose.unwrap_or_else(|| "all-vhosts".to_owned());
            let named = pattern.as_ref().map(|pattern| format!("/pattern/{}", segment(pattern)));
            let path = format!("quorum-queues-without-elected-leaders/{whose}{}", named.unwrap_or_default());
            ("leaders of quorum queues".to_owned(), path)
        }
        What::VirtualHosts => ("virtual hosts".to_owned(), "virtual-hosts".to_owned()),
        What::QuorumCritical => ("majorities".to_owned(), "node-is-quorum-critical".to_owned()),
        What::ConnectionLimit => {
            ("the limit of connections".to_owned(), "below-node-connection-limit".to_owned())
        }
    };
    ask(&check.api, &words, &format!("/api/health/checks/{path}"), check.json)
}

fn ask(api: &Api, words: &str, path: &str, json: bool) -> Result<(), Failure> {
    let words = format!("check {words}");
    crate::amqp::block_on(Ask::get(&words, path).print(api, json, said))
}

fn said(answer: &Value) -> String {
    format!("{}\n", answer["status"].as_str().unwrap_or("ok"))
}
