//! Mounts the file system: for every program that sees this mount namespace, or for one command in a namespace of its own.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread::JoinHandle;

use crate::{FalseDisk, Options, Served, device};

/// The type of the file system. Tools show what is behind the dot.
const TYPE: &str = "fuse.false-disk";
/// Commands that make a mount namespace: as a user with user namespaces, and as root.
const NAMESPACES: [&[&str]; 2] = [&["unshare", "-rm"], &["unshare", "-m"]];

/// The options of the mount. Requests go to the standard input of `mount`. The root is a directory. Any user may use the file system, for
/// example the user of a broker.
const OPTIONS: &str = "nosuid,nodev,fd=0,rootmode=40000,user_id=0,group_id=0,allow_other";

fn serve(options: Options, device: &File) -> io::Result<JoinHandle<Served>> {
    let served = device.try_clone()?;
    Ok(std::thread::spawn(move || FalseDisk::new(options).serve(served)))
}

/// A mounted disk, with the thread that serves it.
pub struct Mounted {
    directory: PathBuf,
    server: JoinHandle<Served>,
}

impl Mounted {
    /// Mounts a new disk at an existing directory.
    ///
    /// # Errors
    /// The system has no FUSE, or this user may not mount in this namespace.
    pub fn new(directory: &Path, options: Options) -> io::Result<Self> {
        let device = device()?;
        let server = serve(options, &device)?;
        let mut mount = Command::new("mount");
        mount.args(["-i", "-t", TYPE, "-o", OPTIONS, "false-disk"]).arg(directory).stdin(device);
        must(&mut mount)?;
        Ok(Self { directory: directory.to_owned(), server })
    }

    /// Permits as many cached writes as for a real disk. Linux begins earlier to slow down programs that write to a FUSE file system.
    ///
    /// # Errors
    /// This needs root.
    pub fn cache_freely(&self) -> io::Result<()> {
        let device = self.directory.metadata()?.dev();
        let cache = format!("/sys/class/bdi/{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
        let set = |name: &str, value: &[u8]| {
            File::options().write(true).open(format!("{cache}/{name}"))?.write_all(value)
        };
        set("max_ratio", b"100")?;
        // Kernels before 6.2 do not let anybody change this.
        match set("strict_limit", b"0") {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            result => result,
        }
    }

    /// Returns true if somebody else has unmounted the disk.
    pub fn is_over(&self) -> bool {
        self.server.is_finished()
    }

    /// Unmounts the disk. Programs that have it open get errors when this process ends.
    ///
    /// # Errors
    /// The directory is no mount point any more.
    pub fn unmount(self) -> io::Result<()> {
        must(Command::new("umount").arg("--lazy").arg(self.directory))
    }
}

/// Runs a command that prints its own errors.
fn must(command: &mut Command) -> io::Result<()> {
    let status = command.status()?;
    if status.success() {
        return Ok(());
    }
    Err(io::Error::other(format!("{}: {status}", command.get_program().display())))
}

/// A way to make a mount namespace.
#[derive(Clone, Copy)]
pub struct Namespace(&'static [&'static str]);

/// What a command did, and what its disk did.
#[derive(Debug)]
pub struct Outcome {
    pub status: ExitStatus,
    pub disk: Served,
}

impl Namespace {
    /// Returns a way that works here. It is tried with a disk that is mounted at `directory`, and with `first` of [`Self::run`].
    pub fn find(directory: &Path, first: &str) -> Option<Self> {
        NAMESPACES.iter().map(|words| Self(words)).find(|namespace| {
            let probe =
                namespace.spawn(Options::default(), directory, first, &Command::new("true"), Stdio::null());
            probe.is_ok_and(|(status, _)| status.success())
        })
    }

    /// Runs a command in a new namespace in which a new disk is mounted at `directory`, without standard input.
    /// Before the command, a shell executes `first` with `directory` as `$0`.
    ///
    /// # Errors
    /// The command cannot be started.
    ///
    /// # Panics
    /// The thread that served the disk has panicked.
    pub fn run(
        self,
        options: Options,
        directory: &Path,
        first: &str,
        command: &Command,
    ) -> io::Result<Outcome> {
        let (status, server) = self.spawn(options, directory, first, command, Stdio::inherit())?;
        let disk = server.join().expect("the disk answers every request");
        Ok(Outcome { status, disk })
    }

    /// Returns when the command has ended. If the disk was not mounted, its server ends some seconds later.
    fn spawn(
        self,
        options: Options,
        directory: &Path,
        first: &str,
        command: &Command,
        stderr: Stdio,
    ) -> io::Result<(ExitStatus, JoinHandle<Served>)> {
        let device = device()?;
        let server = serve(options, &device)?;
        let mount =
            format!("mount -i -t {TYPE} -o {OPTIONS} false-disk \"$0\" && {first} && exec \"$@\" </dev/null");
        let mut run = Command::new(self.0[0]);
        run.args(&self.0[1..]).args(["sh", "-c", &mount]).arg(directory);
        run.arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => run.env(name, value),
                None => run.env_remove(name),
            };
        }
        let status = run.stdin(device).stderr(stderr).status();
        // It has the device as the standard input of its child, so that the server would never end.
        drop(run);
        Ok((status?, server))
    }
}
