//! Reads events from lines, whatever is in them: a line that is too long, no text or no event is refused with its
//! number, and costs no more memory than a sound one.

use std::io::{self, BufRead, Read};

use ackward::rules::Event;

/// The longest line that is looked at, in bytes. An event's has less than 200, white space aside.
const LINE_BYTES_MAX: u64 = 64 * 1024;

/// A line with something in it.
#[derive(Debug, PartialEq, Eq)]
pub struct Line {
    /// Its number, from 1.
    pub number: u64,
    /// The event, or why there is none.
    pub event: Result<Event, String>,
}

/// The lines of an input.
pub struct Lines<R> {
    input: R,
    number: u64,
    bytes: u64,
}

impl<R: BufRead> Lines<R> {
    pub const fn new(input: R) -> Self {
        Self { input, number: 0, bytes: 0 }
    }

    /// Bytes read so far.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The next lines, at most `max`; blank ones are passed over. None at the end.
    pub fn batch(&mut self, max: usize) -> io::Result<Vec<Line>> {
        let mut batch = Vec::new();
        while batch.len() < max {
            let Some(line) = self.next()? else { break };
            batch.extend(line);
        }
        Ok(batch)
    }

    /// The next line: `None` at the end, `Some(None)` where it is blank.
    fn next(&mut self) -> io::Result<Option<Option<Line>>> {
        let mut line = Vec::new();
        let read = (&mut self.input).take(LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
        if read == 0 {
            return Ok(None);
        }
        self.number += 1;
        self.bytes += read as u64;
        let number = self.number;
        if read as u64 == LINE_BYTES_MAX && line.last() != Some(&b'\n') {
            self.skip_rest()?;
            let event = Err(format!("longer than {LINE_BYTES_MAX} bytes"));
            return Ok(Some(Some(Line { number, event })));
        }
        let event = match str::from_utf8(&line) {
            Ok(text) if text.trim().is_empty() => return Ok(Some(None)),
            Ok(text) => {
                Event::from_json(text.trim_end_matches(['\n', '\r'])).map_err(|error| error.to_string())
            }
            Err(_) => Err("not UTF-8".to_owned()),
        };
        Ok(Some(Some(Line { number, event })))
    }

    /// Drops what is left of a line.
    fn skip_rest(&mut self) -> io::Result<()> {
        loop {
            let buffer = self.input.fill_buf()?;
            let (used, ended) = match buffer.iter().position(|byte| *byte == b'\n') {
                Some(at) => (at + 1, true),
                None => (buffer.len(), buffer.is_empty()),
            };
            self.input.consume(used);
            self.bytes += used as u64;
            if ended {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_keep_their_numbers_whatever_stands_between() {
        let mut text = b"{\"id\":\"a\",\"qty\":1}\n\n \t\nnonsense\n\xff\n".to_vec();
        text.extend(vec![b'x'; 200_000]);
        text.extend(b"\n{\"id\":\"b\",\"qty\":2}\r\n{\"id\":\"c\",\"qty\":3}");
        let mut lines = Lines::new(&text[..]);
        let mut all = Vec::new();
        loop {
            let batch = lines.batch(2).unwrap();
            if batch.is_empty() {
                break;
            }
            assert!(batch.len() <= 2);
            all.extend(batch);
        }
        let told: Vec<_> = all
            .iter()
            .map(|line| (line.number, line.event.as_ref().map_or("refused", |event| event.id.as_str())))
            .collect();
        assert_eq!(told, [(1, "a"), (4, "refused"), (5, "refused"), (6, "refused"), (7, "b"), (8, "c")]);
        assert_eq!(lines.bytes(), text.len() as u64);
    }
}
