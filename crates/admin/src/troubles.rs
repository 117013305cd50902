//! `/api/explain`: everything that is not well.

use std::time::SystemTime;

use broker::explain::{Kind, Object, Trouble, Troubles};
use catalog::access::Verb;
use serde_json::{Map, Value, json};

use crate::auth;
use crate::call::Call;
use crate::ports::Ports;
use crate::reply::{Failure, Reply};

const DAY_SECONDS: i64 = 24 * 60 * 60;

/// A certificate ends soon if it ends within this time. Programs that renew certificates do it earlier.
const SOON_SECONDS: i64 = 14 * DAY_SECONDS;

/// Lists the troubles that the user may see, the worst first.
pub(crate) async fn list(call: &Call<'_>) -> Result<Reply, Failure> {
    let mut troubles = call.api.troubles(&call.who).await?;
    if auth::permit(&call.who, &[Verb::ReadAlarms]).is_ok() {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        add_certificates(&mut troubles, call.ports, now.map_or(0, |now| now.as_secs() as i64));
    }
    Ok(Reply::Json(shown(&troubles)))
}

fn add_certificates(troubles: &mut Troubles, ports: &Ports, now_seconds: i64) {
    for tls in ports.certificates() {
        let is_unusable = tls.problem().is_some();
        for (file, certificate) in tls.certificates() {
            let left = certificate.not_after.saturating_sub(now_seconds);
            let days = u64::try_from(left / DAY_SECONDS).unwrap_or(0);
            let object = || Object {
                kind: Kind::Certificate,
                vhost: None,
                name: file.display().to_string().into(),
                numbers: vec![("certificate_days", days)],
                // The one with the least time is the worst.
                weight: u64::MAX - days,
            };
            match left {
                ..=0 => troubles.add(Trouble::CertificateEnded, object()),
                1..=SOON_SECONDS => troubles.add(Trouble::CertificateEndsSoon, object()),
                _ => {}
            }
            if is_unusable {
                troubles.add(Trouble::CertificateUnusable, object());
            }
        }
    }
}

fn shown(troubles: &Troubles) -> Value {
    let entries: Vec<Value> = troubles
        .groups
        .iter()
        .map(|(trouble, group)| {
            json!({
                "cause": trouble.word(),
                "severity": trouble.severity().word(),
                "sentence": trouble.sentence(group.count),
                "meaning": trouble.meaning(),
                "advice": trouble.advice(),
                "objects": group.objects.iter().map(object).collect::<Vec<_>>(),
                "count": group.count,
            })
        })
        .collect();
    json!({
        "troubles": entries,
        "looked_at": { "queues": troubles.queues, "connections": troubles.connections },
    })
}

fn object(object: &Object) -> Value {
    let numbers: Map<String, Value> =
        object.numbers.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect();
    let mut shown = json!({ "kind": object.kind.word(), "name": *object.name, "numbers": numbers });
    if let Some(vhost) = &object.vhost {
        shown["vhost"] = (**vhost).into();
    }
    shown
}
