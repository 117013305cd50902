//! Runs the shell blocks of the pages that people read, against the built broker, and compares the output that a page shows.
//!
//! A block is fenced with `sh`. If a block fenced with `text` follows, it is the output: standard output and standard error
//! together. `...` in it stands for any text, and a line of `...` alone for any lines. A comment on the line before a block
//! says how it is run:
//!
//! ```text
//! <!-- test: broker -->               it starts the broker, which runs until the next such block or the end of the page
//! <!-- test: stopped -->              the broker is stopped before it
//! <!-- test: exit 1 -->               it ends with this exit code, and not with 0
//! <!-- test: not run, REASON -->      it is not run
//! <!-- test: packaging/FILE -->       this other test runs it
//! <!-- test: tests/interop CLIENT --> tests/interop/snippets.py runs it: a program in another language
//! ```
//!
//! Blocks of a page share a directory, and the lines that begin with `export`. The broker listens on free ports. The test
//! replaces the ports that a page names in commands, and the free ports in output. `make` and `curl` are scripts of the
//! test, so that it needs no other programs than the build.

use crate::broker;

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use ::broker::explain::Cause;
use broker::{Directory, PROGRAM};
use rustix::process::{Pid, Signal, kill_process};

/// The pages for operators, in the order in which their commands run. The first starts the broker that the next ones use.
const OPERATIONS: [&str; 13] = [
    "README", "start", "size", "watch", "slow", "messages", "data", "limits", "queues", "network",
    "clusters", "users", "logins",
];

#[test]
fn the_readme_is_true() {
    run_page("README.md");
}

#[test]
fn the_tutorial_is_true() {
    run_page("docs/tutorial.md");
}

#[test]
fn the_pages_for_operators_are_true() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operations");
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().file_name());
    let mut found: Vec<String> = files.map(|name| name.to_str().unwrap().replace(".md", "")).collect();
    found.sort();
    let mut expected = OPERATIONS.to_vec();
    expected.sort_unstable();
    assert_eq!(found, expected, "the pages of docs/operations");
    run_pages(&OPERATIONS.map(|name| format!("docs/operations/{name}.md")));
}

#[test]
fn the_page_for_users_of_rabbitmq_is_true() {
    run_page("docs/from-rabbitmq.md");
}

#[test]
fn the_page_about_installation_is_true() {
    run_page("docs/install.md");
}

#[test]
fn the_page_about_upgrades_is_true() {
    run_page("docs/upgrade.md");
}

/// What a configuration of a page may lack, because the page shows the lines of one section: files, and the settings beside it.
const LACKS: [&str; 4] =
    ["cannot read", "it has no effect without", "it must be set", "nobody could log in without"];

/// `sluice check config` knows every key and takes every value that the pages show.
#[test]
fn the_configurations_of_the_pages_are_taken() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let pages = OPERATIONS.map(|name| format!("docs/operations/{name}.md"));
    let directory = Directory::new("configurations");
    let file = directory.path().join("page.conf");
    let mut checked = 0;
    for page in &pages {
        let text = std::fs::read_to_string(root.join(page)).unwrap();
        for block in text.split("\n```ini\n").skip(1) {
            std::fs::write(&file, block.split_once("\n```").unwrap().0).unwrap();
            let ended =
                Command::new(PROGRAM).args(["check", "config", "--config"]).arg(&file).output().unwrap();
            let errors = String::from_utf8(ended.stderr).unwrap();
            let lacks = |line: &str| LACKS.iter().any(|lack| line.contains(lack));
            let wrong: Vec<&str> = errors.lines().filter(|line| !lacks(line)).collect();
            let lacking = !errors.is_empty() && wrong.is_empty();
            assert!(ended.status.success() || lacking, "{page}: {block}\n{}", wrong.join("\n"));
            checked += 1;
        }
    }
    assert!(checked > 5, "{checked} configurations");
}

