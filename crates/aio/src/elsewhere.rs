//! Systems without AIO.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use crate::{Blocks, Ended};

/// See the module for Linux. Here, there is none.
#[derive(Debug)]
pub enum Writes {}

impl Writes {
    /// # Errors
    /// Always.
    pub fn new(_bells: usize) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub fn bells(&self) -> &[Arc<OwnedFd>] {
        match *self {}
    }

    pub fn submit(
        &mut self,
        _file: &Arc<File>,
        _offset: u64,
        _blocks: Blocks,
        _bell: usize,
    ) -> Result<(), (io::Error, Blocks)> {
        match *self {}
    }

    pub fn ended(&mut self) -> Option<Ended> {
        match *self {}
    }

    pub fn wait(&mut self) -> Option<Ended> {
        match *self {}
    }
}
