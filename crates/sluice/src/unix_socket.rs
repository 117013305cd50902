//! The file of a Unix domain socket: it is made with its permissions, and removed when the broker stops.

use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with};
use tokio::net::UnixStream;

/// The most connections that wait to be accepted. It is the same for the listeners over TCP.
const BACKLOG: i32 = 1024;

/// The setting that names the path.
const SETTING: &str = "listeners.unix.default";

/// The file of a listening socket. It is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    /// The device and the inode of the file.
    identity: (u64, u64),
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Another broker may have replaced the file.
        if identity(&self.path).is_ok_and(|identity| identity == self.identity)
            && let Err(error) = fs::remove_file(&self.path)
        {
            tracing::error!("cannot remove {}: {error}", self.path.display());
        }
    }
}

/// Listens on a path. A socket that nobody listens on is replaced: a broker that was killed leaves one.
///
/// # Errors
/// Something else has this path, or the socket cannot be made. The error names the path and the setting.
pub(crate) async fn listen_on(
    path: &str,
    mode: u32,
) -> Result<(tokio::net::UnixListener, SocketFile), String> {
    let file = Path::new(path);
    let failed =
        |error: io::Error| format!("cannot listen on unix:{path}: {error}; the path is set by {SETTING}");
    make_way(file).await.map_err(failed)?;
    make(file, mode).map_err(failed)
}

/// Removes a socket on which nobody listens.
async fn make_way(path: &Path) -> io::Result<()> {
    let there = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        there => there?,
    };
    if !there.file_type().is_socket() {
        return Err(io::Error::other("there is a file that is not a socket"));
    }
    match UnixStream::connect(path).await {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
            tracing::info!("{} is replaced: nobody listens on it", path.display());
            fs::remove_file(path)
        }
        // With a full backlog, the error is WouldBlock.
        Ok(_) => Err(io::Error::other("another process listens on it")),
        Err(error) if error.kind() == ErrorKind::WouldBlock => {
            Err(io::Error::other("another process listens on it"))
        }
        Err(error) => Err(error),
    }
}

fn make(path: &Path, mode: u32) -> io::Result<(tokio::net::UnixListener, SocketFile)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    let file = SocketFile { path: path.to_owned(), identity: identity(path)? };
    // Nobody can connect before the socket listens. By then, the file has its permissions.
    fs::set_permissions(path, Permissions::from_mode(mode))?;
    listen(&socket, BACKLOG)?;
    Ok((tokio::net::UnixListener::from_std(UnixListener::from(socket))?, file))
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    fs::symlink_metadata(path).map(|file| (file.dev(), file.ino()))
}
