//! A guest's standard output and error, and its log: into our log, capped. Never to our own standard output, which
//! belongs to the stdio transport. A guest that prints without end is not stopped for it: the rest is counted and
//! dropped, and fuel bounds how long it can go on.

use bytes::Bytes;
use std::sync::{Arc, Mutex};
use tokio::io::AsyncWrite;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamResult};

/// From the WIT: what a message costs beside its text.
const LINE_BYTES: usize = 64;

/// What one call has written, shared by its three sinks.
#[derive(Clone)]
pub struct Capture(Arc<Mutex<Kept>>);

struct Kept {
    left: usize,
    dropped: u64,
    text: Vec<u8>,
}

impl Capture {
    pub fn new(log_bytes: usize) -> Self {
        Capture(Arc::new(Mutex::new(Kept { left: log_bytes, dropped: 0, text: Vec::new() })))
    }

    /// Keep what fits.
    fn push(&self, bytes: &[u8]) {
        let mut kept = self.lock();
        let fits = bytes.len().min(kept.left);
        kept.left -= fits;
        kept.dropped += (bytes.len() - fits) as u64;
        kept.text.extend_from_slice(&bytes[..fits]);
    }

    /// Charge a log message against the same budget, and the line that it makes even without text. False: it does not
    /// fit and is dropped.
    pub fn charge(&self, bytes: usize) -> bool {
        let mut kept = self.lock();
        match kept.left.checked_sub(LINE_BYTES + bytes) {
            Some(left) => kept.left = left,
            None => {
                kept.dropped += bytes as u64;
                return false;
            }
        }
        true
    }

    /// What was printed, and how many bytes were dropped.
    pub fn take(&self) -> (String, u64) {
        let mut kept = self.lock();
        let text = std::mem::take(&mut kept.text);
        (String::from_utf8_lossy(&text).into_owned(), kept.dropped)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl IsTerminal for Capture {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for Capture {
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(tokio::io::sink())
    }
    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }
}

#[async_trait::async_trait]
impl Pollable for Capture {
    async fn ready(&mut self) {}
}

impl OutputStream for Capture {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.push(&bytes);
        Ok(())
    }
    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }
    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(64 << 10)
    }
}
