//! The layers of a configuration. Each has priority over the ones before it:
//!
//! 1. the file that `--config` or `SLUICE_CONFIG_FILE` names
//! 2. the files `*.conf` of the directory `conf.d` beside it, in the order of their names
//! 3. the environment: `SLUICE_` and the key in capitals, with two underscores for each dot
//! 4. `--set KEY=VALUE`

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use catalog::nearest::nearest;
use clap::Args;

use super::problems::{ConfigError, Problem};
use super::rabbitmq::{self, Known};
use super::{Draft, keys};

/// The largest configuration file, in bytes. A larger one is refused.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// The directory beside the file whose files are read after it.
const DIRECTORY: &str = "conf.d";

/// Variables of the environment with this prefix set keys.
const PREFIX: &str = "SLUICE_";

/// Variables with that prefix that are arguments of the command line, without the prefix.
pub(crate) const ARGUMENTS: [&str; 9] = [
    "CACERT",
    "CERT",
    "CERT_KEY",
    "CONFIG_FILE",
    "DATA_DIR",
    "HTTP_TOKEN_FILE",
    "HTTP_URL",
    "METRICS_URL",
    "URL",
];

/// The variable of the environment that names the configuration file.
pub(crate) const CONFIG_FILE_VARIABLE: &str = "SLUICE_CONFIG_FILE";

/// Where the configuration is.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Sources {
    /// The configuration file; files *.conf in the directory conf.d beside it have priority over it (default: none, every key has its default)
    #[arg(long = "config", value_name = "FILE", env = CONFIG_FILE_VARIABLE)]
    pub file: Option<PathBuf>,
    /// Set one key of the configuration, with priority over files and the environment; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub sets: Vec<String>,
}

/// The text of the layers, before it is parsed.
#[derive(Default)]
pub(super) struct Layers<'a> {
    /// The names and the texts of the files, in the order in which they count.
    pub files: Vec<(String, String)>,
    /// The variables of the environment.
    pub environment: Vec<(OsString, OsString)>,
    pub sets: &'a [String],
}

impl<'a> Layers<'a> {
    /// Reads the files and the environment.
    ///
    /// # Errors
    /// Each file that cannot be read.
    pub(super) fn read(sources: &'a Sources) -> Result<Self, ConfigError> {
        let (mut files, mut problems) = (Vec::new(), Vec::new());
        if let Some(file) = &sources.file {
            let directory = file.with_file_name(DIRECTORY);
            let more = match files_of(&directory, "conf") {
                Ok(more) => more,
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                    Vec::new()
                }
                Err(error) => {
                    problems.push(Problem::new(directory.display(), format!("cannot be read: {error}")));
                    Vec::new()
                }
            };
            for path in std::iter::once(file).chain(&more) {
                match read_file(path) {
                    Ok(text) => files.push((path.display().to_string(), text)),
                    Err(problem) => problems.push(Problem::new(path.display(), problem)),
                }
            }
        }
        if !problems.is_empty() {
            return Err(ConfigError(problems));
        }
        Ok(Self { files, environment: std::env::vars_os().collect(), sets: &sources.sets })
    }

    /// Sets the keys of all layers. Returns everything that is wrong with them.
    pub(super) fn apply(&self, draft: &mut Draft) -> Vec<Problem> {
        let mut problems = Vec::new();
        for (name, text) in &self.files {
            let text = text.strip_prefix('\u{feff}').unwrap_or(text);
            let mut file = FileKeys { name, ..FileKeys::default() };
            for (index, line) in text.lines().enumerate() {
                if let Err(problem) = file.read(line, index + 1, draft) {
                    problems.push(Problem::new(format_args!("{name}:{}", index + 1), problem));
                }
            }
            draft.warnings.extend(file.warnings());
        }
        let mut variables: Vec<_> = self.environment.iter().filter_map(variable).collect();
        // The environment has no order. With one, of two names for one key the same one counts each time.
        variables.sort_unstable_by_key(|(name, _)| *name);
        let mut of_others = Vec::new();
        for (name, value) in variables {
            let (key, place) = (key_of(name), format!("{PREFIX}{name}"));
            if is_of_others(&key) {
                of_others.push(shown(&place).to_owned());
                continue;
            }
            let set = match value.to_str() {
                Some(value) => draft.set(&key, value, &place),
                None => Err("the value is not UTF-8".into()),
            };
            if let Err(problem) = set {
                problems.push(Problem::new(shown(&place), problem));
            }
        }
        if !of_others.is_empty() {
            let names = of_others.join(", ");
            draft.warnings.push(format!("variables of the environment that set no key: {names}"));
        }
        for argument in self.sets {
            let (key, value) = argument.split_once('=').unwrap_or((argument, ""));
            let key = key.trim();
            let set = match argument.contains('=') {
                true => draft.set(key, value.trim(), "--set"),
                false => Err("KEY=VALUE is needed".into()),
            };
            if let Err(problem) = set {
                // Only the key is shown, because the value may be a secret. Most problems name it themselves.
                let key = shown(key);
                let place = match problem.contains(&format!("'{key}'")) {
                    true => "--set".to_owned(),
                    false => format!("--set {key}"),
                };
                problems.push(Problem::new(place, problem));
            }
        }
        problems
    }
}

