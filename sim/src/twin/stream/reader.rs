//! Lines from a stream, and the mistakes that can be made with them.

use std::io;
use std::mem::take;

use crate::computer::SimStream;
use ackward::rules::LINE_BYTES_MAX;
use tokio::io::AsyncReadExt;

use crate::scenario::Flaw;
use crate::twin::makes;

/// What has been read and is not yet a line. Giving up a wait for a line loses no byte of it.
#[derive(Default)]
pub struct Reader {
    buffer: Vec<u8>,
    has_ended: bool,
}

impl Reader {
    /// The next line with its LF; `None` at the end of the stream.
    pub async fn line(&mut self, stream: &mut SimStream) -> io::Result<Option<Vec<u8>>> {
        loop {
            if let Some(line) = self.whole_line()? {
                return Ok(Some(line));
            }
            if self.has_ended {
                return self.rest();
            }
            let mut piece = [0; LINE_BYTES_MAX];
            // With the mistake the bytes go with this future, if it is dropped here.
            let held =
                if makes(Flaw::InterruptedReadLosesBytes) { take(&mut self.buffer) } else { Vec::new() };
            let count = stream.read(&mut piece).await?;
            self.buffer.extend(held);
            self.buffer.extend_from_slice(&piece[..count]);
            self.has_ended = count == 0;
        }
    }

    fn whole_line(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            let head = &self.buffer[..self.buffer.len().min(LINE_BYTES_MAX)];
            if let Some(lf) = head.iter().position(|byte| *byte == b'\n') {
                return Ok(Some(self.buffer.drain(..=lf).collect()));
            }
            if self.buffer.len() <= LINE_BYTES_MAX {
                return Ok(None);
            }
            if !makes(Flaw::OverlongLineSplit) {
                return Err(io::Error::other("the line is too long"));
            }
            self.buffer.drain(..LINE_BYTES_MAX);
        }
    }

    fn rest(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut rest = take(&mut self.buffer);
        if rest.is_empty() {
            return Ok(None);
        }
        if !makes(Flaw::LastLineWithoutLf) {
            return Err(io::Error::other("the last line is cut off"));
        }
        rest.push(b'\n');
        Ok(Some(rest))
    }
}
