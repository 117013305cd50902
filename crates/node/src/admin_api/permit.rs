//! The permissions of who asks the admin API.

use std::collections::BTreeSet;

use broker::admin_api::{AdminError, ConnectionRow};
use catalog::Binding;
use catalog::access::{AccessRefused, Identity, Resource, Verb, permit_binding};

use super::AdminApi;

impl AdminApi {
    /// Checks that the user may do something that the user's tags alone decide ([`Verb::is_by_tag`]).
    pub(super) fn permit_by_tag(&self, who: &Identity, verb: Verb) -> Result<(), AdminError> {
        self.known(who, "", verb, &[]).map_err(|refused| AdminError::AccessRefused(refused.reason))
    }

    /// Checks that the user has a permission. This may take long if somebody else decides it.
    pub(super) async fn permit(
        &self,
        who: &Identity,
        vhost: &str,
        verb: Verb,
        on: &[Resource<'_>],
    ) -> Result<(), AdminError> {
        let check = || self.known(who, vhost, verb, on);
        match self.decide(who, check).await {
            Err(AdminError::AccessRefused(_)) if who.remote.is_none() && self.catch_up().await => {
                self.decide(who, check).await
            }
            decided => decided,
        }
    }

    /// Decides with what is known.
    pub(super) fn known(
        &self,
        who: &Identity,
        vhost: &str,
        verb: Verb,
        on: &[Resource<'_>],
    ) -> Result<(), AccessRefused> {
        self.inner.access.permit(who, vhost, verb, on)
    }

    /// Repeats a check until everything is known that it needs.
    pub(super) async fn decide(
        &self,
        who: &Identity,
        check: impl Fn() -> Result<(), AccessRefused>,
    ) -> Result<(), AdminError> {
        loop {
            match (check(), &who.remote) {
                (Err(AccessRefused { question: Some(question), .. }), Some(remote)) => {
                    remote.ask(&question).await;
                }
                (checked, _) => {
                    return checked.map_err(|refused| AdminError::AccessRefused(refused.reason));
                }
            }
        }
    }

    /// Checks that the user may read something in this virtual host, if one is named.
    pub(super) async fn permit_list(
        &self,
        who: &Identity,
        vhost: Option<&str>,
        verb: Verb,
    ) -> Result<(), AdminError> {
        match vhost {
            Some(vhost) => self.permit(who, vhost, verb, &[]).await,
            None => Ok(()),
        }
    }

    /// Removes what is in virtual hosts where the user may not do this.
    pub(super) async fn keep_visible<T>(
        &self,
        who: &Identity,
        verb: Verb,
        all: &mut Vec<T>,
        vhost_of: impl Fn(&T) -> &str,
    ) {
        let mut visible = BTreeSet::new();
        for vhost in all.iter().map(&vhost_of).collect::<BTreeSet<_>>() {
            // A list shows what this node has.
            if self.decide(who, || self.known(who, vhost, verb, &[])).await.is_ok() {
                visible.insert(vhost.to_owned());
            }
        }
        all.retain(|row| visible.contains(vhost_of(row)));
    }

    pub(super) async fn permit_binding(
        &self,
        who: &Identity,
        verb: Verb,
        binding: &Binding,
    ) -> Result<(), AdminError> {
        let Binding { vhost, source, destination, key, .. } = binding;
        let users = self.inner.access.users();
        // Only few users have topic permissions, so the type of the exchange is seldom needed.
        let is_topic =
            users.rights(who, vhost).limit_keys(source) && self.is_topic_exchange(vhost, source).await?;
        let topic = is_topic.then_some(&**key);
        let destination = destination.into();
        let ask = || permit_binding(verb, destination, source, topic, |v, on| self.known(who, vhost, v, on));
        match self.decide(who, ask).await {
            Err(AdminError::AccessRefused(_)) if who.remote.is_none() && self.catch_up().await => {
                self.decide(who, ask).await
            }
            decided => decided,
        }
    }

    pub(super) async fn permit_connection(
        &self,
        who: &Identity,
        row: &ConnectionRow,
    ) -> Result<(), AdminError> {
        self.permit(who, &row.vhost, Verb::ReadConnection, &[Resource::Connection(row.owner())]).await
    }
}