/// Returns the name behind the prefix, and the value, of a variable that sets a key.
fn variable((name, value): &(OsString, OsString)) -> Option<(&str, &OsStr)> {
    let name = name.to_str()?.strip_prefix(PREFIX)?;
    (!ARGUMENTS.contains(&name)).then_some((name, value))
}

/// Returns the key that a variable sets: `DEFAULT_PASS` sets `default_pass`, `LOG__LEVEL` sets `log.level`.
fn key_of(variable: &str) -> String {
    variable.replace("__", ".").to_ascii_lowercase()
}

/// Returns true if nobody can have meant a setting with this variable. Scripts have variables of their own, and Kubernetes sets
/// `SLUICE_PORT_5672_TCP_ADDR` and others in each container if there is a service with the name `sluice`.
fn is_of_others(key: &str) -> bool {
    keys::find(key).is_none() && !key.contains('.') && nearest(key, keys::names()).is_none()
}

/// Returns the files of a directory whose names have this extension, in the order of their names. Hidden files are left out,
/// because editors write them.
///
/// # Errors
/// The directory cannot be read.
pub(crate) fn files_of(directory: &Path, extension: &str) -> std::io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        let is_hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if !is_hidden && path.extension().is_some_and(|end| end == extension) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn read_file(path: &Path) -> Result<String, String> {
    let unreadable = |error: std::io::Error| format!("cannot be read: {error}");
    let mut octets = Vec::new();
    let file = File::open(path).map_err(unreadable)?;
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut octets).map_err(unreadable)?;
    if octets.len() as u64 > FILE_BYTES_MAX {
        return Err(format!("is larger than {FILE_BYTES_MAX} bytes"));
    }
    String::from_utf8(octets).map_err(|_| "is not UTF-8".into())
}

/// What was read from a configuration file so far.
#[derive(Default)]
struct FileKeys<'a> {
    name: &'a str,
    /// The last line on which each key occurred.
    lines: HashMap<&'a str, usize>,
    /// Keys that occurred again: the key, the earlier line, the line that counts.
    repeated: Vec<(&'a str, usize, usize)>,
    /// Keys of RabbitMQ that have no effect here, and their lines.
    without_effect: Vec<(&'a str, usize)>,
}

impl<'a> FileKeys<'a> {
    fn read(&mut self, line: &'a str, number: usize, draft: &mut Draft) -> Result<(), String> {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            return Ok(());
        }
        let (key, value) = line.split_once('=').ok_or("'key = value' is needed")?;
        let key = key.trim();
        let value = unquote(value.trim()).map_err(|why| format!("'{}': {why}", shown(key)))?;
        if keys::find(key).is_none() && (rabbitmq::has(key) || nearest(key, keys::names()).is_none()) {
            match rabbitmq::find(key, value) {
                Some(Known::NoEffect(_)) => {
                    self.without_effect.push((key, number));
                    return Ok(());
                }
                Some(Known::Guard(without)) => {
                    return Err(format!(
                        "'{}' is a key of RabbitMQ that Sluice does not have, and it is not safe to ignore: \
                         {without}. Remove the key if this is acceptable",
                        shown(key)
                    ));
                }
                None => {}
            }
        }
        draft.set(key, value, &format!("{}:{number}", self.name))?;
        if let Some(before) = self.lines.insert(key, number) {
            self.repeated.push((key, before, number));
        }
        Ok(())
    }

    fn warnings(&self) -> Vec<String> {
        let name = self.name;
        let mut warnings: Vec<String> = Vec::new();
        if !self.without_effect.is_empty() {
            let keys = self.without_effect.iter().map(|(key, line)| format!("{} (line {line})", shown(key)));
            let keys: Vec<String> = keys.collect();
            warnings.push(format!("{name}: keys of RabbitMQ that have no effect here: {}", keys.join(", ")));
        }
        warnings.extend(self.repeated.iter().map(|(key, before, number)| {
            format!("{name}:{number}: '{}' is already set on line {before}; this line counts", shown(key))
        }));
        warnings
    }
}

