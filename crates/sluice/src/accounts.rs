//! `sluice user`, `sluice vhost`, `sluice permission` and `sluice limit`: who may use the broker, and how much of it.

use clap::{Args, Subcommand};
use hyper::{Method, StatusCode};
use serde_json::{Value, json};

use crate::amqp::block_on;
use crate::declare::segment;
use crate::failure::Failure;
use crate::http::{Api, Vhost};
use crate::output::print;
use crate::password::PasswordFrom;
use crate::table::{Column, print_list};

#[derive(Args, Debug)]
pub struct User {
    #[command(subcommand)]
    what: OfUser,
    /// Print the response of the management API
    #[arg(long, global = true)]
    json: bool,
    #[command(flatten)]
    api: Api,
}

/// The aliases are the names of `rabbitmqctl`.
#[derive(Debug, Subcommand)]
enum OfUser {
    /// Create a user; the password is asked for, or read from standard input
    #[command(alias = "add_user")]
    Add {
        name: String,
        /// Tags, with commas between: administrator, monitoring, policymaker, management, impersonator
        #[arg(long, value_name = "TAGS", value_delimiter = ',')]
        tags: Vec<String>,
        /// Create a user who cannot log in with a password
        #[arg(long, conflicts_with = "password_file")]
        no_password: bool,
        #[command(flatten)]
        password: PasswordFrom,
    },
    /// Change the password of a user; it is asked for, or read from standard input
    #[command(alias = "change_password")]
    ChangePassword {
        name: String,
        #[command(flatten)]
        password: PasswordFrom,
    },
    /// Replace the tags of a user; without tags, the user has none
    #[command(alias = "set_user_tags")]
    SetTags { name: String, tags: Vec<String> },
    /// Delete users, and close their connections
    #[command(alias = "delete_user")]
    Delete {
        #[arg(required = true)]
        names: Vec<String>,
    },
    /// Print the hash of a password, for definitions; it is asked for, or read from standard input
    #[command(alias = "hash_password")]
    HashPassword {
        #[command(flatten)]
        password: PasswordFrom,
    },
    /// List the users
    #[command(alias = "list_users")]
    List {
        /// List only users who have no permissions in any virtual host
        #[arg(long)]
        without_permissions: bool,
    },
    /// List the permissions of a user
    #[command(alias = "list_user_permissions")]
    Permissions { name: String },
    /// List the topic permissions of a user
    #[command(alias = "list_user_topic_permissions")]
    TopicPermissions { name: String },
}

#[derive(Args, Debug)]
pub struct VirtualHost {
    #[command(subcommand)]
    what: OfVhost,
    /// Print the response of the management API
    #[arg(long, global = true)]
    json: bool,
    #[command(flatten)]
    api: Api,
}

#[derive(Debug, Subcommand)]
enum OfVhost {
    /// Add a virtual host, or change the settings of one
    #[command(alias = "add_vhost", alias = "update_vhost_metadata")]
    Add {
        name: String,
        #[arg(long, value_name = "TEXT")]
        description: Option<String>,
        /// Tags, with commas between
        #[arg(long, value_name = "TAGS", value_delimiter = ',')]
        tags: Option<Vec<String>>,
        /// The type of a queue whose declaration names none: classic, quorum or stream
        #[arg(long, value_name = "TYPE")]
        default_queue_type: Option<String>,
    },
    /// Delete a virtual host with everything in it, and close its connections
    #[command(alias = "delete_vhost")]
    Delete { name: String },
    /// Protect a virtual host from deletion
    #[command(alias = "enable_vhost_deletion_protection")]
    Protect { name: String },
    /// Allow the deletion of a virtual host again
    #[command(alias = "disable_vhost_deletion_protection")]
    Unprotect { name: String },
    /// List the virtual hosts
    #[command(alias = "list_vhosts")]
    List,
}

#[derive(Args, Debug)]
pub struct Permission {
    #[command(subcommand)]
    what: OfPermission,
    #[command(flatten)]
    vhost: Vhost,
    /// Print the response of the management API
    #[arg(long, global = true)]
    json: bool,
    #[command(flatten)]
    api: Api,
}

