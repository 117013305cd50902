//! What the thread of the nodes asks of the catalog: who the members are, and that it admits nodes.

use std::time::Duration;

use ::nodes::{Member, REASON_MAX, Reason};
use catalog::KnownNode;
use link::NodeIdentity;
use tokio::sync::{mpsc, watch};

use super::inputs::Input;
use crate::admin_api::AdminApi;
use crate::admin_api::cluster::Membership;

/// Between two readings of the catalog: until the node is ready, and from then on.
const STARTING: Duration = Duration::from_millis(50);
const READY: Duration = Duration::from_secs(1);

/// How often a member looks whether it is in the catalog itself, before it admits another node. Together this is as long as a change may take.
const OWN_ADMISSION_TRIES: u32 = 200;

/// The nodes that want to be admitted.
pub(super) type Asked = mpsc::UnboundedSender<(NodeIdentity, String)>;

/// This node.
#[derive(Clone, Debug)]
pub(super) struct Me {
    pub node: NodeIdentity,
    pub boot: u64,
    pub number: u32,
    pub name: String,
}

/// How far the start of a node in a cluster is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Progress {
    /// The catalog here knows this node: it is that of the cluster, perhaps not the newest.
    pub has_catalog: bool,
    /// The cluster has decided about this start, and the catalog here has that.
    pub is_started: bool,
}

fn known(node: NodeIdentity, name: &str) -> KnownNode {
    KnownNode { identity: node.0, name: name.into() }
}

fn members(catalog: &Membership) -> Vec<Member> {
    let member = |(number, known): &(u32, KnownNode)| Member {
        number: *number,
        node: NodeIdentity(known.identity),
        name: known.name.to_string(),
    };
    catalog.nodes.iter().map(member).collect()
}

/// Follows the catalog for ever. The founder of the cluster admits itself, if nobody has been admitted yet.
pub(super) async fn tend(
    me: Me,
    api: AdminApi,
    inputs: mpsc::Sender<Input>,
    progress: watch::Sender<Progress>,
) {
    let own = known(me.node, &me.name);
    let (mut last, mut said) = (Vec::new(), None);
    loop {
        // A shard that is busy is asked again.
        if let Ok(catalog) = api.membership(own.id()).await {
            if catalog.nodes.is_empty() && me.number == 1 {
                if let Err(error) = api.admit_node(own.clone()).await {
                    tracing::warn!("the founder of the cluster is not in its catalog yet: {error}");
                }
                continue_soon().await;
                continue;
            }
            let has_catalog = catalog.nodes.iter().any(|(_, known)| known.identity == own.identity);
            // The founder has begun its first start alone, before the catalog knew any node.
            let is_first = me.number == 1 && catalog.boot == 0;
            let is_started = has_catalog && (is_first || catalog.boot == me.boot as u32);
            progress.send_replace(Progress { has_catalog, is_started });
            if is_started && !catalog.nodes.iter().any(|(_, known)| *known == own) {
                rename(&api, &own, &mut said).await;
            }
            let members = members(&catalog);
            if members != last {
                last.clone_from(&members);
                if inputs.send(Input::Members(members)).await.is_err() {
                    return;
                }
            }
        }
        let is_started = progress.borrow().is_started;
        tokio::time::sleep(if is_started { READY } else { STARTING }).await;
    }
}

/// Tells the cluster the present name of this node. `said` is why that has failed before.
async fn rename(api: &AdminApi, own: &KnownNode, said: &mut Option<String>) {
    match api.admit_node(own.clone()).await {
        Ok(()) => tracing::info!("the cluster knows this node as {} now", own.name),
        Err(error) if said.as_ref() != Some(&error) => {
            tracing::warn!("the cluster knows this node by another name than {}: {error}", own.name);
            *said = Some(error);
        }
        Err(_) => {}
    }
}

async fn continue_soon() {
    tokio::time::sleep(STARTING).await;
}

/// Lets the catalog decide about each node that wants to join.
pub(super) async fn admit(
    me: NodeIdentity,
    api: AdminApi,
    inputs: mpsc::Sender<Input>,
    mut asked: mpsc::UnboundedReceiver<(NodeIdentity, String)>,
) {
    while let Some((node, name)) = asked.recv().await {
        let result = admit_one(me, &api, node, &name).await;
        match &result {
            Ok(number) => tracing::info!("node {name} ({node}) is admitted, as number {number}"),
            Err(reason) => tracing::warn!("node {name} ({node}) is not admitted: {reason}"),
        }
        if let Ok(catalog) = api.membership(known(node, &name).id()).await
            && inputs.send(Input::Members(members(&catalog))).await.is_err()
        {
            return;
        }
        if inputs.send(Input::Admitted { node, result }).await.is_err() {
            return;
        }
    }
}

async fn admit_one(me: NodeIdentity, api: &AdminApi, node: NodeIdentity, name: &str) -> Result<u32, Reason> {
    let other = |text: String| {
        let mut text = text;
        text.truncate(text.floor_char_boundary(REASON_MAX));
        Reason::Other(text)
    };
    let wanted = known(node, name);
    // The founder is number 1, so nobody else may be admitted before it.
    let mut tries = 0;
    loop {
        let catalog = api.membership(wanted.id()).await.map_err(other)?;
        if catalog.nodes.iter().any(|(_, known)| known.identity == me.0) {
            break;
        }
        tries += 1;
        if tries == OWN_ADMISSION_TRIES {
            return Err(other("the member that was asked is not in the catalog yet".to_owned()));
        }
        continue_soon().await;
    }
    api.admit_node(wanted.clone()).await.map_err(other)?;
    let catalog = api.membership(wanted.id()).await.map_err(other)?;
    let mut nodes = catalog.nodes.into_iter();
    let number = nodes.find_map(|(number, known)| (known.identity == node.0).then_some(number));
    number.ok_or_else(|| other("the catalog here does not have the node yet".to_owned()))
}
