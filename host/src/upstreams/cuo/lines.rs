//! Lines from somebody who may never end one: read with a cap, in bounded memory.

use std::io;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

#[derive(Debug, PartialEq)]
pub enum Line {
    /// Without its line end.
    Whole(Vec<u8>),
    /// Over the cap: its first bytes; the rest is skipped.
    Cut(Vec<u8>),
}

pub struct CappedLines<R> {
    reader: BufReader<R>,
    line: Vec<u8>,
    max_bytes: usize,
    /// A cut line was handed out and its end has not been seen.
    skipping: bool,
    /// All bytes read so far.
    pub total_bytes: u64,
}

impl<R: AsyncRead + Unpin> CappedLines<R> {
    pub fn new(reader: R, max_bytes: usize) -> Self {
        CappedLines { reader: BufReader::new(reader), line: Vec::new(), max_bytes, skipping: false, total_bytes: 0 }
    }

    /// The next line; `None` at the end. A cut line is handed out at once, without waiting for its end. Safe to drop
    /// and call again: what was read stays.
    pub async fn next(&mut self) -> io::Result<Option<Line>> {
        loop {
            let buffer = self.reader.fill_buf().await?;
            if buffer.is_empty() {
                let last = std::mem::take(&mut self.line);
                return Ok((!last.is_empty()).then_some(Line::Whole(last)));
            }
            let end = buffer.iter().position(|b| *b == b'\n');
            let used = end.map_or(buffer.len(), |at| at + 1);
            if !self.skipping {
                let room = self.max_bytes + 1 - self.line.len().min(self.max_bytes + 1);
                let text = end.unwrap_or(buffer.len());
                self.line.extend_from_slice(&buffer[..text.min(room)]);
            }
            self.reader.consume(used);
            self.total_bytes += used as u64;
            let was_skipping = self.skipping;
            if end.is_some() {
                self.skipping = false;
            }
            if was_skipping {
                continue;
            }
            if self.line.len() > self.max_bytes {
                let mut line = std::mem::take(&mut self.line);
                line.truncate(self.max_bytes);
                self.skipping = end.is_none();
                return Ok(Some(Line::Cut(line)));
            }
            if end.is_some() {
                let mut line = std::mem::take(&mut self.line);
                if line.last() == Some(&b'\r') {
                    line.pop();
                }
                return Ok(Some(Line::Whole(line)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn all(text: &str, max_bytes: usize) -> Vec<Line> {
        let mut lines = CappedLines::new(text.as_bytes(), max_bytes);
        let mut found = Vec::new();
        while let Some(line) = lines.next().await.unwrap() {
            found.push(line);
        }
        found
    }

    #[tokio::test]
    async fn a_long_line_is_cut_and_the_next_one_is_whole() {
        let whole = |s: &str| Line::Whole(s.into());
        let long = "x".repeat(100_000);
        assert_eq!(all("a\r\nb\n\nc", 10).await, [whole("a"), whole("b"), whole(""), whole("c")]);
        assert_eq!(all(&format!("{long}\nnext\n"), 10).await, [Line::Cut(b"xxxxxxxxxx".to_vec()), whole("next")]);
        assert_eq!(all("exactly10!\nz", 10).await, [whole("exactly10!"), whole("z")]);
        assert_eq!(all("", 10).await, []);
    }
}