#[derive(Debug, Subcommand)]
enum OfPermission {
    /// Set what a user may configure, write and read: regular expressions, `.*` for all names, "" for none
    #[command(alias = "set_permissions")]
    Set { user: String, configure: String, write: String, read: String },
    /// Remove the permissions of a user, and close the user's connections in the virtual host
    #[command(alias = "clear_permissions")]
    Clear { user: String },
    /// List the permissions in the virtual host
    #[command(alias = "list_permissions")]
    List,
    /// Set the routing keys that a user may publish with and bind with at a topic exchange
    #[command(alias = "set_topic_permissions")]
    SetTopic { user: String, exchange: String, write: String, read: String },
    /// Remove the topic permissions of a user, for one exchange or for all
    #[command(alias = "clear_topic_permissions")]
    ClearTopic { user: String, exchange: Option<String> },
    /// List the topic permissions in the virtual host
    #[command(alias = "list_topic_permissions")]
    ListTopic,
}

#[derive(Args, Debug)]
pub struct Limit {
    #[command(subcommand)]
    what: OfLimit,
    /// The user, instead of the virtual host, that is limited
    #[arg(long, global = true, value_name = "NAME", conflicts_with = "vhost")]
    user: Option<String>,
    #[command(flatten)]
    vhost: Vhost,
    /// Print the response of the management API
    #[arg(long, global = true)]
    json: bool,
    #[command(flatten)]
    api: Api,
}

#[derive(Debug, Subcommand)]
enum OfLimit {
    /// Set max-connections or max-queues of the virtual host, or max-connections or max-channels of the user
    #[command(alias = "set_vhost_limits", alias = "set_user_limits")]
    Set { limit: String, value: u32 },
    /// Remove a limit
    #[command(alias = "clear_vhost_limits", alias = "clear_user_limits")]
    Clear { limit: String },
    /// List the limits of all virtual hosts and users
    #[command(alias = "list_vhost_limits", alias = "list_user_limits")]
    List,
}

pub const USERS: &[Column] = &[("NAME", "name"), ("TAGS", "tags"), ("PASSWORD HASH", "hashing_algorithm")];
pub const VHOSTS: &[Column] = &[
    ("NAME", "name"),
    ("DEFAULT TYPE", "default_queue_type"),
    ("PROTECTED", "protected_from_deletion"),
    ("LIMITS", "limits"),
    ("TAGS", "tags"),
    ("DESCRIPTION", "description"),
];
const VHOST_LIMITS: &[Column] = &[("VHOST", "vhost"), ("LIMITS", "value")];
const USER_LIMITS: &[Column] = &[("USER", "user"), ("LIMITS", "value")];
pub const PERMISSIONS: &[Column] =
    &[("USER", "user"), ("VHOST", "vhost"), ("CONFIGURE", "configure"), ("WRITE", "write"), ("READ", "read")];
const TOPICS: &[Column] =
    &[("USER", "user"), ("VHOST", "vhost"), ("EXCHANGE", "exchange"), ("WRITE", "write"), ("READ", "read")];

/// Carries out a verb about users, and prints its result.
///
/// # Errors
/// The broker's error, or there is no password.
pub fn user(user: &User) -> Result<(), Failure> {
    block_on(about_user(user))
}

