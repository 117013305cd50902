//! The rules for several commands at once, and for parameters.

use super::{Answer, CatalogError, Command, Decision, check_name, check_text};
use crate::parameters::{PARAMETERS_MAX, VALUE_BYTES_MAX};
use crate::{Caller, Catalog, Change, Destination, Mutation, ParameterKey, QueueIds};

impl Catalog {
    /// Decides commands one after the other, each on what the ones before have made. All of them are carried out, or none. A
    /// queue or an exchange that exists with other properties stays as it is: importing definitions changes no queue.
    pub(super) fn decide_batch(
        &self,
        commands: Vec<Command>,
        ids: &mut QueueIds,
    ) -> Result<Decision, CatalogError> {
        let mut after = self.clone();
        let mut changes = Vec::new();
        for (at, command) in commands.into_iter().enumerate() {
            let command = match after.has(Mutation::BatchForgetsOwner) {
                true => after.of_owner(command),
                false => command,
            };
            match after.decide(command, ids) {
                Ok(decision) => {
                    decision.changes.iter().for_each(|change| after.apply(change));
                    changes.extend(decision.changes);
                }
                Err(CatalogError::Inequivalent { .. }) => {}
                Err(error) => {
                    for change in changes {
                        if let Change::QueueDeclared(record) = change {
                            ids.give_back(record.id);
                        }
                    }
                    return Err(CatalogError::InBatch { at, error: Box::new(error) });
                }
            }
        }
        let changed = !changes.is_empty();
        Ok(Decision { changes, answer: Answer::Done { changed } })
    }

    /// Returns a binding as if the owner of its queue asked for it: see [`Mutation::BatchForgetsOwner`].
    fn of_owner(&self, command: Command) -> Command {
        match command {
            Command::Bind(binding, caller) => {
                let queue = match &binding.destination {
                    Destination::Queue(name) => self.listed_queue(&binding.vhost, name),
                    Destination::Exchange(_) => None,
                };
                let owner = queue.and_then(|queue| queue.exclusive);
                Command::Bind(binding, owner.map_or(caller, Caller::Connection))
            }
            other => other,
        }
    }

    pub(super) fn set_parameter(
        &self,
        key: ParameterKey,
        value: std::sync::Arc<str>,
    ) -> Result<Decision, CatalogError> {
        check_name("parameter", &key.name)?;
        check_text("component", &key.component)?;
        if let Some(vhost) = &key.vhost {
            self.check_vhost(vhost)?;
        }
        if value.len() > VALUE_BYTES_MAX {
            let reason = format!("the value of '{}' is longer than {VALUE_BYTES_MAX} bytes", key.name);
            return Err(CatalogError::Invalid { reason });
        }
        let created = !self.parameters.contains_key(&key);
        if created && self.parameters.len() >= PARAMETERS_MAX {
            let reason = format!("there are {PARAMETERS_MAX} parameters: no more are possible");
            return Err(CatalogError::LimitReached { reason });
        }
        let changes = vec![Change::ParameterSet { key, value }];
        Ok(Decision { changes, answer: Answer::Set { created } })
    }

    pub(super) fn clear_parameter(&self, key: ParameterKey) -> Decision {
        let changed = self.parameters.contains_key(&key);
        let changes = if changed { vec![Change::ParameterCleared { key }] } else { Vec::new() };
        Decision { changes, answer: Answer::Done { changed } }
    }
}
