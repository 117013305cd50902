//! The listener for other nodes.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, spawn_local};

use super::inputs::Input;
use super::sockets::{self, Introduction};

/// The connections that have not proved yet that they belong to the cluster. A node needs some round trips for that. If there is one more, the
/// oldest is closed: it has had the most time.
pub(super) const UNPROVEN_MAX: usize = 256;

/// Accepts connections for ever, and shakes hands with each.
pub(super) async fn accept_all(
    listener: TcpListener,
    introduction: Rc<RefCell<Introduction>>,
    inputs: mpsc::Sender<Input>,
) {
    let mut unproven: VecDeque<AbortHandle> = VecDeque::new();
    loop {
        let (stream, from) = sockets::accept(&listener).await;
        let (own, inputs) = (introduction.borrow().clone(), inputs.clone());
        let shaking = spawn_local(async move {
            let input = match sockets::welcome(stream, &own).await {
                Ok(opened) => Input::Accepted(opened),
                Err(error) => Input::NotAccepted { from: from.ip(), error },
            };
            // The receiver is gone only if the node stops.
            drop(inputs.send(input).await);
        });
        unproven.retain(|before| !before.is_finished());
        if unproven.len() >= UNPROVEN_MAX
            && let Some(oldest) = unproven.pop_front()
        {
            oldest.abort();
        }
        unproven.push_back(shaking.abort_handle());
    }
}
