//! An HTTP/1.1 client that costs as little as one can: prepared requests, keep-alive connections, and a reader that looks
//! for the status and `Content-Length` and nothing else. All callers share the one thread that asks for the load.

use anyhow::{Context, ensure};
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// What a load did in its time.
pub struct Load {
    pub calls: usize,
    pub elapsed: Duration,
    pub latencies: Vec<Duration>,
}

impl Load {
    pub fn per_second(&self) -> f64 {
        self.calls as f64 / self.elapsed.as_secs_f64()
    }
}

/// A request to POST again and again.
pub fn post(path: &str, token: Option<&str>, body: &str) -> Vec<u8> {
    let authorization = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\n{authorization}Content-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

/// A `tools/call`; `id` must differ between callers.
pub fn tool_call(id: usize, tool: &str, arguments: &serde_json::Value) -> String {
    let params = serde_json::json!({ "name": tool, "arguments": arguments });
    serde_json::json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }).to_string()
}

pub struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    pub async fn open(address: SocketAddr) -> anyhow::Result<Connection> {
        let stream = TcpStream::connect(address).await.context("the server can be connected to")?;
        stream.set_nodelay(true)?;
        Ok(Connection { stream, buffer: Vec::with_capacity(64 << 10) })
    }

    /// The reply's status and body.
    pub async fn exchange(&mut self, request: &[u8]) -> anyhow::Result<(u16, &[u8])> {
        self.stream.write_all(request).await?;
        self.buffer.clear();
        loop {
            ensure!(self.stream.read_buf(&mut self.buffer).await? > 0, "the server closed the connection");
            let Some(head) = self.buffer.windows(4).position(|w| w == b"\r\n\r\n") else { continue };
            let (status, length) = head_of(&self.buffer[..head])?;
            let body = head + 4;
            while self.buffer.len() < body + length {
                ensure!(self.stream.read_buf(&mut self.buffer).await? > 0, "the server closed the connection");
            }
            return Ok((status, &self.buffer[body..body + length]));
        }
    }

    /// A tool call that must work.
    pub async fn call(&mut self, request: &[u8]) -> anyhow::Result<Duration> {
        let started = Instant::now();
        let (status, body) = self.exchange(request).await?;
        let took = started.elapsed();
        let worked = status == 200 && body.windows(15).any(|w| w == b"\"isError\":false");
        ensure!(worked, "a call failed with {status}: {}", String::from_utf8_lossy(body));
        Ok(took)
    }
}

fn head_of(head: &[u8]) -> anyhow::Result<(u16, usize)> {
    let head = std::str::from_utf8(head)?;
    let status = head.split(' ').nth(1).context("a status line")?.parse()?;
    let length = head
        .lines()
        .find_map(|line| line.split_once(": ").filter(|(name, _)| name.eq_ignore_ascii_case("content-length")))
        .map_or(Ok(0), |(_, length)| length.parse())?;
    Ok((status, length))
}

/// Everything of one load on the thread that asks for it.
pub fn on_this_thread<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
}

/// As many callers as requests, each with one call under way at any time, for `time`.
pub fn flood(address: SocketAddr, requests: &[Vec<u8>], time: Duration) -> anyhow::Result<Load> {
    on_this_thread(async {
        let mut connections = vec![];
        for _ in requests {
            connections.push(Connection::open(address).await?);
        }
        let started = Instant::now();
        let callers = connections.iter_mut().zip(requests).map(|(connection, request)| async move {
            let mut latencies = Vec::with_capacity(16 << 10);
            while started.elapsed() < time {
                latencies.push(connection.call(request).await?);
            }
            anyhow::Ok(latencies)
        });
        let latencies = futures::future::try_join_all(callers).await?.concat();
        Ok(Load { calls: latencies.len(), elapsed: started.elapsed(), latencies })
    })
}

/// One caller, one call after another.
pub fn serial(address: SocketAddr, request: &[u8], calls: usize) -> anyhow::Result<Vec<Duration>> {
    on_this_thread(async {
        let mut connection = Connection::open(address).await?;
        let mut latencies = Vec::with_capacity(calls);
        for _ in 0..calls {
            latencies.push(connection.call(request).await?);
        }
        Ok(latencies)
    })
}
