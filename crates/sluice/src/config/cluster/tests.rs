use std::path::{Path, PathBuf};

use broker::settings::MinorityLogins;

use super::super::Config;

const SECRET: &str = "Zq0-marker-0123456789";

/// The lines of a node that is named `b@h2`, and one of three.
const LINES: [&str; 6] = [
    "node.name = b@h2",
    "cluster.listener = 10.0.0.2:25672",
    "cluster.secret = Zq0-marker-0123456789",
    "cluster_formation.classic_config.nodes.1 = a@h1:25672",
    "cluster_formation.classic_config.nodes.2 = b@h2:25672",
    "cluster_formation.classic_config.nodes.3 = c.d@192.0.2.3:1",
];

fn parse(text: &str) -> Result<Config, String> {
    Config::parse(text, "f", &[]).map_err(|error| error.to_string())
}

/// Returns why these lines are refused if one of them is replaced. Line 1 has the index 0.
fn refused(index: usize, line: &str) -> String {
    let mut lines = LINES;
    lines[index] = line;
    let why = parse(&lines.join("\n")).expect_err(line);
    assert!(!why.contains("Zq0"), "{why}");
    why
}

/// A file of a test, which is removed at the end.
struct Written(PathBuf);

impl Written {
    fn new(name: &str, content: &[u8]) -> Self {
        let path = std::env::temp_dir().join(format!("sluice-cluster-{}-{name}", std::process::id()));
        std::fs::write(&path, content).unwrap();
        Self(path)
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        drop(std::fs::remove_file(&self.0));
    }
}

#[test]
fn a_cluster_is_a_list_of_nodes() {
    let cluster = parse(&LINES.join("\n")).unwrap().cluster.unwrap();
    let nodes: Vec<_> = cluster.nodes.iter().map(|n| (n.name.as_str(), n.host.as_str(), n.port)).collect();
    assert_eq!(nodes, [("a@h1", "h1", 25672), ("b@h2", "h2", 25672), ("c.d@192.0.2.3", "192.0.2.3", 1)]);
    assert_eq!(cluster.listener, "10.0.0.2:25672".parse().unwrap());
    assert_eq!((cluster.secret.unwrap().expose(), cluster.wait.as_secs()), (SECRET.as_bytes(), 30));
    let more = "cluster_formation.wait = 0\ncluster_formation.peer_discovery_backend = classic_config\n\
                cluster_formation.classic_config.nodes.3 =\ncluster_formation.classic_config.nodes.64 = e@h5:5\n";
    let cluster = parse(&format!("{}\n{more}", LINES.join("\n"))).unwrap().cluster.unwrap();
    let refusing = parse("cluster.minority_logins = refuse").unwrap();
    assert_eq!(refusing.settings.minority_logins, MinorityLogins::Refuse);
    let why = parse("cluster.minority_logins = deny").expect_err("neither of the two");
    assert!(why.contains("allow or refuse is needed"), "{why}");
    assert_eq!((cluster.wait.as_secs(), cluster.nodes.len(), cluster.nodes[2].port), (0, 3, 5));
    let wait = |s: &str| parse(&format!("cluster_formation.wait = {s}"));
    assert!(wait("86400").is_ok() && wait("86401").is_err() && wait("-1").is_err());
}

#[test]
fn a_node_without_a_list_is_alone() {
    assert!(Config::default().cluster.is_none());
    let alone = "cluster_formation.wait = 5\ncluster_formation.peer_discovery_backend = classic_config\n\
                 cluster_formation.classic_config.nodes.1 = a@h1:1\ncluster_formation.classic_config.nodes.1 =\n";
    assert!(parse(alone).unwrap().cluster.is_none());
}

