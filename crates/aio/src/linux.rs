//! The system calls.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::sync::Arc;

use rustix::event::{EventfdFlags, eventfd};

use crate::{Blocks, Ended};

/// `struct iocb` of `linux/aio_abi.h`: one request.
#[repr(C)]
#[derive(Debug, Default)]
struct Iocb {
    data: u64,
    #[cfg(target_endian = "little")]
    key: u32,
    rw_flags: i32,
    #[cfg(target_endian = "big")]
    key: u32,
    opcode: u16,
    priority: i16,
    file: u32,
    memory: u64,
    length: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    bell: u32,
}

const _: () = assert!(size_of::<Iocb>() == 64);

/// `struct io_event`: the end of a request.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct IoEvent {
    data: u64,
    request: u64,
    /// The bytes written, or a negative error number.
    result: i64,
    result_2: i64,
}

const _: () = assert!(size_of::<IoEvent>() == 32);

const IOCB_CMD_PWRITE: u16 = 1;
const IOCB_FLAG_RESFD: u32 = 1;

/// The requests that the context must hold: the one in flight.
const REQUESTS_MAX: libc::c_long = 1;

#[derive(Debug)]
struct Flight {
    blocks: Blocks,
    /// Keeps the file open.
    _file: Arc<File>,
}

/// The write in flight. See the crate.
#[derive(Debug)]
pub struct Writes {
    context: libc::c_ulong,
    bells: Vec<Arc<OwnedFd>>,
    flight: Option<Flight>,
}

impl Writes {
    /// Asks the kernel for a context, and makes this many bells.
    ///
    /// # Errors
    /// The kernel has no AIO, or forbids it, or has no context left (`fs.aio-max-nr`).
    pub fn new(bells: usize) -> io::Result<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let bells = (0..bells).map(|_| Ok(Arc::new(eventfd(0, flags)?))).collect::<io::Result<_>>()?;
        let mut context: libc::c_ulong = 0;
        // SAFETY: the kernel writes one word to `context`, which lives as long as the call.
        let made = unsafe { libc::syscall(libc::SYS_io_setup, REQUESTS_MAX, &raw mut context) };
        if made < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { context, bells, flight: None })
    }

    /// The bells, to be watched for input. A bell need not be read: each write that ends is an edge.
    pub fn bells(&self) -> &[Arc<OwnedFd>] {
        &self.bells
    }

    /// Writes whole blocks at an offset, within a file that was opened with `O_DIRECT`. When they are on the disk (`RWF_DSYNC`), the
    /// bell with this number rings.
    ///
    /// Within written blocks of a file, this waits only while the queue of the device is full, and for pages of these blocks that
    /// somebody has brought into the page cache. `RWF_NOWAIT` would refuse then. It would also refuse whatever crosses two extents of
    /// the file.
    ///
    /// # Errors
    /// Returns the blocks. A write is in flight, or the kernel refuses. A part of the blocks may have been written.
    pub fn submit(
        &mut self,
        file: &Arc<File>,
        offset: u64,
        blocks: Blocks,
        bell: usize,
    ) -> Result<(), (io::Error, Blocks)> {
        let Some(bell) = self.bells.get(bell).filter(|_| self.flight.is_none()) else {
            return Err((io::ErrorKind::ResourceBusy.into(), blocks));
        };
        let bytes = blocks.bytes();
        let mut request = Iocb {
            opcode: IOCB_CMD_PWRITE,
            file: file.as_raw_fd() as u32,
            memory: bytes.as_ptr() as u64,
            length: bytes.len() as u64,
            offset: offset as i64,
            flags: IOCB_FLAG_RESFD,
            bell: bell.as_raw_fd() as u32,
            rw_flags: libc::RWF_DSYNC,
            ..Iocb::default()
        };
        let mut requests = [&raw mut request];
        // SAFETY: the kernel copies the request before it returns. It reads the memory of the blocks until the write has ended; they are
        // kept in `flight` until then, and moving `Blocks` does not move its bytes.
        let submitted = unsafe {
            libc::syscall(libc::SYS_io_submit, self.context, 1 as libc::c_long, requests.as_mut_ptr())
        };
        if submitted != 1 {
            return Err((io::Error::last_os_error(), blocks));
        }
        self.flight = Some(Flight { blocks, _file: Arc::clone(file) });
        Ok(())
    }

    /// Returns the write in flight if it has ended.
    pub fn ended(&mut self) -> Option<Ended> {
        self.get(0)
    }

    /// Waits for the write in flight. Returns `None` if there is none.
    pub fn wait(&mut self) -> Option<Ended> {
        self.get(1)
    }

    fn get(&mut self, at_least: libc::c_long) -> Option<Ended> {
        self.flight.as_ref()?;
        let mut event = IoEvent::default();
        loop {
            // SAFETY: the kernel writes at most one event to `event`, which lives as long as the call.
            let got = unsafe {
                let (context, none) = (self.context, std::ptr::null_mut::<libc::timespec>());
                libc::syscall(
                    libc::SYS_io_getevents,
                    context,
                    at_least,
                    1 as libc::c_long,
                    &raw mut event,
                    none,
                )
            };
            match got {
                1 => break,
                0 => return None,
                _ if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
                // The arguments are always valid, so the kernel refuses nothing else.
                _ => return None,
            }
        }
        let Flight { blocks, .. } = self.flight.take()?;
        let result = match event.result {
            error if error < 0 => Err(io::Error::from_raw_os_error(-error as i32)),
            written if written as usize == blocks.bytes().len() => Ok(()),
            _ => Err(io::ErrorKind::WriteZero.into()),
        };
        Some(Ended { blocks, result })
    }
}

impl Drop for Writes {
    fn drop(&mut self) {
        // SAFETY: the context is valid until this call, which waits for the write in flight. So the memory of the blocks, which is
        // freed afterwards, is not read any more.
        unsafe { libc::syscall(libc::SYS_io_destroy, self.context) };
    }
}
