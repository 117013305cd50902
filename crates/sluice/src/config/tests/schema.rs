//! What happens to each key of the schemas of RabbitMQ 4.3. `docs/rabbitmq-keys.md` is made of this.

use super::super::rabbitmq::{self, Known, NAMES};
use super::super::{Config, Draft, keys};
use super::assert_made;

/// Values of which each key that is taken takes at least one.
const VALUES: [&str; 13] = [
    "true",
    "false",
    "1",
    "a",
    "/a",
    "https://a",
    "verify_peer",
    "tlsv1.3",
    "RS256",
    "internal",
    "PLAIN",
    "wildcard",
    "a@b:1",
];

#[derive(Clone, Debug, PartialEq, Eq)]
enum Outcome {
    Taken,
    NoEffect(String),
    Refused(String),
}

/// Returns what the program does with a key of the list in a file.
fn outcome(listed: &str) -> Option<Outcome> {
    let part = |part: &str| if part.starts_with('$') { "1".to_owned() } else { part.to_owned() };
    let name: Vec<String> = listed.split('.').map(part).collect();
    let name = name.join(".");
    match keys::find(&name) {
        Some((key, _)) if key.name == name => Some(Outcome::Taken),
        Some(_) => Some(match VALUES.iter().any(|value| refusal(&name, value).is_none()) {
            true => Outcome::Taken,
            false => Outcome::Refused(refusal(&name, "1")?),
        }),
        None => match rabbitmq::find(&name, "?")? {
            Known::NoEffect(why) => Some(Outcome::NoEffect(why.to_owned())),
            Known::Guard(why) => Some(Outcome::Refused(why.to_owned())),
        },
    }
}

/// Returns why this value of a key is refused.
fn refusal(name: &str, value: &str) -> Option<String> {
    let mut draft = Draft::default();
    if let Err(why) = draft.set(name, value, "") {
        return why.split_once("': ").map(|(_, need)| need.to_owned());
    }
    // Whether a policy has such a setting is known at the end.
    let mut problems = draft.contradictions().into_iter().map(|problem| problem.problem);
    problems.find(|problem| problem.contains("is not recognised"))
}

/// Returns the page.
fn page() -> String {
    let mut page = String::from(
        "# The keys of RabbitMQ 4.3\n\n\
         What Sluice does with each key of RabbitMQ 4.3 and its plugins in a configuration file. You choose the parts of a key that begin with `$`.\n\
         [sluice.conf.example](../sluice.conf.example) describes the keys that are taken, and [operations/start.md](operations/start.md#a-rabbitmqconf) has the\n\
         rules. A key that is refused here has no effect if its value is what Sluice does anyway.\n\n\
         A test makes this page: `UPDATE_EXAMPLE=1 cargo test -p sluice the_page_of_keys`.\n\n\
         | key | Sluice | why |\n|---|---|---|\n",
    );
    for name in NAMES.lines() {
        let row = match outcome(name).unwrap() {
            Outcome::Taken => ("taken", String::new()),
            Outcome::NoEffect(why) => ("no effect", why + " "),
            Outcome::Refused(why) => ("refused", why + " "),
        };
        page.push_str(&format!("| `{name}` | {} | {}|\n", row.0, row.1));
    }
    page
}

#[test]
fn each_key_of_the_schema_has_an_outcome() {
    let missing: Vec<&str> = NAMES.lines().filter(|name| outcome(name).is_none()).collect();
    assert_eq!(missing, [""; 0]);
    assert!(NAMES.lines().count() > 1000 && NAMES.lines().is_sorted());
    assert_eq!(outcome("heartbeat"), Some(Outcome::Taken));
    assert_eq!(outcome("auth_oauth2.oauth_providers.$name.https.verify"), Some(Outcome::Taken));
    assert!(matches!(outcome("mqtt.vhost"), Some(Outcome::NoEffect(_))));
    assert!(matches!(outcome("ssl_options.ciphers.$cipher"), Some(Outcome::Refused(_))));
}

/// A key of RabbitMQ is no typo of a key of Sluice.
#[test]
fn no_key_of_the_schema_is_taken_for_a_typo() {
    for name in NAMES.lines().filter(|name| !name.contains('$')) {
        let refused = Config::parse(&format!("{name} = ?"), "f", &[]);
        let refused = refused.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(!refused.contains("unknown key"), "{refused}");
    }
}

#[test]
fn the_page_of_keys_is_up_to_date() {
    assert_made("docs/rabbitmq-keys.md", &page(), "the_page_of_keys");
}