/// tests/interop/snippets.py runs the programs of the pages for clients. This test finds programs that it would not run.
#[test]
fn every_program_of_a_client_is_run_by_its_suite() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let folder = std::fs::read_dir(docs.join("clients")).unwrap().map(|file| file.unwrap().path());
    let pages: Vec<_> = folder.chain([docs.join("clients.md")]).collect();
    assert!(pages.len() > 5, "the pages for clients: {pages:?}");
    for page in pages {
        let text = std::fs::read_to_string(&page).unwrap();
        assert_eq!(blocks(&text), [], "{} has shell blocks, which no test runs", page.display());
    }
}

#[test]
#[should_panic = "which client"]
fn a_program_without_a_suite_is_found() {
    blocks("```go\nfunc main() {}\n```\n");
}

/// The largest picture of a cause. docs/why.md shows all of them, so larger ones would make it slow to open.
const PICTURE_BYTES_MAX: u64 = 28 * 1024;

/// Every cause of `sluice explain` is in both manuals, has its picture, and a scene in the test of
/// the page.
#[test]
fn every_cause_of_explain_is_shown_and_described() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |file: &str| std::fs::read_to_string(root.join(file)).unwrap();
    let [why, operations, scenes] =
        ["docs/why.md", "docs/operations/slow.md", "tests/page/causes.mjs"].map(read);
    let mut wrong = Vec::new();
    for cause in Cause::ALL {
        let word = cause.word();
        let picture = format!("page/why/{word}.webp");
        let rows: Vec<&str> = why.lines().filter(|line| line.starts_with(&format!("| `{word}` "))).collect();
        let bytes = std::fs::metadata(root.join("docs").join(&picture)).map(|file| file.len());
        let checks = [
            (rows.len() == 1 && rows[0].contains(&picture), "one row with its picture in docs/why.md"),
            (bytes.is_ok_and(|bytes| bytes <= PICTURE_BYTES_MAX), "a picture of at most 28 KiB"),
            (operations.contains(&format!("\n| `{word}` |")), "a row in docs/operations/slow.md"),
            (scenes.contains(&format!("async {word}(stage)")), "a scene in tests/page/causes.mjs"),
        ];
        wrong.extend(
            checks.iter().filter(|(is_there, _)| !is_there).map(|(_, what)| format!("{word} has not {what}")),
        );
    }
    let pictures = std::fs::read_dir(root.join("docs/page/why")).unwrap().count();
    assert!(wrong.is_empty() && pictures == Cause::ALL.len(), "{pictures} pictures\n{}", wrong.join("\n"));
}

/// docs/page.md shows each picture that the test of the page makes for it.
#[test]
fn every_picture_of_the_page_is_shown() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let page = std::fs::read_to_string(docs.join("page.md")).unwrap();
    let pictures = std::fs::read_dir(docs.join("page")).unwrap().map(|file| file.unwrap().file_name());
    let mut names: Vec<String> =
        pictures.filter_map(|file| Some(file.to_str()?.strip_suffix(".webp")?.to_owned())).collect();
    for (file, list) in [("app.tsx", "const VIEWS"), ("views/admin.tsx", "const TABS")] {
        let source = std::fs::read_to_string(docs.join("../page/src").join(file)).unwrap();
        let (_, list) =
            source.split_once(&format!("{list}: [string, string][] = [")).expect("a list of views");
        let (list, _) = list.split_once("];").unwrap();
        // An item is ["the word in the address", "the title"].
        let views: Vec<&str> = list.split("[\"").skip(1).filter_map(|item| item.split('"').next()).collect();
        assert!(views.len() >= 8, "{file} has the views {views:?}");
        names.extend(views.into_iter().filter(|view| *view != "admin").map(|view| match view {
            "" => "overview".to_owned(),
            // The list of queues is the picture of the dark theme.
            "queues" => "dark".to_owned(),
            view => view.to_owned(),
        }));
    }
    let missing: Vec<&String> =
        names.iter().filter(|name| !page.contains(&format!("](page/{name}.webp)"))).collect();
    assert!(missing.is_empty(), "docs/page.md does not show {missing:?}");
}

/// The ports that pages name, in the order in which the broker prints them, unless a page shows others.
const USUAL_PORTS: [u16; 3] = [5672, 15672, 15692];