#[test]
fn a_part_of_a_cluster_names_the_line_that_is_missing() {
    let first = "f:4: cluster_formation.classic_config.nodes.1: ";
    for (index, needs) in [
        (1, "it needs cluster.listener, the address where the other nodes connect, such as 10.0.0.1:25672"),
        (
            2,
            "it needs cluster.secret, cluster.secret_file or cluster.ssl_options.certfile: without a secret and a certificate, anybody who can connect could join the cluster",
        ),
        (
            4,
            "this node is not in the list: its name is b@h2. List it, or set node.name to the name that it has in the list",
        ),
    ] {
        assert_eq!(refused(index, ""), format!("{first}{needs}"));
    }
    // Everything that is missing is named at once.
    let nodes = parse("\n\n\ncluster_formation.classic_config.nodes.1 = a@h1:1").unwrap_err();
    assert_eq!(nodes.lines().filter(|line| line.starts_with(first)).count(), 3, "{nodes}");
    for (line, key) in [(LINES[1], "cluster.listener"), (LINES[2], "cluster.secret")] {
        assert_eq!(
            parse(line).unwrap_err(),
            format!("f:1: {key}: it has no effect without cluster_formation.classic_config.nodes.1")
        );
    }
}

#[test]
fn a_name_and_an_address_are_in_the_list_once() {
    let third = "f:6: cluster_formation.classic_config.nodes.3: cluster_formation.classic_config.nodes.1 has";
    let is = |line: &str| refused(5, &format!("cluster_formation.classic_config.nodes.3 = {line}"));
    assert_eq!(is("a@h1:1"), format!("{third} the name a@h1, too"));
    assert_eq!(is("c@H1:25672"), format!("{third} the address h1:25672, too"));
    assert_eq!(is("a@h1:25672").lines().count(), 2, "both");
    let mut lines = LINES;
    lines[5] = "cluster_formation.classic_config.nodes.3 = c@h1:1";
    assert!(parse(&lines.join("\n")).is_ok(), "two nodes on one machine have different ports");
}

#[test]
fn a_wrong_value_says_what_is_needed() {
    for wrong in
        ["a@h1", "h1:25672", "a@h1:0", "a@h1:65536", "a@h1:+1", "a@:1", "@h1:1", "a@[::1]:1", "a b@h:1"]
    {
        let why = refused(3, &format!("cluster_formation.classic_config.nodes.1 = {wrong}"));
        let start =
            format!("f:4: 'cluster_formation.classic_config.nodes.1' cannot be '{wrong}': NAME@HOST:PORT");
        assert!(why.starts_with(&start), "{why}");
    }
    for n in ["0", "01", "65", "x", "", "1.2", "-1"] {
        let why = refused(3, &format!("cluster_formation.classic_config.nodes.{n} = a@h1:1"));
        assert!(why.contains("the number of a node: a whole number from 1 to 64"), "{why}");
    }
    for wrong in ["25672", "h2:25672", "10.0.0.2", "10.0.0.2:0", "10.0.0.2:65536", "::1:25672", "none"] {
        let why = refused(1, &format!("cluster.listener = {wrong}"));
        assert!(why.starts_with(&format!("f:2: 'cluster.listener' cannot be '{wrong}': ip:port")), "{why}");
    }
    for wrong in ["dns", "rabbit_peer_discovery_k8s", ""] {
        let why = parse(&format!("cluster_formation.peer_discovery_backend = {wrong}")).unwrap_err();
        assert!(why.contains("classic_config is needed"), "{why}");
    }
}

#[test]
fn a_secret_is_long_and_never_shown() {
    let of = |secret: &str| {
        let mut lines = LINES;
        let line = format!("cluster.secret = {secret}");
        lines[2] = &line;
        parse(&lines.join("\n"))
    };
    for good in ["x".repeat(20), "x".repeat(255), "'# a secret with spaces'".to_owned()] {
        assert!(of(&good).is_ok(), "{good}");
    }
    for bad in ["Zq0".to_owned(), "x".repeat(19), "Zq0".repeat(86), "'Zq0-marker\t0123456789'".to_owned()] {
        let why = of(&bad).unwrap_err();
        let start = "f:3: 'cluster.secret' cannot be '***': text of 20 to 255 bytes";
        assert!(why.starts_with(start) && !why.contains("Zq0"), "{why}");
    }
    let config = format!("{:?}", parse(&LINES.join("\n")).unwrap());
    assert!(!config.contains("Zq0") && config.contains("secret: Some(***)"), "{config}");
}

