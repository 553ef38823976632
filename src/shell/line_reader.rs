//! Lines from a stream of bytes, bounded and cancel-safe (R28, R29, R37, B2).

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt};

use crate::rules::{Invalid, LINE_BYTES_MAX, bad_line};

/// Bytes held at most: sixteen of the longest lines.
const BUFFER_BYTES: usize = 16 * LINE_BYTES_MAX;

/// A line with its LF, at most 64 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line {
    bytes: [u8; LINE_BYTES_MAX],
    len: usize,
}

impl AsRef<[u8]> for Line {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Why there is no line.
#[derive(Debug, thiserror::Error)]
pub enum LineError {
    /// Longer than 64 bytes, or cut off by the end of the stream. Nothing more can be read from it.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The stream failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Splits what a stream brings into lines. Dropping a future of its loses no byte.
#[derive(Debug)]
pub struct LineReader {
    buffer: Box<[u8; BUFFER_BYTES]>,
    start: usize,
    end: usize,
}

impl Default for LineReader {
    fn default() -> Self {
        Self { buffer: Box::new([0; BUFFER_BYTES]), start: 0, end: 0 }
    }
}

impl LineReader {
    /// Waits for the next line; `None` at the end of the stream.
    ///
    /// # Errors
    /// [`LineError`]; an over-long line is refused as soon as 65 of its bytes are here.
    pub async fn next(&mut self, stream: &mut (impl AsyncRead + Unpin)) -> Result<Option<Line>, LineError> {
        loop {
            if let Some(line) = self.buffered()? {
                return Ok(Some(line));
            }
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
            let count = stream.read(&mut self.buffer[self.end..]).await?;
            if count == 0 {
                return self.at_end();
            }
            self.end += count;
        }
    }

    /// The next line, if it is here already.
    ///
    /// # Errors
    /// [`Invalid`] where it is over-long.
    pub fn buffered(&mut self) -> Result<Option<Line>, Invalid> {
        let held = &self.buffer[self.start..self.end];
        let head = &held[..held.len().min(LINE_BYTES_MAX)];
        if let Some(lf) = head.iter().position(|&byte| byte == b'\n') {
            let mut line = Line { bytes: [0; LINE_BYTES_MAX], len: lf + 1 };
            line.bytes[..=lf].copy_from_slice(&head[..=lf]);
            self.start += lf + 1;
            return Ok(Some(line));
        }
        if held.len() > LINE_BYTES_MAX {
            return Err(bad_line(head, "at most 64 bytes, LF counted"));
        }
        Ok(None)
    }

    /// What the end of the stream means: a line cut off is no line (R29).
    fn at_end(&self) -> Result<Option<Line>, LineError> {
        let rest = &self.buffer[self.start..self.end];
        if rest.is_empty() {
            return Ok(None);
        }
        Err(bad_line(rest, "a line that ends with LF before the stream ends").into())
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test on a real clock")]
mod tests {
    use futures_util::FutureExt;
    use tokio::io::{AsyncWriteExt, duplex};

    use super::*;

    fn block_on<F: Future>(future: F) -> F::Output {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let limit = std::time::Duration::from_secs(20);
        runtime.block_on(async { tokio::time::timeout(limit, future).await.expect("it ends") })
    }

    /// All lines of a stream that arrives in pieces of `piece` bytes, and how it ends.
    fn lines(bytes: &[u8], piece: usize) -> (Vec<Vec<u8>>, Option<String>) {
        block_on(async {
            let (mut here, mut there) = duplex(piece);
            let mut reader = LineReader::default();
            let write = async {
                let _ = there.write_all(bytes).await;
                drop(there);
            };
            let read = async {
                let mut lines = Vec::new();
                loop {
                    match reader.next(&mut here).await {
                        Ok(Some(line)) => lines.push(line.as_ref().to_vec()),
                        Ok(None) => return (lines, None),
                        Err(error) => {
                            drop(here);
                            return (lines, Some(error.to_string()));
                        }
                    }
                }
            };
            futures_util::future::join(read, write).await.0
        })
    }

    /// R28, M5: the pieces do not matter.
    #[test]
    fn lines_come_whole_whatever_the_pieces() {
        let text: String = (0..200).map(|n| format!("EVENT {n} {}\n", n % 7)).collect();
        for piece in [1, 2, 3, 63, 64, 65, 4096] {
            let (found, end) = lines(text.as_bytes(), piece);
            assert_eq!(end, None);
            assert_eq!(found.concat(), text.as_bytes());
            assert_eq!(found.len(), 200);
        }
    }

    /// R37, B2: a line of 64 bytes with its LF passes, one of 65 does not.
    #[test]
    fn a_line_of_64_bytes_passes_and_one_of_65_does_not() {
        for piece in [1, 4096] {
            let (found, end) = lines(format!("{}\n", "x".repeat(63)).as_bytes(), piece);
            assert_eq!((found.len(), end), (1, None));
            let (found, end) = lines(format!("a\n{}\n", "x".repeat(64)).as_bytes(), piece);
            assert_eq!(found.len(), 1);
            assert!(end.unwrap().contains("at most 64 bytes"));
        }
    }

    /// R37, B2: 64 bytes without LF are waited for, the 65th is refused without waiting for more.
    #[test]
    fn an_overlong_line_is_refused_without_waiting_for_its_end() {
        block_on(async {
            let (mut here, mut there) = duplex(4096);
            let mut reader = LineReader::default();
            there.write_all(&[b'x'; 64]).await.unwrap();
            let waiting = reader.next(&mut here).now_or_never();
            assert!(waiting.is_none());
            there.write_all(b"x").await.unwrap();
            assert!(matches!(reader.next(&mut here).await, Err(LineError::Invalid(_))));
        });
    }

    /// R30, W4: a publisher's whole window, sixteen of the longest lines, is held at once, so it can share a commit.
    #[test]
    fn a_window_of_sixteen_lines_is_held_at_once() {
        block_on(async {
            let (mut here, mut there) = duplex(4096);
            let mut reader = LineReader::default();
            let line = format!("{}\n", "x".repeat(63));
            there.write_all(line.repeat(17).as_bytes()).await.unwrap();
            assert!(reader.next(&mut here).await.unwrap().is_some());
            for held in 1..16 {
                assert!(reader.buffered().unwrap().is_some(), "line {held}");
            }
            assert!(reader.buffered().unwrap().is_none());
        });
    }

    /// R29.
    #[test]
    fn an_end_within_a_line_is_an_error() {
        let (found, end) = lines(b"EVENT 0 1\nEVENT 1 1", 7);
        assert_eq!(found, [b"EVENT 0 1\n"]);
        assert_eq!(
            end.unwrap(),
            r#"line is "EVENT 1 1", allowed: a line that ends with LF before the stream ends"#
        );
    }

    /// M5: a dropped wait loses nothing.
    #[test]
    fn a_dropped_wait_loses_no_byte() {
        block_on(async {
            let (mut here, mut there) = duplex(4096);
            let mut reader = LineReader::default();
            for piece in ["EV", "ENT 0", " 1\nEVE", "NT 1 2\n"] {
                there.write_all(piece.as_bytes()).await.unwrap();
                if !piece.contains('\n') {
                    assert!(reader.next(&mut here).now_or_never().is_none());
                }
            }
            assert_eq!(reader.next(&mut here).await.unwrap().unwrap().as_ref(), b"EVENT 0 1\n");
            assert_eq!(reader.next(&mut here).await.unwrap().unwrap().as_ref(), b"EVENT 1 2\n");
        });
    }
}