/// Starts the built broker on free ports, wherever a page lets it listen.
const SLUICE: &str = r#"#!/bin/sh
[ "$1" = serve ] || exec "$PROGRAM" "$@"
exec "$PROGRAM" "$@" --set listeners.tcp.default=127.0.0.1:0 --set management.tcp.port=0 --set prometheus.tcp.port=0
"#;

/// Runs the built broker, and builds nothing.
const MAKE: &str = r#"#!/bin/sh
[ "$*" = run ] && exec sluice serve
[ "$*" = static ] && exit
echo "the test does not make $*" && exit 99
"#;

/// Does what the pages ask of curl: `-s`, `-f`, `-u USER:PASSWORD`, `-X METHOD`, `-d BODY`, `-d @-`. Like curl, it sends a body as that
/// of a form.
const CURL: &str = r#"#!/bin/bash
method=GET user= body= type=
while [ $# -gt 0 ]; do
    case $1 in
        -u) user=$2; shift ;;
        -X) method=$2; shift ;;
        -d) body=$2; [ "$body" = @- ] && body=$(cat); type=$'Content-Type: application/x-www-form-urlencoded\r\n'; shift ;;
        -s | -f | -sf) ;;
        -*) echo "the test does not know curl $1" && exit 99 ;;
        *) url=${1#http://} ;;
    esac
    shift
done
place=${url%%/*}
exec 3<>"/dev/tcp/${place%:*}/${place#*:}"
printf '%s /%s HTTP/1.0\r\nHost: %s\r\nAuthorization: Basic %s\r\n%sContent-Length: %d\r\n\r\n%s' \
    "$method" "${url#*/}" "$place" "$(printf %s "$user" | base64 -w 0)" "$type" "${#body}" "$body" >&3
read -r _ status _ <&3
sed '1,/^\r$/d' <&3
[ "$status" -lt 400 ] || exit 22
"#;

/// A shell block of a page.
#[derive(Debug, PartialEq)]
struct Block {
    /// The line of the page at which the block begins.
    line: usize,
    script: String,
    how: How,
    output: Option<String>,
}

#[derive(Debug, PartialEq)]
enum How {
    /// The block ends with this exit code.
    Ends(i32),
    /// The block starts the broker.
    Broker,
    /// The block needs a broker that is stopped.
    Stopped,
    NotRun,
}

fn run_page(page: &str) {
    run_pages(&[page.to_owned()]);
}

/// Runs the blocks of several pages, as if they were one.
fn run_pages(pages: &[String]) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let directory = Directory::new("pages");
    install(directory.path());
    let mut running: Option<Running> = None;
    let mut exports = String::new();
    for block in pages.iter().flat_map(|page| blocks(&std::fs::read_to_string(root.join(page)).unwrap())) {
        match block.how {
            How::NotRun => {}
            How::Broker => {
                running.into_iter().for_each(Running::stop);
                running = Some(Running::start(directory.path(), &block));
            }
            How::Stopped => {
                running.take().into_iter().for_each(Running::stop);
                let status = shell(directory.path(), &block.script).status().unwrap();
                assert!(status.success(), "line {}: {}: {status}", block.line, block.script);
            }
            How::Ends(code) => {
                let broker = running.get_or_insert_with(|| Running::start(directory.path(), &Block::serve()));
                broker.run(directory.path(), &exports, &block, code);
                let exported = block.script.lines().filter(|line| line.starts_with("export "));
                exports.extend(exported.flat_map(|line| [line, "\n"]));
            }
        }
    }
    running.into_iter().for_each(Running::stop);
}

/// Puts the programs that pages name where their commands find them.
fn install(directory: &Path) {
    let bin = directory.join("bin");
    std::fs::create_dir_all(&bin).unwrap();
    for (name, script) in [("sluice", SLUICE), ("make", MAKE), ("curl", CURL)] {
        let file = bin.join(name);
        std::fs::write(&file, script).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    // Where `make run` and `make static` put the program.
    for target in ["target/release", "target/x86_64-unknown-linux-gnu/dist"] {
        let built = directory.join(target);
        std::fs::create_dir_all(&built).unwrap();
        symlink(bin.join("sluice"), built.join("sluice")).unwrap();
    }
}

/// A broker that a block has started. It is killed when dropped.
struct Running {
    child: Child,
    /// The ports where it listens.
    free: [u16; 3],
    /// The ports that the page names instead.
    named: [u16; 3],
}

impl Running {
    fn start(directory: &Path, block: &Block) -> Self {
        let log = File::options().append(true).create(true).open(directory.join("stderr")).unwrap();
        // The shell becomes the broker, which gets the signals then.
        let mut command = shell(directory, &format!("exec {}", block.script));
        let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let named = block.output.as_deref().and_then(ports_in).unwrap_or(USUAL_PORTS);
        let mut running = Self { child, free: [0; 3], named };
        let mut read =
            || lines.next().unwrap_or_else(|| panic!("the broker did not start: {block:?}")).unwrap();
        let printed = [read(), read()].join("\n");
        running.free = ports_in(&printed).unwrap_or_else(|| panic!("no three ports in {printed}"));
        block.check(&running.with_named_ports(&printed));
        running
    }

    fn run(&self, directory: &Path, exports: &str, block: &Block, code: i32) {
        let script = replace_ports(&format!("{exports}{}", block.script), self.named, self.free);
        let mut command = shell(directory, &format!("set -euo pipefail\nexec 2>&1\n{script}"));
        command.env("SLUICE_URL", format!("amqp://guest:guest@127.0.0.1:{}", self.free[0]));
        command.env("SLUICE_HTTP_URL", format!("http://guest:guest@127.0.0.1:{}", self.free[1]));
        let ended = command.output().unwrap();
        // On a machine with other work, a verb may take so long that it says what it waits for.
        let is_shown = |line: &&str| !line.starts_with("sluice: waiting for ");
        let output = String::from_utf8(ended.stdout).unwrap();
        let output: String = output.split_inclusive('\n').filter(is_shown).collect();
        let output = self.with_named_ports(&output);
        assert_eq!(ended.status.code(), Some(code), "line {}: {}\n{output}", block.line, block.script);
        block.check(&output);
    }

    fn with_named_ports(&self, text: &str) -> String {
        replace_ports(text, self.free, self.named)
    }

    /// Sends SIGTERM, and waits until the broker has ended.
    fn stop(mut self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The process may have ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn shell(directory: &Path, script: &str) -> Command {
    let path = std::env::var("PATH").unwrap();
    let mut command = Command::new("bash");
    command.args(["-c", script]).current_dir(directory).stdin(Stdio::null());
    command.env("PATH", format!("{}:{path}", directory.join("bin").display())).env("PROGRAM", PROGRAM);
    command
}

/// Returns the ports of three addresses in the text, if there are three.
fn ports_in(text: &str) -> Option<[u16; 3]> {
    let digits = |rest: &str| rest.chars().take_while(char::is_ascii_digit).collect::<String>();
    let ports: Result<Vec<u16>, _> =
        text.split("127.0.0.1:").skip(1).map(|rest| digits(rest).parse()).collect();
    ports.ok()?.try_into().ok()
}

fn replace_ports(text: &str, from: [u16; 3], to: [u16; 3]) -> String {
    let replace = |text: String, (from, to)| text.replace(&format!(":{from}"), &format!(":{to}"));
    from.into_iter().zip(to).fold(text.to_owned(), replace)
}

impl Block {
    /// Starts the broker of a page that has no such block.
    fn serve() -> Self {
        Self { line: 0, script: "sluice serve".to_owned(), how: How::Broker, output: None }
    }

    #[track_caller]
    fn check(&self, output: &str) {
        let Some(expected) = &self.output else { return };
        let (expected, found) = (expected.trim_end(), output.trim_end());
        let lines = |text: &str| text.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>();
        assert!(
            all_match(&lines(expected), &lines(found)),
            "line {}: {}\nThe page shows:\n{expected}\nIt is:\n{found}",
            self.line,
            self.script
        );
    }
}

/// A line of `...` stands for any lines.
fn all_match(expected: &[String], found: &[String]) -> bool {
    match (expected, found) {
        ([], found) => found.is_empty(),
        ([any, rest @ ..], _) if any == "..." => (0..=found.len()).any(|at| all_match(rest, &found[at..])),
        ([line, rest @ ..], [other, others @ ..]) => line_matches(line, other) && all_match(rest, others),
        _ => false,
    }
}

/// `...` within a line stands for any text.
fn line_matches(expected: &str, found: &str) -> bool {
    match expected.split_once("...") {
        None => expected == found,
        Some((before, behind)) => found.strip_prefix(before).is_some_and(|rest| {
            rest.char_indices()
                .map(|(at, _)| at)
                .chain([rest.len()])
                .any(|at| line_matches(behind, &rest[at..]))
        }),
    }
}

/// The languages of fenced blocks that hold no commands.
const OTHERS: [&str; 4] = ["text", "conf", "ini", "xml"];

/// The languages of fenced blocks that hold programs of clients.
const CLIENTS: [&str; 4] = ["python", "go", "js", "java"];

fn blocks(page: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut lines = page.lines().enumerate();
    // `before` is the line before the block. `adjacent` is true if only empty lines are between the block and
    // the previous one.
    let (mut before, mut adjacent) = ("", false);
    while let Some((at, line)) = lines.next() {
        if let Some(language) = line.strip_prefix("```") {
            let body: Vec<&str> =
                lines.by_ref().map(|(_, line)| line).take_while(|line| *line != "```").collect();
            let body = body.join("\n");
            match language {
                "sh" => blocks.push(Block { line: at + 1, script: body, how: how(before), output: None }),
                "text" if adjacent => blocks.last_mut().unwrap().output = Some(body),
                other if CLIENTS.contains(&other) => check_client(at + 1, before),
                other => assert!(OTHERS.contains(&other), "line {}: what is a block of {other:?}?", at + 1),
            }
            (before, adjacent) = ("", language == "sh");
        } else {
            adjacent &= line.is_empty();
            before = line;
        }
    }
    blocks
}

/// Checks that the suite of a client runs a program.
fn check_client(line: usize, comment: &str) {
    let client = comment.strip_prefix("<!-- test: tests/interop ").and_then(|rest| rest.strip_suffix(" -->"));
    let client = client.unwrap_or_else(|| panic!("line {line}: which client of tests/interop runs this?"));
    let suites = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/interop");
    assert!(!client.is_empty() && suites.join(client).is_dir(), "line {line}: there is no suite {client}");
}

fn how(comment: &str) -> How {
    let Some(marker) = comment.strip_prefix("<!-- test: ") else { return How::Ends(0) };
    let marker = marker.strip_suffix(" -->").unwrap_or_else(|| panic!("{comment} does not end with -->"));
    match (marker, marker.split_once(' ')) {
        ("broker", _) => How::Broker,
        ("stopped", _) => How::Stopped,
        (_, Some(("exit", code))) => How::Ends(code.parse().unwrap()),
        (_, Some(("not", reason))) if reason.starts_with("run, ") => How::NotRun,
        (test, None) if test.starts_with("packaging/") => {
            let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
            assert!(root.join(test).is_file(), "{comment} names no test");
            How::NotRun
        }
        _ => panic!("{comment} says nothing that the test knows"),
    }
}

#[test]
fn blocks_are_found_with_their_output() {
    let page = "\
# A page

<!-- test: exit 1 -->
```sh
one
two
```

```text
out
```

Words.

```text
a table
```

<!-- test: not run, it would format the disk -->
```sh
three
```
";
    let block = |line, script: &str, how, output: Option<&str>| Block {
        line,
        script: script.to_owned(),
        how,
        output: output.map(str::to_owned),
    };
    let expected = [block(4, "one\ntwo", How::Ends(1), Some("out")), block(20, "three", How::NotRun, None)];
    assert_eq!(blocks(page), expected);
}

#[test]
fn dots_stand_for_any_text() {
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let matches = |expected: &str, found: &str| all_match(&lines(expected), &lines(found));
    assert!(matches("a\n...\nd", "a\nb\nc\nd") && matches("a\n...", "a") && matches("a...c...", "a b c"));
    assert!(!matches("a\n...\nd", "a\nb") && !matches("a", "a\nb") && !matches("a...c", "ac d"));
}
