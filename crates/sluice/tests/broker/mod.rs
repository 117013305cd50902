//! Runs the built broker as a process, on free ports. Its data is in a directory that is deleted with the
//! test.

#![allow(dead_code, reason = "each test uses only a part")]

pub(crate) mod verb;

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use rustix::process::{Pid, Signal, WaitOptions, kill_process};

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_sluice");

/// A directory that is deleted when dropped, unless the test failed or called [`Self::keep`].
pub(crate) struct Directory {
    path: PathBuf,
    kept: AtomicBool,
}

impl Directory {
    pub(crate) fn new(what: &str) -> Self {
        Self::within(Path::new(env!("CARGO_TARGET_TMPDIR")), what)
    }

    pub(crate) fn within(parent: &Path, what: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("{what}-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        if let Some(disk) = crate::forget::disk() {
            // Only the data is on this disk. The log of the broker is not to be forgotten.
            let data = disk.join(format!("{what}-{number}"));
            std::fs::create_dir(&data).unwrap();
            std::fs::File::open(&disk).and_then(|disk| disk.sync_all()).unwrap();
            std::os::unix::fs::symlink(&data, path.join("data")).unwrap();
        }
        Self { path, kept: AtomicBool::new(false) }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Keeps the directory, so that somebody can inspect it.
    pub(crate) fn keep(&self) -> &Path {
        self.kept.store(true, Ordering::Relaxed);
        &self.path
    }

    /// Returns what the brokers of this directory have logged.
    pub(crate) fn logged(&self) -> String {
        std::fs::read_to_string(self.path.join("stderr")).unwrap_or_default()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // Keep the files of a failed test.
        if !std::thread::panicking() && !self.kept.load(Ordering::Relaxed) {
            drop(std::fs::remove_dir_all(&self.path));
        }
    }
}

/// A broker process that may not listen yet.
pub(crate) struct Starting {
    child: Child,
    stdout: BufReader<ChildStdout>,
    host: String,
}

/// A broker that listens. It is killed when dropped.
pub(crate) struct Broker {
    child: Child,
    host: String,
    pub amqp_port: u16,
    pub http_port: u16,
}

impl Starting {
    /// Starts a broker with its data and its log in this directory, and with further settings.
    pub(crate) fn spawn(directory: &Directory, sets: &[&str]) -> Self {
        let stderr = File::options().append(true).create(true).open(directory.path.join("stderr")).unwrap();
        Self::spawn_with_log(directory, sets, stderr)
    }

    /// Starts a broker with further command-line arguments.
    pub(crate) fn spawn_with(directory: &Directory, words: &[&str]) -> Self {
        let stderr = File::options().append(true).create(true).open(directory.path.join("stderr")).unwrap();
        let mut command = serve(&directory.path.join("data"));
        Self::spawn_command(command.args(words), stderr)
    }

    /// Starts a broker that logs to `stderr`.
    pub(crate) fn spawn_with_log(directory: &Directory, sets: &[&str], stderr: File) -> Self {
        let mut command = serve(&directory.path.join("data"));
        for set in sets {
            command.args(["--set", set]);
        }
        Self::spawn_command(&mut command, stderr)
    }

    /// Starts a broker whose allocator returns free memory at once instead of after 250 ms
    /// (docs/decisions/0002). So its resident memory is what it uses.
    pub(crate) fn spawn_giving_back(directory: &Directory, sets: &[&str]) -> Self {
        let stderr = File::options().append(true).create(true).open(directory.path.join("stderr")).unwrap();
        let mut command = serve(&directory.path.join("data"));
        command.env("_RJEM_MALLOC_CONF", "dirty_decay_ms:0");
        for set in sets {
            command.args(["--set", set]);
        }
        Self::spawn_command(&mut command, stderr)
    }

    /// Starts a broker with these variables of the environment.
    pub(crate) fn spawn_in(directory: &Directory, environment: &[(&str, &str)]) -> Self {
        let stderr = File::options().append(true).create(true).open(directory.path.join("stderr")).unwrap();
        let mut command = serve(&directory.path.join("data"));
        Self::spawn_command(command.envs(environment.iter().copied()), stderr)
    }

    /// Starts a broker with a limit on file descriptors.
    pub(crate) fn spawn_limited(directory: &Directory, descriptors: u32, sets: &[&str]) -> Self {
        Self::spawn_under(directory, &format!("ulimit -n {descriptors}"), sets)
    }

    /// Starts a broker in a shell that has executed a command.
    pub(crate) fn spawn_under(directory: &Directory, first: &str, sets: &[&str]) -> Self {
        let stderr = File::options().append(true).create(true).open(directory.path.join("stderr")).unwrap();
        let serve = serve(&directory.path.join("data"));
        let mut command = Command::new("sh");
        command.args(["-c", &format!("{first} && exec \"$0\" \"$@\"")]);
        command.arg(serve.get_program()).args(serve.get_args()).stdin(Stdio::null());
        for set in sets {
            command.args(["--set", set]);
        }
        Self::spawn_command(&mut command, stderr)
    }

    /// Starts a broker that listens on the addresses of a host, by a command which runs the one that follows it.
    pub(crate) fn spawn_by(directory: &Directory, by: &[String], host: &str, sets: &[&str]) -> Self {
        let stderr = File::options().append(true).create(true).open(directory.path.join("stderr")).unwrap();
        let serve = serve(&directory.path.join("data"));
        let mut command = Command::new(&by[0]);
        command.args(&by[1..]).arg(serve.get_program()).args(serve.get_args()).stdin(Stdio::null());
        for set in [&format!("listeners.tcp.default={host}:0"), &format!("management.tcp.ip={host}")] {
            command.args(["--set", set]);
        }
        for set in sets {
            command.args(["--set", set]);
        }
        Self { host: host.to_owned(), ..Self::spawn_command(&mut command, stderr) }
    }

