//! Standard input and output as the executor likes them best. Clients give a server pipes or sockets, which can be waited
//! for; read and written by a thread that blocks, as files and terminals have to be, each message would wake two more.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixStream as BlockingStream;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;
use tokio::net::unix::pipe::{Receiver, Sender};

pub type Input = Box<dyn AsyncRead + Send + Unpin>;
pub type Output = Box<dyn AsyncWrite + Send + Unpin>;

/// Must be called within the executor.
pub fn input() -> Input {
    match alone(io::stdin().as_fd().try_clone_to_owned()) {
        Some(End::Pipe(fd)) => Receiver::from_owned_fd(fd).map(|pipe| Box::new(pipe) as Input).ok(),
        Some(End::Socket(fd)) => socket(fd).map(|socket| Box::new(socket) as Input).ok(),
        None => None,
    }
    .unwrap_or_else(|| Box::new(tokio::io::stdin()))
}

/// Must be called within the executor.
pub fn output() -> Output {
    match alone(io::stdout().as_fd().try_clone_to_owned()) {
        Some(End::Pipe(fd)) => Sender::from_owned_fd(fd).map(|pipe| Box::new(pipe) as Output).ok(),
        Some(End::Socket(fd)) => socket(fd).map(|socket| Box::new(socket) as Output).ok(),
        None => None,
    }
    .unwrap_or_else(|| Box::new(tokio::io::stdout()))
}

enum End {
    Pipe(OwnedFd),
    Socket(OwnedFd),
}

/// `None` for what cannot be waited for, and for what standard error goes to as well: not to block is a property of the
/// open file, and log lines would be lost.
fn alone(fd: io::Result<OwnedFd>) -> Option<End> {
    let file = File::from(fd.ok()?);
    let meta = file.metadata().ok()?;
    let log = File::from(io::stderr().as_fd().try_clone_to_owned().ok()?).metadata().ok()?;
    if (meta.dev(), meta.ino()) == (log.dev(), log.ino()) {
        return None;
    }
    match meta.file_type() {
        kind if kind.is_fifo() => Some(End::Pipe(file.into())),
        kind if kind.is_socket() => Some(End::Socket(file.into())),
        _ => None,
    }
}

fn socket(fd: OwnedFd) -> io::Result<UnixStream> {
    let stream = BlockingStream::from(fd);
    stream.set_nonblocking(true)?;
    // Standard input can be an internet socket as well; only a local one has such an address.
    stream.local_addr()?;
    UnixStream::from_std(stream)
}
