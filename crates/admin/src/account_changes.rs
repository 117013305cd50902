//! Carries out changes of users, permissions and virtual hosts.

use catalog::AccountChange;

use crate::call::Call;
use crate::reply::{Failure, Reply};

/// Adds or changes an object.
pub(crate) async fn set(call: &Call<'_>, change: AccountChange) -> Result<Reply, Failure> {
    let created = call.api.change_account(&call.who, change).await?;
    Ok(if created { Reply::Created(None) } else { Reply::NoContent })
}

/// Deletes an object. Fails with `nothing` if there is none.
pub(crate) async fn delete(
    call: &Call<'_>,
    change: AccountChange,
    nothing: impl FnOnce() -> Failure,
) -> Result<Reply, Failure> {
    let deleted = call.api.change_account(&call.who, change).await?;
    if deleted { Ok(Reply::NoContent) } else { Err(nothing()) }
}