/// Returns the value without its quotes or a trailing comment.
fn unquote(value: &str) -> Result<&str, &'static str> {
    if let Some(quoted) = value.strip_prefix('\'') {
        let (inside, behind) = quoted.split_once('\'').ok_or("the quote is not closed")?;
        let behind = behind.trim_start();
        if behind.is_empty() || behind.starts_with('#') {
            return Ok(inside);
        }
        return Err("there is text after the closing quote");
    }
    if value.starts_with('#') {
        return Ok("");
    }
    match value.find('#') {
        None => Ok(value),
        Some(at) if value[..at].ends_with([' ', '\t']) => Ok(value[..at].trim_end()),
        // RabbitMQ takes what is before it. With that, a password would not be the one that was meant.
        Some(_) => Err("a # inside a value needs quotes: write 'VALUE'; before a comment, it needs a space"),
    }
}

/// Returns the part of the text that can be a key. The rest may be anything, even a secret.
pub(super) fn shown(key: &str) -> &str {
    let end = key.find(|c: char| !(c.is_ascii_alphanumeric() || "._-".contains(c)));
    &key[..end.unwrap_or(key.len())]
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::super::values::Shards;
    use super::*;

    /// Returns the configuration of these variables of the environment.
    fn environment(variables: &[(&str, &str)]) -> Result<super::super::Loaded, String> {
        let environment = variables.iter().map(|(name, value)| (name.into(), value.into())).collect();
        let layers = Layers { environment, ..Layers::default() };
        Config::of_layers(&layers).map_err(|error| error.to_string())
    }

    #[test]
    fn each_key_can_be_set_by_a_variable() {
        for key in keys::all().filter(|key| key.sample.is_empty()) {
            let name = key.name.replace('*', &key.star.to_ascii_lowercase());
            let variable = format!("{PREFIX}{}", name.to_ascii_uppercase().replace('.', "__"));
            let loaded = environment(&[(&variable, key.default)]);
            assert_eq!(loaded.unwrap().values.place(&name), Some(variable.as_str()), "{name}");
        }
        let loaded = environment(&[
            ("SLUICE_LISTENERS__TCP__DEFAULT", "0.0.0.0:5672"),
            ("SLUICE_DEFAULT_USER_TAGS__MONITORING", "true"),
            ("HOME", "/root"),
            ("SLUICE_URL", "amqp://h"),
        ]);
        let config = loaded.unwrap().config;
        assert_eq!(config.amqp_listeners, ["0.0.0.0:5672".parse().unwrap()]);
        assert_eq!(config.default_tags, ["administrator", "monitoring"]);
    }

    /// Variables that the scripts of `packaging` have for themselves, and that of the build, without the prefix.
    const OF_SCRIPTS: [&str; 4] = ["COMMIT", "HERE", "RELEASE_TOOLS", "TEST_INSIDE"];

    /// A broker whose manifest sets a variable that it does not know does not start.
    #[test]
    fn what_the_packages_set_is_known() {
        let mut left = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging")];
        let mut names = std::collections::BTreeMap::new();
        while let Some(path) = left.pop() {
            if path.is_dir() {
                left.extend(std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
                continue;
            }
            let octets = std::fs::read(&path).unwrap();
            for behind in String::from_utf8_lossy(&octets).split(PREFIX).skip(1) {
                let end = behind.find(|c: char| !(c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_'));
                names.insert(behind[..end.unwrap_or(behind.len())].to_owned(), path.clone());
            }
        }
        assert!(
            names.contains_key("DEFAULT_PASS") && names.contains_key("DATA_DIR__GROUP_ACCESS"),
            "{names:?}"
        );
        for (name, path) in names {
            let is_known = ARGUMENTS.contains(&&*name)
                || OF_SCRIPTS.contains(&&*name)
                || keys::find(&key_of(&name)).is_some();
            assert!(is_known, "{}: {PREFIX}{name} sets no key", path.display());
        }
    }

    #[test]
    fn an_unknown_variable_is_refused_with_its_name() {
        assert_eq!(
            environment(&[("SLUICE_DEFAULT_PAS", "hunter2"), ("SLUICE_SHARDS", "x")]).unwrap_err(),
            "SLUICE_DEFAULT_PAS: unknown key 'default_pas'; did you mean 'default_pass'?\n\
             SLUICE_SHARDS: 'shards' cannot be 'x': a whole number from 1 to 256 is needed, or auto"
        );
    }

    /// A service with the name `sluice` must not keep a broker in the same namespace from starting.
    #[test]
    fn variables_of_others_set_nothing() {
        let of_others = ["SLUICE_PORT", "SLUICE_PORT_5672_TCP_ADDR", "SLUICE_SERVICE_HOST", "SLUICE_VERSION"];
        let variables = of_others.map(|name| (name, "tcp://10.0.0.1:5672"));
        let config = environment(&variables).unwrap().config;
        let warning = format!("variables of the environment that set no key: {}", of_others.join(", "));
        assert_eq!(config.warnings, [warning]);
        for meant in ["SLUICE_MANAGEMENT__TPC__PORT", "SLUICE_SHARD", "SLUICE_TLS__PORT"] {
            assert!(environment(&[(meant, "1")]).is_err(), "{meant}");
        }
    }

    #[test]
    fn a_later_layer_has_priority() {
        let set = ["shards=4".to_owned()];
        let file = |name: &str, text: &str| (name.to_owned(), text.to_owned());
        let layers = Layers {
            files: vec![
                file("a.conf", "shards = 1\nheartbeat = 1\nchannel_max = 1\ncluster_name = one\n"),
                file("conf.d/b.conf", "\nshards = 2\nheartbeat = 2\nchannel_max = 2\n"),
            ],
            environment: vec![("SLUICE_SHARDS".into(), "3".into()), ("SLUICE_HEARTBEAT".into(), "3".into())],
            sets: &set,
        };
        let loaded = Config::of_layers(&layers).unwrap();
        let place = |key: &str| loaded.values.place(key).unwrap();
        assert_eq!(place("shards"), "--set");
        assert_eq!(place("heartbeat"), "SLUICE_HEARTBEAT");
        assert_eq!(place("channel_max"), "conf.d/b.conf:4");
        assert_eq!(place("cluster_name"), "a.conf:4");
        assert_eq!((loaded.config.shards, loaded.config.settings.heartbeat_s), (Shards::Count(4), 3));
        assert_eq!(loaded.config.warnings, [""; 0], "a layer that replaces another is no mistake");
    }

    #[test]
    fn the_files_of_the_directory_are_read_in_the_order_of_their_names() {
        let directory = std::env::temp_dir().join(format!("sluice-conf-d-{}", std::process::id()));
        std::fs::create_dir(&directory).unwrap();
        let write = |name: &str, text: &str| std::fs::write(directory.join(name), text).unwrap();
        write("sluice.conf", "shards = 1\n");
        let sources = Sources { file: Some(directory.join("sluice.conf")), sets: Vec::new() };
        assert_eq!(Config::load(&sources).unwrap().config.shards, Shards::Count(1), "there is no directory");
        std::fs::create_dir(directory.join(DIRECTORY)).unwrap();
        write("conf.d/20.conf", "shards = 3\n");
        write("conf.d/10.conf", "shards = 2\nheartbeat = 2\n");
        for not_read in ["conf.d/.99.conf", "conf.d/99.conf~", "conf.d/README"] {
            write(not_read, "no configuration");
        }
        let config = Config::load(&sources).unwrap().config;
        assert_eq!((config.shards, config.settings.heartbeat_s), (Shards::Count(3), 2));
        write("conf.d/30.conf", "heartbeat = x\n");
        let refused = Config::load(&sources).unwrap_err().to_string();
        assert!(refused.contains("conf.d/30.conf:1: 'heartbeat' cannot be 'x'"), "{refused}");
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
