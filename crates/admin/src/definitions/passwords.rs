//! The passwords of users in definitions.

use amqp10::sasl::Secret;
use catalog::access::{Identity, PasswordHash};
use catalog::{AccountChange, Command};
use node::AdminApi;

use crate::reply::Failure;

/// Hashes passwords for the commands with these numbers. A user keeps a hash of the configured algorithm that is of the password.
/// Otherwise each start with `load_definitions` would write all these users again.
///
/// # Errors
/// The admin API's error.
pub(super) async fn hash(
    api: &AdminApi,
    who: &Identity,
    passwords: Vec<(usize, Secret)>,
    commands: &mut [Command],
) -> Result<(), Failure> {
    if passwords.is_empty() {
        return Ok(());
    }
    let users = api.users(who)?;
    let configured = api.hash_password(who, None).await?.hashing();
    for (at, password) in passwords {
        let Some(Command::Account(AccountChange::SetUser { name, hash, .. })) = commands.get_mut(at) else {
            continue;
        };
        let known = users.get(name).map(|user| &user.hash).filter(|known| known.hashing() == configured);
        let is_known = match known {
            Some(known) => is_of(known.clone(), password.clone()).await,
            None => false,
        };
        *hash = match known.filter(|_| is_known) {
            Some(known) => known.clone(),
            None => api.hash_password(who, Some(password)).await?,
        };
    }
    Ok(())
}

/// Checks a password on a thread of its own, because this can take many milliseconds. Returns false if the process ends before.
async fn is_of(hash: PasswordHash, password: Secret) -> bool {
    tokio::task::spawn_blocking(move || hash.is_of(&password)).await.unwrap_or(false)
}