#[test]
fn a_secret_can_be_in_a_file() {
    let of = |path: &Path| {
        let mut lines = LINES;
        let line = format!("cluster.secret_file = {}", path.display());
        lines[2] = &line;
        parse(&lines.join("\n")).map(|config| config.cluster.unwrap().secret.unwrap())
    };
    for end in ["", "\n", "\r\n"] {
        let file = Written::new("good", format!("{SECRET}{end}").as_bytes());
        assert_eq!(of(file.path()).unwrap().expose(), SECRET.as_bytes());
    }
    for (content, why) in [
        (&b""[..], "the file has no secret"),
        (b"\n", "the file has no secret"),
        (b"Zq0-marker\n", "in the file, text of 20 to 255 bytes"),
        (b"Zq0-marker-0123456789\nZq0-marker-0123456789\n", "in the file, text of 20 to 255 bytes"),
        (&[b'Z'; 1_000_000], "in the file, text of 20 to 255 bytes"),
        (b"Zq0-marker-0123456789\xff", "the file cannot be read"),
    ] {
        let file = Written::new("bad", content);
        let refused = of(file.path()).unwrap_err();
        assert!(
            refused.starts_with("f:3: 'cluster.secret_file' cannot be '") && refused.contains(why),
            "{refused}"
        );
        assert!(!refused.contains("Zq0") && !refused.contains("ZZ"), "{refused}");
    }
    assert!(of("/nowhere/secret".as_ref()).unwrap_err().contains("the file cannot be read: No such file"));
    let file = Written::new("both", SECRET.as_bytes());
    let both = format!("{}\ncluster.secret_file = {}", LINES.join("\n"), file.path().display());
    assert_eq!(
        parse(&both).unwrap_err(),
        "f:7: cluster.secret_file: cluster.secret is set, too: only one of the keys is possible"
    );
    let alone = format!("cluster.secret_file = {}", file.path().display());
    assert!(parse(&alone).unwrap_err().contains("it has no effect without"));
}

#[test]
fn certificates_are_enough() {
    let tls = "cluster.ssl_options.certfile = /c\ncluster.ssl_options.keyfile = /k\n\
               cluster.ssl_options.cacertfile = /a\ncluster.ssl_options.password = Zq0\n";
    let without_secret: Vec<&str> = LINES.into_iter().filter(|line| !line.contains("secret")).collect();
    for lines in [&LINES[..], &without_secret] {
        let config = parse(&format!("{}\n{tls}", lines.join("\n"))).unwrap();
        assert!(!format!("{config:?}").contains("Zq0"));
        let options = config.cluster_certificates.unwrap();
        assert_eq!((options.setting, options.host.as_deref()), ("cluster.ssl_options", Some("h2")));
        assert_eq!((options.pair.certificate.to_str(), options.pair.key.to_str()), (Some("/c"), Some("/k")));
        assert_eq!(options.authorities.as_deref(), Some(Path::new("/a")));
        assert_eq!(options.password, Some(tls::Password::new("Zq0")));
        assert_eq!(config.cluster.unwrap().secret.is_some(), lines.len() == LINES.len());
    }
    assert!(parse(&LINES.join("\n")).unwrap().cluster_certificates.is_none());
    for missing in ["certfile", "keyfile", "cacertfile"] {
        let rest: Vec<&str> = tls.lines().filter(|line| !line.contains(&format!(".{missing} "))).collect();
        let why = parse(&format!("{}\n{}", without_secret.join("\n"), rest.join("\n"))).unwrap_err();
        let set = if missing == "certfile" { "keyfile" } else { "certfile" };
        let expected =
            format!("f:6: cluster.ssl_options.{set}: it has no effect without cluster.ssl_options.{missing}");
        assert_eq!(why, expected);
    }
    for line in tls.lines() {
        let why = parse(line).unwrap_err();
        assert!(why.ends_with("it has no effect without cluster_formation.classic_config.nodes.1"), "{why}");
        assert!(!why.contains("Zq0"), "{why}");
    }
}
