//! Delays the calls of `fsync` and `fdatasync` of a command before the kernel begins them, so that they hold no lock meanwhile.
//!
//! The command gets a filter (`seccomp`) that reports these calls to a listener, and inherits it to all its processes. The command sends the
//! listener to the disk, which continues each call when its time has come. So it works for programs of any kind, also for static ones.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::{MaybeUninit, offset_of};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use false_disk::SyncTime;
use libc::{BPF_ABS, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W, seccomp_data, sock_filter, sock_fprog};
use rustix::cmsg_space;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

/// The architecture in the data of a call (`AUDIT_ARCH_*`), so that numbers of calls of other architectures are not mistaken.
#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7;

/// Runs a command whose syncs the disk at `socket` delays. Returns only if that fails.
///
/// # Errors
/// Nobody listens at `socket`, the kernel refuses the filter, or the command cannot be started.
pub(crate) fn run_on(socket: &Path, command: &mut Command) -> io::Result<Infallible> {
    let socket = UnixStream::connect(socket)?;
    let listener = filter_syncs()?;
    let descriptors = [listener.as_fd()];
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&descriptors));
    // A message needs at least one byte.
    sendmsg(&socket, &[IoSlice::new(&[0])], &mut control, SendFlags::empty())?;
    Err(command.exec())
}

/// Delays the syncs of all commands that connect to `listener`.
pub(crate) fn delay_all(listener: UnixListener, time: SyncTime, started: Instant) {
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let Some(calls) = socket.ok().and_then(|socket| received(&socket)) else { continue };
            std::thread::spawn(move || delay(calls.as_fd(), time, started));
        }
    });
}

fn received(socket: &UnixStream) -> Option<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    recvmsg(socket, &mut [IoSliceMut::new(&mut [0])], &mut control, RecvFlags::CMSG_CLOEXEC).ok()?;
    control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    })
}

/// Continues each reported call when its time has come, until no process of the command is left.
fn delay(calls: BorrowedFd<'_>, time: SyncTime, started: Instant) {
    let mut waiting: VecDeque<(Duration, u64)> = VecDeque::new();
    loop {
        while let Some((_, id)) = waiting.pop_front_if(|(end, _)| *end <= started.elapsed()) {
            continue_call(calls, id);
        }
        let until = waiting.front().map(|(end, _)| end.saturating_sub(started.elapsed()));
        let timeout = until
            .map(|until| Timespec { tv_sec: until.as_secs() as i64, tv_nsec: until.subsec_nanos().into() });
        let mut events = [PollFd::from_borrowed_fd(calls, PollFlags::IN)];
        let _ = poll(&mut events, timeout.as_ref());
        let events = events[0].revents();
        if events.contains(PollFlags::IN) {
            if let Some(id) = reported_call(calls) {
                waiting.push_back((time.end(started.elapsed()), id));
            }
        } else if !events.is_empty() {
            return;
        }
    }
}

/// Installs the filter for this thread and the command that it will be. Returns the listener.
fn filter_syncs() -> io::Result<OwnedFd> {
    let call = offset_of!(seccomp_data, nr) as u32;
    let architecture = offset_of!(seccomp_data, arch) as u32;
    let load = |from| instruction(BPF_LD | BPF_W | BPF_ABS, from, 0, 0);
    let unless_equal = |value, skip| instruction(BPF_JMP | BPF_JEQ | BPF_K, value, 0, skip);
    let if_equal = |value, skip| instruction(BPF_JMP | BPF_JEQ | BPF_K, value, skip, 0);
    let answer = |what| instruction(BPF_RET | BPF_K, what, 0, 0);
    let mut program = [
        load(architecture),
        unless_equal(ARCHITECTURE, 3),
        load(call),
        if_equal(libc::SYS_fsync as u32, 2),
        if_equal(libc::SYS_fdatasync as u32, 1),
        answer(libc::SECCOMP_RET_ALLOW),
        answer(libc::SECCOMP_RET_USER_NOTIF),
    ];
    let program = sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the call reads its numbers only. Unused ones must be 0.
    if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1_u64, 0_u64, 0_u64, 0_u64) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let (mode, flags) = (libc::SECCOMP_SET_MODE_FILTER, libc::SECCOMP_FILTER_FLAG_NEW_LISTENER);
    // SAFETY: `program` and the instructions to which it points live until the call returns, and the kernel copies them.
    let listener = unsafe { libc::syscall(libc::SYS_seccomp, mode, flags, &raw const program) };
    if listener < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has returned a new descriptor, which nobody else knows.
    Ok(unsafe { OwnedFd::from_raw_fd(listener as i32) })
}

fn instruction(code: u32, value: u32, then_skip: u8, else_skip: u8) -> sock_filter {
    sock_filter { code: code as u16, jt: then_skip, jf: else_skip, k: value }
}

/// Returns the id of the next reported call, or `None` if its thread has been interrupted.
fn reported_call(calls: BorrowedFd<'_>) -> Option<u64> {
    let mut report = MaybeUninit::<libc::seccomp_notif>::zeroed();
    // SAFETY: the kernel writes one report into memory of its type, which is zeroed, as it demands.
    let result =
        unsafe { libc::ioctl(calls.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, report.as_mut_ptr()) };
    // SAFETY: all fields are integers, for which any bits will do.
    (result == 0).then(|| unsafe { report.assume_init() }.id)
}

fn continue_call(calls: BorrowedFd<'_>, id: u64) {
    let flags = libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32;
    let mut answer = libc::seccomp_notif_resp { id, val: 0, error: 0, flags };
    // SAFETY: the kernel reads one answer from memory of its type. If the call was interrupted, it ignores the answer.
    unsafe { libc::ioctl(calls.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, &raw mut answer) };
}
