//! The effect of policies on existing and new objects.

use super::*;
use crate::access::TopicPermissions;

#[test]
fn policies_apply_to_existing_and_new_queues() {
    let mut catalog = Catalog::default();
    run(&mut catalog, queue("q1", &[("x-max-length", Value::Int(50))]));
    let max = |catalog: &Catalog, name: &str| catalog.listed_queue("/", name).unwrap().config.max_length;
    let length = |n: i32| [("max-length", Value::Int(n))];

    let (answer, _) = run(&mut catalog, policy("p", false, "^q", 0, &length(10)));
    assert_eq!(answer, Answer::Set { created: true });
    run(&mut catalog, queue("q2", &[]));
    assert_eq!((max(&catalog, "q1"), max(&catalog, "q2")), (Some(10), Some(10)));

    // A policy of higher priority applies even if it allows more. The argument still limits the queue.
    run(&mut catalog, policy("high", false, "q1", 1, &length(100)));
    assert_eq!((max(&catalog, "q1"), max(&catalog, "q2")), (Some(50), Some(10)));
    run(&mut catalog, policy("op", true, "", 0, &length(20)));
    assert_eq!((max(&catalog, "q1"), max(&catalog, "q2")), (Some(20), Some(10)));

    // A policy whose pattern no longer matches a queue stops applying to it.
    let (answer, _) = run(&mut catalog, policy("high", false, "other", 1, &length(100)));
    assert_eq!(answer, Answer::Set { created: false });
    assert_eq!(max(&catalog, "q1"), Some(10));
    run(&mut catalog, clear("p", false));
    run(&mut catalog, clear("op", true));
    assert_eq!((max(&catalog, "q1"), max(&catalog, "q2")), (Some(50), None));
    assert_eq!(catalog.listed_queue("/", "q1").unwrap().policy, None);

    let version = catalog.version();
    assert_eq!(run(&mut catalog, clear("p", false)).0, Answer::Done { changed: false });
    assert_eq!(run(&mut catalog, policy("high", false, "other", 1, &length(100))).1, []);
    assert_eq!(catalog.version(), version, "nothing changed");
}

/// A record reads the same however many records the update has visited, and whatever else has changed meanwhile.
#[test]
fn an_outdated_record_reads_like_a_refreshed_one() {
    let length = |n: i32| [("max-length", Value::Int(n))];
    let alternate = |to: &str| [("alternate-exchange", to.into())];
    let commands = |catalog: &mut Catalog, visit: &mut dyn FnMut(&mut Catalog)| {
        let mut place = |catalog: &mut Catalog, command| {
            run(catalog, command);
            visit(catalog);
        };
        for name in ["q1", "q2", "q3"] {
            place(catalog, queue(name, &[]));
        }
        place(catalog, policy("p", false, "", 0, &length(10)));
        place(catalog, queue("q4", &[]));
        place(catalog, policy("p", false, "q[13]", 0, &length(20)));
        place(catalog, policy("o", true, "", 0, &length(15)));
        let id = catalog.listed_queue("/", "q3").unwrap().id;
        place(catalog, Command::ForgetQueue { queue: id });
        place(catalog, queue("q5", &[]));
        place(catalog, policy("x", false, "amq", 0, &alternate("a")));
        place(catalog, policy("x", false, "amq.d", 0, &alternate("b")));
        place(catalog, clear("o", true));
    };
    let [mut outdated, mut visited] = [Catalog::default(), Catalog::default()];
    commands(&mut outdated, &mut |_| {});
    let mut place = 0;
    commands(&mut visited, &mut |catalog| {
        place += 1;
        catalog.refresh_queue_at(place % 3);
        catalog.refresh_exchange_at(place % 4);
    });
    let read = |catalog: &Catalog| {
        let mut exchanges: Vec<_> = catalog.exchanges().collect();
        exchanges.sort_by(|a, b| a.name.cmp(&b.name));
        (catalog.queues().collect::<Vec<_>>(), exchanges)
    };
    assert_eq!(read(&outdated), read(&visited));
    let before = read(&outdated);
    outdated.refresh_all();
    assert_eq!(read(&outdated), before);
    let max = |name: &str| outdated.listed_queue("/", name).unwrap().config.max_length;
    assert_eq!(["q1", "q2", "q4", "q5"].map(max), [Some(20), None, None, None]);
    assert_eq!(outdated.exchange("/", "amq.direct").unwrap().alternate.as_deref(), Some("b"));
    assert_eq!(outdated.exchange("/", "amq.topic").unwrap().alternate, None);
    assert_eq!((outdated.queue_count(), outdated.exchange_count()), (4, 7));
}