async fn about_user(user: &User) -> Result<(), Failure> {
    let User { what, json, api } = user;
    match what {
        OfUser::Add { name, tags, no_password, password } => {
            let mut fields = json!({ "tags": tags });
            if !*no_password {
                fields["password"] = password.read(&for_user(name))?.into();
            }
            let words = format!("create user '{name}'");
            // PUT alone would change a user who exists.
            let (_, users) = api.ask(&words, Method::GET, "/api/users", None).await?;
            if users.as_array().is_some_and(|users| users.iter().any(|user| user["name"] == *name)) {
                return Err(api.failed(&words, "the user exists already"));
            }
            api.ask(&words, Method::PUT, &of_user(name), Some(&fields)).await?;
            print(&format!("user '{name}' is created\n"))
        }
        OfUser::ChangePassword { name, password } => {
            let password = password.read(&for_user(name))?;
            change_user(
                api,
                &format!("change the password of user '{name}'"),
                name,
                |user| json!({ "tags": user["tags"], "password": password }),
            )
            .await?;
            print(&format!("the password of user '{name}' is changed\n"))
        }
        OfUser::SetTags { name, tags } => {
            change_user(api, &format!("set the tags of user '{name}'"), name, |user| {
                json!({
                    "tags": tags,
                    "password_hash": user["password_hash"],
                    "hashing_algorithm": user["hashing_algorithm"],
                })
            })
            .await?;
            print(&format!("the tags of user '{name}' are set\n"))
        }
        OfUser::Delete { names } => {
            for name in names {
                api.ask(&format!("delete user '{name}'"), Method::DELETE, &of_user(name), None).await?;
                print(&format!("user '{name}' is deleted\n"))?;
            }
            Ok(())
        }
        OfUser::HashPassword { password } => {
            let fields = json!({ "password": password.read("Password to hash")? });
            let path = "/api/auth/hash_password";
            let (_, answer) = api.ask("hash a password", Method::POST, path, Some(&fields)).await?;
            print(&match *json {
                true => format!("{answer:#}\n"),
                false => format!("{}\n", answer["ok"].as_str().unwrap_or_default()),
            })
        }
        OfUser::List { without_permissions } => {
            let path = if *without_permissions { "/api/users/without-permissions" } else { "/api/users" };
            print_list(api, "list the users", path, USERS, *json).await
        }
        OfUser::Permissions { name } => {
            let words = format!("list the permissions of user '{name}'");
            print_list(api, &words, &format!("{}/permissions", of_user(name)), PERMISSIONS, *json).await
        }
        OfUser::TopicPermissions { name } => {
            let words = format!("list the topic permissions of user '{name}'");
            print_list(api, &words, &format!("{}/topic-permissions", of_user(name)), TOPICS, *json).await
        }
    }
}

/// Carries out a verb about virtual hosts, and prints its result.
///
/// # Errors
/// The broker's error.
pub fn vhost(vhost: &VirtualHost) -> Result<(), Failure> {
    block_on(about_vhost(vhost))
}

async fn about_vhost(vhost: &VirtualHost) -> Result<(), Failure> {
    let VirtualHost { what, json, api } = vhost;
    let path = |name: &str| format!("/api/vhosts/{}", segment(name));
    match what {
        OfVhost::Add { name, description, tags, default_queue_type } => {
            let mut fields = json!({});
            for (field, value) in [
                ("description", description.as_ref().map(|text| json!(text))),
                ("tags", tags.as_ref().map(|tags| json!(tags))),
                ("default_queue_type", default_queue_type.as_ref().map(|kind| json!(kind))),
            ] {
                value.into_iter().for_each(|value| fields[field] = value);
            }
            let (status, _) =
                api.ask(&format!("add vhost '{name}'"), Method::PUT, &path(name), Some(&fields)).await?;
            print(&match status {
                StatusCode::CREATED => format!("vhost '{name}' is added\n"),
                _ => format!("vhost '{name}' existed already\n"),
            })
        }
        OfVhost::Delete { name } => {
            api.ask(&format!("delete vhost '{name}'"), Method::DELETE, &path(name), None).await?;
            print(&format!("vhost '{name}' is deleted\n"))
        }
        OfVhost::Protect { name } => {
            let path = format!("{}/deletion/protection", path(name));
            api.ask(&format!("protect vhost '{name}'"), Method::POST, &path, None).await?;
            print(&format!("vhost '{name}' is protected from deletion\n"))
        }
        OfVhost::Unprotect { name } => {
            let path = format!("{}/deletion/protection", path(name));
            api.ask(&format!("unprotect vhost '{name}'"), Method::DELETE, &path, None).await?;
            print(&format!("vhost '{name}' may be deleted\n"))
        }
        OfVhost::List => print_list(api, "list the vhosts", "/api/vhosts", VHOSTS, *json).await,
    }
}

/// Carries out a verb about permissions, and prints its result.
///
/// # Errors
/// The broker's error.
pub fn permission(permission: &Permission) -> Result<(), Failure> {
    block_on(about_permission(permission))
}

