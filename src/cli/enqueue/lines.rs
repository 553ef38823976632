//! Reads events from lines, whatever is in them: a line that is too long, no text or no event is refused with its
//! number, and costs no more memory than a sound one.

use std::io::{self, BufRead, BufReader, Read};

use ackward::rules::{Event, Invalid};

/// The longest line that is looked at, in bytes. An event's has less than 200, white space aside.
const LINE_BYTES_MAX: u64 = 64 * 1024;
/// What is read in one go, in bytes.
const BUFFER_BYTES: usize = 64 * 1024;

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
    input: BufReader<R>,
    number: u64,
    bytes: u64,
    /// Why the input cannot be read on, until that is told.
    failed: Option<io::Error>,
}

impl<R: Read> Lines<R> {
    pub fn new(input: R) -> Self {
        Self { input: BufReader::with_capacity(BUFFER_BYTES, input), number: 0, bytes: 0, failed: None }
    }

    /// Bytes read so far.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The next lines, at most `max`; blank ones are passed over. None at the end. With `at_once`, a batch that has a
    /// line does not wait for another one that the producer has yet to write.
    ///
    /// # Errors
    /// The input's, once the lines before it have been handed out; see [`number`](Self::number).
    pub fn batch(&mut self, max: usize, at_once: bool) -> io::Result<Vec<Line>> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        let mut batch = Vec::new();
        while batch.len() < max && (batch.is_empty() || !at_once || self.has_line()) {
            match self.next() {
                Ok(Some(line)) => batch.extend(line),
                Ok(None) => break,
                Err(error) if batch.is_empty() => return Err(error),
                Err(error) => {
                    self.failed = Some(error);
                    break;
                }
            }
        }
        Ok(batch)
    }

    /// The number of the last line that was read to its end.
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// Whether the next line is here already, so that reading it cannot wait.
    fn has_line(&self) -> bool {
        self.input.buffer().contains(&b'\n')
    }

    /// The next line: `None` at the end, `Some(None)` where it is blank.
    fn next(&mut self) -> io::Result<Option<Option<Line>>> {
        let mut line = Vec::new();
        let read = (&mut self.input).take(LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
        if read == 0 {
            return Ok(None);
        }
        self.bytes += read as u64;
        let is_too_long = read as u64 == LINE_BYTES_MAX && line.last() != Some(&b'\n');
        if is_too_long {
            self.skip_rest()?;
        }
        self.number += 1;
        let number = self.number;
        if is_too_long {
            let event = Err(format!(
                "the line is longer than {LINE_BYTES_MAX} bytes, allowed: up to {LINE_BYTES_MAX}"
            ));
            return Ok(Some(Some(Line { number, event })));
        }
        let event = match str::from_utf8(&line) {
            Ok(text) if text.trim().is_empty() => return Ok(Some(None)),
            Ok(text) => Event::from_json(text.trim_end_matches(['\n', '\r'])).map_err(refused),
            Err(_) => Err("the line is not UTF-8, allowed: UTF-8 text".to_owned()),
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

/// Why a line is refused: whoever writes lines has not heard of events.
fn refused(invalid: Invalid) -> String {
    let field = if invalid.field == "event" { "the line".into() } else { invalid.field };
    Invalid { field, ..invalid }.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// M2: it names the line or the field, what is there, and what is allowed.
    #[test]
    fn a_refused_line_is_called_a_line() {
        const ALLOWED: &str =
            r#", allowed: an object with exactly the keys "id" and "qty", such as {"id":"cake","qty":3}"#;
        for (text, why) in [
            ("nonsense", "the line is no JSON (expected ident at line 1 column 2)"),
            ("[1]", "the line is a list of 1"),
            (r#"{"id":"a","qty":1,"x":1}"#, r#"the line is an object with the key "x""#),
            (r#"{"id":"a"}"#, "the line is an object without qty"),
        ] {
            let lines = Lines::new(text.as_bytes()).batch(1, false).unwrap();
            assert_eq!(lines[0].event, Err(format!("{why}{ALLOWED}")));
        }
        let lines = Lines::new(&b"{\"id\":\"a\",\"qty\":0}"[..]).batch(1, false).unwrap();
        assert_eq!(lines[0].event, Err("qty is 0, allowed: a whole number from 1 to 1000".to_owned()));
    }

    #[test]
    fn lines_keep_their_numbers_whatever_stands_between() {
        let mut text = b"{\"id\":\"a\",\"qty\":1}\n\n \t\nnonsense\n\xff\n".to_vec();
        text.extend(vec![b'x'; 200_000]);
        text.extend(b"\n{\"id\":\"b\",\"qty\":2}\r\n{\"id\":\"c\",\"qty\":3}");
        let mut lines = Lines::new(&text[..]);
        let mut all = Vec::new();
        loop {
            let batch = lines.batch(2, false).unwrap();
            if batch.is_empty() {
                break;
            }
            assert!(batch.len() <= 2);
            all.extend(batch);
        }
        assert_eq!(
            told(&all),
            [(1, "a"), (4, "refused"), (5, "refused"), (6, "refused"), (7, "b"), (8, "c")]
        );
        assert_eq!(lines.bytes(), text.len() as u64);
    }

    /// Each piece is all that can be read without waiting: a line of which a part is missing is waited for only where
    /// there is nothing to hand out.
    #[test]
    fn a_batch_ends_where_it_would_have_to_wait() {
        let pieces = [
            "{\"id\":\"a\",\"qty\":1}\n\n{\"id\":\"b\",\"qty\":1}\n{\"id\":",
            "\"c\",\"qty\":1}\n",
            "\n",
            "x\n",
        ];
        let mut lines = Lines::new(Pieces(pieces.map(|piece| Ok(piece.into())).into()));
        let mut batches = Vec::new();
        loop {
            let batch = lines.batch(500, true).unwrap();
            if batch.is_empty() {
                break;
            }
            batches.push(batch);
        }
        let told: Vec<_> = batches.iter().map(|batch| told(batch)).collect();
        assert_eq!(told, [vec![(1, "a"), (3, "b")], vec![(4, "c")], vec![(6, "refused")]]);
    }

    #[test]
    fn a_read_error_does_not_take_the_lines_before_it() {
        for at_once in [false, true] {
            let pieces =
                [Ok("{\"id\":\"a\",\"qty\":1}\n".into()), Ok("{\"id".into()), Err(io::Error::other("gone"))];
            let mut lines = Lines::new(Pieces(pieces.into()));
            assert_eq!(told(&lines.batch(500, at_once).unwrap()), [(1, "a")]);
            assert_eq!(lines.batch(500, at_once).unwrap_err().to_string(), "gone");
            assert_eq!(lines.number(), 1);
        }
    }

    fn told(lines: &[Line]) -> Vec<(u64, &str)> {
        let mut told = Vec::new();
        for Line { number, event } in lines {
            told.push((*number, event.as_ref().map_or("refused", |event| event.id.as_str())));
        }
        told
    }

    /// What each read gives.
    struct Pieces(std::collections::VecDeque<io::Result<String>>);

    impl Read for Pieces {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let Some(piece) = self.0.pop_front().transpose()? else { return Ok(0) };
            buffer[..piece.len()].copy_from_slice(piece.as_bytes());
            Ok(piece.len())
        }
    }
}
