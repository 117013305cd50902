//! Users, permissions and virtual hosts.

use broker::access::PasswordHash;
use broker::catalog::Command;
use broker::desk::{AccountChange, DeskError, NewPassword};

use super::NodeDesk;
use super::ask::LOGIN_DEADLINE;
use crate::logins::NewHash;
use crate::randomness::random;

impl NodeDesk {
    /// Returns the command for a change. Hashes a new password, so this may take as long as a login.
    pub(super) async fn account_command(&self, change: AccountChange) -> Result<Command, DeskError> {
        Ok(match change {
            AccountChange::SetUser { name, password, tags } => {
                Command::SetUser { name, hash: self.hash(password).await?, tags }
            }
            AccountChange::DeleteUser { name } => Command::DeleteUser { name },
            AccountChange::SetPermissions { user, vhost, permissions } => {
                Command::SetPermissions { user, vhost, permissions }
            }
            AccountChange::ClearPermissions { user, vhost } => Command::ClearPermissions { user, vhost },
            AccountChange::AddVhost { name } => Command::AddVhost { name },
            AccountChange::DeleteVhost { name } => Command::DeleteVhost { name },
        })
    }

    async fn hash(&self, password: NewPassword) -> Result<PasswordHash, DeskError> {
        let hashing = self.inner.access.hashing();
        let password = match password {
            NewPassword::Plain(password) => password,
            NewPassword::Hash(hash) => return Ok(hash),
            NewPassword::Without => return Ok(hashing.of_nobody()),
        };
        let no_salt =
            |error| DeskError::Impossible(format!("there is no random salt for the password: {error}"));
        let salt = random().map_err(no_salt)?;
        let hashed = self.inner.checker.hash(NewHash { hashing, salt, password });
        let answer = tokio::time::timeout(LOGIN_DEADLINE, hashed).await;
        answer.ok().and_then(Result::ok).ok_or(DeskError::TimedOut)
    }
}