async fn about_permission(permission: &Permission) -> Result<(), Failure> {
    let Permission { what, vhost, json, api } = permission;
    let vhost = &vhost.vhost;
    let in_vhost = segment(vhost);
    let of = |user: &str| format!("{in_vhost}/{}", segment(user));
    let change = async |words: String, method, path: String, body: Option<Value>, done: &str| {
        api.ask(&words, method, &path, body.as_ref()).await?;
        print(&format!("{done}\n"))
    };
    match what {
        OfPermission::Set { user, configure, write, read } => {
            change(
                format!("set the permissions of user '{user}' in vhost '{vhost}'"),
                Method::PUT,
                format!("/api/permissions/{}", of(user)),
                Some(json!({ "configure": configure, "write": write, "read": read })),
                "the permissions are set",
            )
            .await
        }
        OfPermission::Clear { user } => {
            change(
                format!("clear the permissions of user '{user}' in vhost '{vhost}'"),
                Method::DELETE,
                format!("/api/permissions/{}", of(user)),
                None,
                "the permissions are cleared",
            )
            .await
        }
        OfPermission::SetTopic { user, exchange, write, read } => {
            change(
                format!("set the topic permissions of user '{user}' in vhost '{vhost}'"),
                Method::PUT,
                format!("/api/topic-permissions/{}", of(user)),
                Some(json!({ "exchange": exchange, "write": write, "read": read })),
                "the topic permissions are set",
            )
            .await
        }
        OfPermission::ClearTopic { user, exchange } => {
            change(
                format!("clear the topic permissions of user '{user}' in vhost '{vhost}'"),
                Method::DELETE,
                match exchange {
                    Some(exchange) => format!("/api/topic-permissions/{}/{}", of(user), segment(exchange)),
                    None => format!("/api/topic-permissions/{}", of(user)),
                },
                None,
                "the topic permissions are cleared",
            )
            .await
        }
        OfPermission::List => {
            let words = format!("list the permissions in vhost '{vhost}'");
            print_list(api, &words, &format!("/api/vhosts/{in_vhost}/permissions"), PERMISSIONS, *json).await
        }
        OfPermission::ListTopic => {
            let words = format!("list the topic permissions in vhost '{vhost}'");
            print_list(api, &words, &format!("/api/vhosts/{in_vhost}/topic-permissions"), TOPICS, *json).await
        }
    }
}

/// Carries out a verb about limits, and prints its result.
///
/// # Errors
/// The broker's error.
pub fn limit(limit: &Limit) -> Result<(), Failure> {
    block_on(about_limit(limit))
}

async fn about_limit(limit: &Limit) -> Result<(), Failure> {
    let Limit { what, user, vhost, json, api } = limit;
    let (whose, path) = match user {
        Some(user) => (format!("user '{user}'"), format!("/api/user-limits/{}", segment(user))),
        None => (format!("vhost '{}'", vhost.vhost), format!("/api/vhost-limits/{}", segment(&vhost.vhost))),
    };
    match what {
        OfLimit::Set { limit, value } => {
            let (words, path) = (format!("limit {whose}"), format!("{path}/{}", segment(limit)));
            api.ask(&words, Method::PUT, &path, Some(&json!({ "value": value }))).await?;
            print(&format!("{limit} of {whose} is {value}\n"))
        }
        OfLimit::Clear { limit } => {
            let (words, path) = (format!("clear a limit of {whose}"), format!("{path}/{}", segment(limit)));
            api.ask(&words, Method::DELETE, &path, None).await?;
            print(&format!("{limit} of {whose} is cleared\n"))
        }
        OfLimit::List => {
            print_list(api, "list the limits of vhosts", "/api/vhost-limits", VHOST_LIMITS, *json).await?;
            print_list(api, "list the limits of users", "/api/user-limits", USER_LIMITS, *json).await
        }
    }
}

fn for_user(name: &str) -> String {
    format!("Password for user '{name}'")
}

fn of_user(name: &str) -> String {
    format!("/api/users/{}", segment(name))
}

/// Replaces a user by what `change` makes of it. A user is sent as a whole.
async fn change_user(
    api: &Api,
    words: &str,
    name: &str,
    change: impl FnOnce(&Value) -> Value,
) -> Result<(), Failure> {
    let (_, user) = api.ask(words, Method::GET, &of_user(name), None).await?;
    api.ask(words, Method::PUT, &of_user(name), Some(&change(&user))).await?;
    Ok(())
}
