//! Virtual hosts: what they begin with, their limits, and their end.

use super::*;

#[test]
fn deleting_a_virtual_host_needs_no_queues_and_clears_permissions() {
    let mut catalog = Catalog::default();
    let user = |name: &str| {
        Command::Account(AccountChange::SetUser {
            name: name.into(),
            hash: Hashing::Sha256.hash([1; 16], &Secret::new("p")),
            tags: [].into(),
        })
    };
    let grant = |user: &str, vhost: &str| {
        Command::Account(AccountChange::SetPermissions {
            user: user.into(),
            vhost: vhost.into(),
            permissions: Permissions::ALL,
        })
    };
    run(&mut catalog, user("u"));
    assert!(matches!(decide(&catalog, grant("u", "v")), Err(CatalogError::NotFound { .. })));
    run(&mut catalog, Command::Account(AccountChange::add_vhost("v")));
    assert!(matches!(decide(&catalog, grant("nobody", "v")), Err(CatalogError::NotFound { .. })));
    run(&mut catalog, grant("u", "v"));
    // A new password keeps the permissions.
    run(&mut catalog, user("u"));
    let declare = DeclareQueue::new("v", "q", Arguments::new());
    run(&mut catalog, Command::DeclareQueue(declare));
    let delete = || Command::Account(AccountChange::DeleteVhost { name: "v".into() });
    let queue = catalog.listed_queue("v", "q").unwrap().id;
    // Only what was closed is deleted: somebody else may have deleted it, and made it anew.
    assert!(decide(&catalog, delete()).unwrap().changes.is_empty());
    run(&mut catalog, Command::Account(AccountChange::CloseVhost { name: "v".into() }));
    // The log may name it once more. That makes no new one.
    catalog.apply(&Change::VhostAdded { name: "v".into() });
    assert!(matches!(decide(&catalog, delete()), Err(CatalogError::PreconditionFailed { .. })));
    run(&mut catalog, Command::ForgetQueue { queue });
    assert!(catalog.users().get("u").unwrap().permissions.contains_key("v"));
    run(&mut catalog, delete());
    assert!(!catalog.has_vhost("v") && catalog.users().get("u").unwrap().permissions.is_empty());
    // A new virtual host of the same name starts empty.
    run(&mut catalog, Command::Account(AccountChange::add_vhost("v")));
    assert!(catalog.exchange("v", "amq.direct").is_some());
    assert!(catalog.users().get("u").unwrap().permissions.is_empty());
    assert!(matches!(
        decide(&catalog, Command::Account(AccountChange::add_vhost(""))),
        Err(CatalogError::Invalid { .. })
    ));
}

#[test]
fn whoever_adds_a_virtual_host_may_do_everything_in_it() {
    let mut catalog = Catalog::default();
    let user = |name: &str| AccountChange::SetUser {
        name: name.into(),
        hash: Hashing::Sha256.of_nobody(),
        tags: [].into(),
    };
    run(&mut catalog, Command::Account(user("ann")));
    run(&mut catalog, Command::Account(user("bob")));
    let add = |creator: &str| {
        let (patch, creator) = (VhostPatch::default(), Some(creator.into()));
        Command::Account(AccountChange::SetVhost { name: "v".into(), patch, creator })
    };
    let of = |catalog: &Catalog, user| catalog.users().get(user).unwrap().permissions.get("v").cloned();
    run(&mut catalog, add("ann"));
    assert_eq!(of(&catalog, "ann"), Some(Permissions::ALL));
    run(&mut catalog, add("bob"));
    assert_eq!(of(&catalog, "bob"), None, "it was there already");
    let mut other = Catalog::default();
    run(&mut other, add("stranger"));
    assert!(other.has_vhost("v") && other.users().get("stranger").is_none());
}