#[test]
fn the_same_declaration_is_the_same_under_a_policy() {
    let mut catalog = Catalog::default();
    let exchange = |alternate: Option<&str>| {
        Command::DeclareExchange(DeclareExchange {
            vhost: "/".into(),
            name: "x".into(),
            kind: "fanout".into(),
            durable: true,
            auto_delete: false,
            internal: false,
            arguments: alternate
                .map(|a| ("alternate-exchange".to_owned(), Value::from(a)))
                .into_iter()
                .collect(),
        })
    };
    run(&mut catalog, exchange(None));
    run(&mut catalog, policy("p", false, "^x$", 0, &[("alternate-exchange", "amq.fanout".into())]));
    assert_eq!(catalog.exchange("/", "x").unwrap().alternate.as_deref(), Some("amq.fanout"));
    assert_eq!(run(&mut catalog, exchange(None)).0, Answer::Done { changed: false });

    run(&mut catalog, queue("q", &[]));
    let binding = Binding {
        vhost: "/".into(),
        source: "amq.fanout".into(),
        destination: Destination::Queue("q".into()),
        key: "".into(),
        arguments: Arguments::new(),
    };
    run(&mut catalog, Command::Bind(binding, Caller::Management));
    let reached = |catalog: &Catalog| catalog.route("/", "x", &Routable::default()).unwrap().targets.len();
    assert_eq!(reached(&catalog), 1);
    run(&mut catalog, clear("p", false));
    assert_eq!(reached(&catalog), 0);

    // The argument takes precedence over the policy.
    run(&mut catalog, Command::DeleteExchange { vhost: "/".into(), name: "x".into(), if_unused: false });
    run(&mut catalog, policy("p", false, "^x$", 0, &[("alternate-exchange", "amq.fanout".into())]));
    run(&mut catalog, exchange(Some("amq.topic")));
    assert_eq!(catalog.exchange("/", "x").unwrap().alternate.as_deref(), Some("amq.topic"));
}

/// A pattern that may be in hundreds of states behind each character of a name.
const COSTLY: &str = "(?:.?.?.?.?){120}z";

#[test]
fn the_steps_of_the_policies_of_a_vhost_are_bounded_together() {
    let length = [("max-length", Value::Int(1))];
    let mut catalog = Catalog::default();
    // As many policies as there may be, all with patterns as people write them.
    for n in 0..1000 {
        let pattern = format!("^queues-of-the-orders-of-the-team-{n:06}\\..*$");
        run(&mut catalog, policy(&format!("p{n}"), false, &pattern, 0, &length));
    }
    let mut catalog = Catalog::default();
    let set = |catalog: &Catalog, name: &str, operator, pattern: &str| {
        decide(catalog, policy(name, operator, pattern, 0, &length)).map(|decision| decision.changes)
    };
    let mut count = 0;
    let why = loop {
        match set(&catalog, &format!("p{count}"), false, COSTLY) {
            Ok(changes) => changes.iter().for_each(|change| catalog.apply(change)),
            Err(why) => break why.to_string(),
        }
        count += 1;
        assert!(count < 20, "no policy is refused");
    };
    assert!(count > 0 && why.contains("too costly") && why.contains("vhost '/'"), "{count} {why}");
    let steps = catalog.most_policy_steps();
    assert!(steps > 100_000 * count && steps < 3_000_000, "{steps}");
    // What is there already can be set again, or become cheaper. Operator policies have a bound of their own.
    assert_eq!(set(&catalog, "p0", false, COSTLY), Ok(vec![]));
    assert!(set(&catalog, "o", true, COSTLY).is_ok());
    for change in set(&catalog, "p0", false, "^a").unwrap() {
        catalog.apply(&change);
    }
    assert!(catalog.most_policy_steps() < steps);
    assert!(set(&catalog, "another", false, COSTLY).is_ok(), "there is room again");
}

/// Policies of an older version are kept, whatever they cost.
#[test]
fn stored_policies_are_kept_whatever_they_cost() {
    let mut catalog = Catalog::default();
    let set = |name: &str, pattern: &str| {
        let Command::SetPolicy(set) = policy(name, false, pattern, 0, &[("max-length", Value::Int(1))])
        else {
            unreachable!("a policy is set")
        };
        Change::PolicySet(Arc::new(set.check().unwrap()))
    };
    (0..20).for_each(|n| catalog.apply(&set(&format!("p{n}"), COSTLY)));
    assert_eq!(catalog.policies(false).count(), 20);
    let cheaper = policy("p0", false, "^a", 0, &[("max-length", Value::Int(1))]);
    assert!(decide(&catalog, cheaper).is_ok(), "less is always possible");
    assert!(decide(&catalog, policy("p20", false, "^a", 0, &[("max-length", Value::Int(1))])).is_err());
}

#[test]
fn permissions_that_cost_too_much_are_refused() {
    let mut catalog = Catalog::default();
    let hash = Hashing::Sha512.hash([1; 16], &Secret::new("u"));
    let user = AccountChange::SetUser { name: "u".into(), hash, tags: [].into() };
    run(&mut catalog, Command::Account(user));
    let (user, vhost): (Arc<str>, Arc<str>) = ("u".into(), "/".into());
    for (pattern, is_refused) in [("^orders\\.", false), (COSTLY, true)] {
        let permissions = Permissions::new(["", pattern, ""]).unwrap();
        let all = AccountChange::SetPermissions { user: user.clone(), vhost: vhost.clone(), permissions };
        let permissions = TopicPermissions::new([pattern, ""], "u", "/").unwrap();
        let exchange = "amq.topic".into();
        let (user, vhost) = (user.clone(), vhost.clone());
        let keys = AccountChange::SetTopicPermissions { user, vhost, exchange, permissions };
        for change in [all, keys] {
            let decided = decide(&catalog, Command::Account(change)).map(drop).map_err(|why| why.to_string());
            assert_eq!(decided.is_err(), is_refused, "{pattern} {decided:?}");
            let why = decided.err().unwrap_or("write: the pattern is too costly".into());
            assert!(why.starts_with("write: the pattern is too costly"), "{why}");
        }
    }
}
