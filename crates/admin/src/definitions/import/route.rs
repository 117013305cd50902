//! `POST /api/definitions`.

use catalog::access::Authority;
use serde_json::json;

use super::{Definitions, Problem, Reading, shown_first};
use crate::aside::aside;
use crate::call::Call;
use crate::reply::{Failure, Reply};
use crate::vhosts;

/// Imports definitions of the whole node.
pub(crate) async fn post(call: &Call<'_>) -> Result<Reply, Failure> {
    import(call, None).await
}

/// Imports definitions into one virtual host.
pub(crate) async fn post_to_vhost(call: &Call<'_>) -> Result<Reply, Failure> {
    vhosts::require(call, call.param(0)).await?;
    import(call, Some(call.param(0))).await
}

async fn import(call: &Call<'_>, vhost: Option<&str>) -> Result<Reply, Failure> {
    let skip_unknown = call.query.flag("skip_unknown") || call.ports.skips_unknown();
    let (dry_run, reports) = (call.query.flag("dry_run"), call.query.flag("report"));
    let (body, into) = (call.body.clone(), vhost.map(str::to_owned));
    let default_queue_type = call.api.default_queue_type();
    let read = move || {
        let text = std::str::from_utf8(&body).map_err(|_| Failure::bad_request("not_json"))?;
        let reading = Reading { vhost: into.as_deref(), skip_unknown, warns_of_components: false };
        let mut definitions = Definitions::default();
        let read = definitions.read(text, reading);
        // All that is wrong is said at once, also of the entries that could be read.
        let mut wrong = read.err().map_or(Vec::new(), |problems| problems.0);
        wrong
            .extend(definitions.refused_commands(default_queue_type).into_iter().map(|(_, problem)| problem));
        wrong.sort_by_key(|problem| problem.line);
        Ok::<_, Failure>((definitions, wrong.iter().map(Problem::to_string).collect::<Vec<_>>()))
    };
    let (mut definitions, wrong) = aside(call.body.len(), read).await??;
    if !wrong.is_empty() {
        return Err(Failure::bad_request(shown_first(wrong)));
    }
    if call.who.authority() == Authority::Internal {
        definitions = definitions.created_by(&call.who.user);
    }
    let entries = definitions.entries.len();
    let warnings = definitions.warnings.clone();
    if dry_run {
        let needed = definitions.needed(vhost.unwrap_or("/"), &call.who.user);
        return Ok(Reply::Json(
            json!({ "imported": false, "entries": entries, "warnings": warnings, "needed": needed }),
        ));
    }
    definitions.import(call.api, &call.who).await?;
    match reports {
        true => Ok(Reply::Json(json!({ "imported": true, "entries": entries, "warnings": warnings }))),
        false => Ok(Reply::NoContent),
    }
}