#[test]
fn a_new_virtual_host_gets_what_the_configuration_says() {
    let hash = |password| Hashing::Sha256.hash([1; 16], &Secret::new(password));
    let limits = |vhosts, max_queues| DefaultLimits {
        vhosts: Pattern::new(vhosts).unwrap(),
        max_connections: Some(5),
        max_queues,
    };
    let user = |name: &str, vhosts| DefaultUser {
        name: name.into(),
        vhosts: Pattern::new(vhosts).unwrap(),
        hash: hash("of the configuration"),
        tags: [String::from("monitoring")].into(),
        permissions: Permissions::NONE,
    };
    let of_operators = SetPolicy {
        vhost: "".into(),
        name: "ceiling".into(),
        operator: true,
        pattern: "^amq".into(),
        priority: 0,
        apply_to: "queues".into(),
        definition: [("max-length", 5)].into_iter().map(|(k, v)| (k.to_owned(), v.into())).collect(),
    };
    let vhost_defaults = Arc::new(VhostDefaults {
        limits: vec![limits("^team", Some(1)), limits("^te|^/$", Some(2))],
        users: vec![user("probe", ".*"), user("ann", "^team")],
        operator_policies: vec![DefaultPolicy::new(Pattern::new("^team").unwrap(), of_operators).unwrap()],
    });
    let mut catalog = Catalog::default();
    catalog.set_rules(DeclareRules { vhost_defaults, ..DeclareRules::default() });
    // The first start counts for the virtual host that is there from the start.
    let changes = catalog.begin_users(&Access::default());
    assert!(!changes.is_empty());
    assert_eq!(catalog.vhost_settings("/").unwrap().max_queues, Some(2));
    assert!(catalog.begin_users(&Access::default()).is_empty(), "there is a user now");
    let set = AccountChange::SetUser { name: "ann".into(), hash: hash("hers"), tags: [].into() };
    run(&mut catalog, Command::Account(set));

    let patch = VhostPatch { max_connections: Some(None), ..VhostPatch::default() };
    let add = AccountChange::SetVhost { name: "team-a".into(), patch, creator: Some("ann".into()) };
    run(&mut catalog, Command::Account(add));
    let settings = catalog.vhost_settings("team-a").unwrap();
    assert_eq!((settings.max_queues, settings.max_connections), (Some(1), None), "the request counts");
    let of = |user: &str| catalog.users().get(user).unwrap();
    assert_eq!(of("probe").permissions.get("team-a"), Some(&Permissions::NONE));
    assert_eq!((&*of("probe").tags[0], &of("probe").hash), ("monitoring", &hash("of the configuration")));
    assert_eq!((of("ann").tags.len(), &of("ann").hash), (0, &hash("hers")), "a user who exists stays");
    assert_eq!(of("ann").permissions.get("team-a"), Some(&Permissions::ALL), "the creator");
    run(&mut catalog, Command::Account(AccountChange::add_vhost("other")));
    assert_eq!(**catalog.vhost_settings("other").unwrap(), VhostSettings::default());
    assert!(!catalog.users().get("ann").unwrap().permissions.contains_key("other"));
    let policies: Vec<_> = catalog.policies(true).map(|p| (&*p.vhost, &*p.name, p.priority)).collect();
    assert_eq!(policies, [("team-a", "ceiling", 0)]);
}

#[test]
fn a_virtual_host_has_a_default_type_and_limits() {
    let mut catalog = Catalog::default();
    let set = |patch| {
        let creator = None;
        Command::Account(AccountChange::SetVhost { name: "v".into(), patch, creator })
    };
    let declare = |name: &str| Command::DeclareQueue(DeclareQueue::new("v", name, Arguments::new()));
    let patch = VhostPatch {
        default_queue_type: Some(Some(QueueType::Quorum)),
        max_queues: Some(Some(2)),
        ..VhostPatch::default()
    };
    run(&mut catalog, set(patch));
    run(&mut catalog, declare("a"));
    assert_eq!(catalog.listed_queue("v", "a").unwrap().config.queue_type(), QueueType::Quorum);
    assert_eq!(catalog.listed_queue("v", "a").unwrap().arguments.get("x-queue-type"), Some(&"quorum".into()));
    run(&mut catalog, declare("a"));
    run(&mut catalog, declare("b"));
    let full = decide(&catalog, declare("c")).unwrap_err();
    assert_eq!(full.to_string(), "cannot declare queue 'c': queue limit in vhost 'v' (2) is reached");
    run(&mut catalog, set(VhostPatch { description: Some("ours".into()), ..VhostPatch::default() }));
    let settings = catalog.vhost_settings("v").unwrap();
    assert_eq!((&*settings.description, settings.max_queues), ("ours", Some(2)));
}

#[test]
fn a_virtual_host_that_is_being_deleted_cannot_be_used() {
    let mut catalog = Catalog::default();
    run(&mut catalog, Command::Account(AccountChange::add_vhost("v")));
    run(&mut catalog, Command::DeclareQueue(DeclareQueue::new("v", "q", Arguments::new())));
    let close = || Command::Account(AccountChange::CloseVhost { name: "v".into() });
    let protect = |protected| {
        let patch = VhostPatch { protected: Some(protected), ..VhostPatch::default() };
        Command::Account(AccountChange::SetVhost { name: "v".into(), patch, creator: None })
    };
    run(&mut catalog, protect(true));
    let refused = decide(&catalog, close()).unwrap_err();
    assert_eq!(refused.to_string(), "vhost 'v' is protected from deletion");
    run(&mut catalog, protect(false));
    run(&mut catalog, close());
    assert!(!catalog.has_vhost("v") && catalog.listed_queue("v", "q").is_some());
    let refused = |command| decide(&catalog, command).unwrap_err().to_string();
    assert_eq!(refused(Command::DeclareQueue(DeclareQueue::new("v", "r", Arguments::new()))), "no vhost 'v'");
    let binding = Binding {
        vhost: "v".into(),
        source: "amq.direct".into(),
        destination: Destination::Queue("q".into()),
        key: "k".into(),
        arguments: Arguments::new(),
    };
    assert_eq!(refused(Command::Bind(binding, Caller::Management)), "no vhost 'v'");
    assert_eq!(refused(protect(true)), "vhost 'v' is being deleted");
    // The deletion can be asked for again, and a restart does not forget it.
    run(&mut catalog, close());
    let mut rebuilt = Catalog::default();
    catalog.definitions().iter().for_each(|change| rebuilt.apply(change));
    assert!(!rebuilt.has_vhost("v") && rebuilt.vhost_settings("v").unwrap().deleting);
}