    fn spawn_command(command: &mut Command, stderr: File) -> Self {
        crate::forget::cut();
        let mut child = command.stdout(Stdio::piped()).stderr(stderr).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Self { child, stdout, host: "127.0.0.1".to_owned() }
    }

    /// Waits until the broker listens.
    pub(crate) fn finish(self) -> Broker {
        self.try_finish().unwrap_or_else(|why| panic!("the broker did not start: {why}"))
    }

    /// Waits until the broker listens or exits.
    ///
    /// # Errors
    /// The broker exited without listening.
    pub(crate) fn try_finish(mut self) -> Result<Broker, String> {
        let mut urls = String::new();
        self.stdout.read_line(&mut urls).unwrap();
        // A listener on all addresses is one on the loopback address, too.
        let urls = urls.replace("[::]", "127.0.0.1");
        let mut complete = String::new();
        self.stdout.read_line(&mut complete).unwrap();
        if complete.trim_end() != "Server startup complete" {
            let status = self.child.wait();
            return Err(format!("{status:?}, printed {urls:?} {complete:?}"));
        }
        let port = |before: &str| -> u16 {
            let (_, rest) = urls.split_once(before).unwrap_or_else(|| panic!("no {before} in {urls}"));
            let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
            digits.parse().unwrap()
        };
        let host = self.host;
        let amqp_port = port(&format!("amqp://guest@{host}:"));
        let http_port = port(&format!("http://{host}:"));
        Ok(Broker { child: self.child, host, amqp_port, http_port })
    }

    /// Sends SIGKILL. Returns true if the broker was listening by then.
    pub(crate) fn kill(mut self) -> bool {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        let mut printed = String::new();
        self.stdout.read_to_string(&mut printed).unwrap();
        printed.contains("Server startup complete")
    }

    /// Sends SIGTERM, and waits for the process to end. Returns what it has printed, too.
    pub(crate) fn terminate(mut self) -> (ExitStatus, String) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        let status = self.child.wait().unwrap();
        let mut printed = String::new();
        self.stdout.read_to_string(&mut printed).unwrap();
        (status, printed)
    }
}

impl Broker {
    pub(crate) fn start(directory: &Directory) -> Self {
        Starting::spawn(directory, &[]).finish()
    }

    pub(crate) fn amqp_url(&self) -> String {
        format!("amqp://guest:guest@{}:{}", self.host, self.amqp_port)
    }

    pub(crate) fn http_url(&self) -> String {
        format!("http://guest:guest@{}:{}", self.host, self.http_port)
    }

    /// Sends SIGKILL, and waits for the process to end.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Sends SIGSTOP, and waits until the process has stopped.
    pub(crate) fn stop(&self) {
        kill_process(self.pid(), Signal::STOP).unwrap();
        rustix::process::waitpid(Some(self.pid()), WaitOptions::UNTRACED).unwrap();
    }

    /// Sends SIGHUP.
    pub(crate) fn hang_up(&self) {
        kill_process(self.pid(), Signal::HUP).unwrap();
    }

    /// Sends SIGCONT.
    pub(crate) fn resume(&self) {
        kill_process(self.pid(), Signal::CONT).unwrap();
    }

    /// Returns the number of threads of the process.
    pub(crate) fn threads(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap().count()
    }

    /// Returns the resident memory of the process, in bytes.
    pub(crate) fn resident_bytes(&self) -> u64 {
        let pages = std::fs::read_to_string(format!("/proc/{}/statm", self.child.id())).unwrap();
        let resident: u64 = pages.split(' ').nth(1).unwrap().parse().unwrap();
        resident * rustix::param::page_size() as u64
    }

    /// Returns the resident memory of the process without the pages of files, in bytes.
    pub(crate) fn anonymous_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("RssAnon");
        let kib: u64 = line.trim().strip_suffix(" kB").expect("kB").parse().unwrap();
        kib * 1024
    }

    /// Returns the bytes used of a memory budget, and its limit.
    pub(crate) fn budget(&self, name: &str) -> (u64, u64) {
        let (_, nodes) = self.get("/api/nodes");
        let budgets = nodes[0]["budgets"].as_array().expect("budgets").iter();
        let row = budgets.clone().find(|row| row["name"] == name).expect("a budget of this name");
        (row["used"].as_u64().unwrap(), row["limit"].as_u64().unwrap())
    }

    /// Sends SIGTERM, and waits for the process to end.
    pub(crate) fn terminate(mut self) -> ExitStatus {
        kill_process(self.pid(), Signal::TERM).unwrap();
        self.child.wait().unwrap()
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        // The process may have ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The command `sluice serve` with free ports.
pub(crate) fn serve(data_dir: &Path) -> Command {
    let mut command = Command::new(PROGRAM);
    command.arg("serve").arg("--data-dir").arg(data_dir);
    for set in
        ["listeners.tcp.default=0", "management.tcp.port=0", "prometheus.tcp.port=none", "log.level=info"]
    {
        command.arg("--set").arg(set);
    }
    for set in crate::forget::settings() {
        command.args(["--set", set]);
    }
    // The same on every machine.
    command.args(["--set", "node.name=sluice@localhost"]);
    command.stdin(Stdio::null());
    command
}
