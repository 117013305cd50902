//! What the user of a connection may do, after the rights have changed.

use catalog::access::{AccessRefused, Resource, Verb};

use super::channel::{Cancelled, Role};
use super::{Gate, Refused};
use crate::cx::Cx;
use crate::gate::Ending;

impl Gate {
    /// Checks by the table of verbs that the client may do this.
    pub(super) fn permit(&self, verb: Verb, on: &[Resource<'_>], cx: &Cx<'_>) -> Result<(), Refused> {
        Ok(self.peer.permit(verb, on, cx)?)
    }

    /// Called when the rights of users have changed. Cancels the consumers for which the user has lost the permission, or
    /// ends the connection if the user may no longer use the virtual host. Each message of a publisher is checked.
    pub fn recheck_rights(&mut self, cx: &mut Cx<'_>) {
        if !self.phase.is_open() {
            return;
        }
        if let Err(why) = self.peer.recheck(cx) {
            return self.end_connection(Ending::Operator, &why, cx);
        }
        for (channel, place, refused) in self.lost_consumers(cx) {
            self.peer.refused("consumer", &format!(" channel={channel}"), &refused.reason);
            self.cancel_by_broker(channel, place, cx);
        }
    }

    /// Called when the client has the rights of a new token. Cancels the consumers that have lost theirs.
    pub(super) fn handle_renewal(&mut self, cx: &mut Cx<'_>) {
        for channel in self.channels.iter_mut().flatten() {
            channel.publisher.iter_mut().for_each(|publisher| publisher.intake.forget_permissions());
        }
        self.recheck_rights(cx);
    }

    fn lost_consumers(&self, cx: &Cx<'_>) -> Vec<(u16, u32, AccessRefused)> {
        let mut lost = Vec::new();
        for (channel, state) in self.channels.iter().enumerate() {
            for (place, role) in state.iter().flat_map(|channel| channel.roles.iter()) {
                let Role::Consumer(consumer) = role else { continue };
                let queue = Resource::Queue(&consumer.outlet.queue_name);
                // What somebody else decides does not change with the catalog.
                if let Err(refused) = self.peer.permit(Verb::Consume, &[queue], cx)
                    && refused.question.is_none()
                    && consumer.cancelled == Cancelled::No
                {
                    lost.push((channel as u16, place as u32, refused));
                }
            }
        }
        lost
    }
}
