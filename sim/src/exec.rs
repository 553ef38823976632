//! Operations from outside (contract, part X): one JSON object a line in, one a line out, run by the real
//! storage code on real SQLite files.
//!
//! Beyond part X there are two more operations, for M10: `renew` (ticket, now_ms, \[lease_ms=1000\], \[fault\])
//! gives a ticket or false, `release` (ticket, now_ms, \[fault\]) gives `"pending"` or false.

mod arguments;
mod consumer;
mod courier;
mod failure;
mod hex;
mod json;
mod queue;

use std::collections::BTreeMap;
use std::io::{self, BufRead, Write};
use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;

use arguments::Arguments;
use consumer::Consumer;
pub use failure::Failure;
use queue::QueueFile;

/// Runs every line of `input` and writes the results to `output`, flushed after each. The files are
/// `dir`/queue.db and `dir`/store.db, which are kept, or temporary ones.
///
/// # Errors
/// Reading, writing or the directory failed, or a file could not be opened at the start. A bad line is no
/// error: its result says so.
pub fn run(dir: Option<&Path>, input: impl BufRead, output: impl Write) -> io::Result<()> {
    run_explained(dir, input, output, |_| {})
}

/// As [`run`]; `explain` is told every failure in full, where the output has only its name.
///
/// # Errors
/// As [`run`].
pub fn run_explained(
    dir: Option<&Path>,
    mut input: impl BufRead,
    mut output: impl Write,
    mut explain: impl FnMut(&Failure),
) -> io::Result<()> {
    let home = Home::open(dir)?;
    let mut session = Session::open(&home.path).map_err(io::Error::other)?;
    let mut line = Vec::new();
    while read_line(&mut input, &mut line)? {
        if line.trim_ascii().is_empty() {
            continue;
        }
        let reply = session.answer(&line);
        if let Err(failure) = &reply.result {
            explain(failure);
        }
        writeln!(output, "{}", reply.into_json())?;
        output.flush()?;
    }
    Ok(())
}

fn read_line(input: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    Ok(input.read_until(b'\n', line)? > 0)
}

/// Where the files are; a temporary directory lives as long as this.
struct Home {
    path: PathBuf,
    _temporary: Option<TempDir>,
}

impl Home {
    fn open(dir: Option<&Path>) -> io::Result<Self> {
        if let Some(dir) = dir {
            std::fs::create_dir_all(dir)?;
            return Ok(Self { path: dir.to_owned(), _temporary: None });
        }
        let temporary = tempfile::tempdir()?;
        Ok(Self { path: temporary.path().to_owned(), _temporary: Some(temporary) })
    }
}

/// What `op` may be.
const OPERATIONS: &str = "enqueue claim finish renew release redrive run_once retry_delay parse_line \
    apply_event consume_line replay state dump reopen";

/// The open files.
struct Session {
    queue: QueueFile,
    consumer: Consumer,
}

impl Session {
    fn open(dir: &Path) -> Result<Self, Failure> {
        let queue = QueueFile::open(dir.join("queue.db"))?;
        let consumer = Consumer::open(dir.join("store.db"))?;
        Ok(Self { queue, consumer })
    }

    fn answer(&mut self, line: &[u8]) -> Reply {
        match Arguments::parse(line) {
            Ok((op, arguments)) => self.perform(&op, &arguments),
            Err(failure) => failure.into(),
        }
    }

    fn perform(&mut self, op: &str, arguments: &Arguments) -> Reply {
        match op {
            "enqueue" => self.queue.enqueue(arguments),
            "claim" => self.queue.claim(arguments),
            "finish" => self.queue.finish(arguments),
            "renew" => self.queue.renew(arguments),
            "release" => self.queue.release(arguments),
            "redrive" => self.queue.redrive(arguments),
            "run_once" => self.queue.run_once(arguments),
            "retry_delay" => queue::retry_delay(arguments).into(),
            "dump" => self.dump(arguments).into(),
            "reopen" => self.reopen(arguments).into(),
            other => self.consumer.perform(other, arguments),
        }
    }

    fn dump(&mut self, arguments: &Arguments) -> Result<Value, Failure> {
        arguments.only(&[])?;
        let mut tables = BTreeMap::new();
        self.queue.dump(&mut tables)?;
        self.consumer.dump(&mut tables)?;
        Ok(tables.into_iter().collect())
    }

    fn reopen(&mut self, arguments: &Arguments) -> Result<Value, Failure> {
        arguments.only(&[])?;
        self.queue.close();
        self.consumer.close();
        self.queue.reopen()?;
        self.consumer.reopen()?;
        Ok(true.into())
    }
}

/// One line of the output.
struct Reply {
    result: Result<Value, Failure>,
    /// The fault points that were called, where the operation was given one.
    hooks: Option<Vec<&'static str>>,
    /// What `run_once` called, in order.
    calls: Option<Vec<Value>>,
}

impl Reply {
    fn into_json(self) -> String {
        let mut fields = BTreeMap::new();
        match self.result {
            Ok(value) => fields.insert("ok", value),
            Err(failure) => fields.insert("error", failure.name().into()),
        };
        if let Some(hooks) = self.hooks {
            fields.insert("hooks", hooks.into());
        }
        if let Some(calls) = self.calls {
            fields.insert("calls", calls.into());
        }
        fields.into_iter().collect::<Value>().to_string()
    }
}

impl From<Result<Value, Failure>> for Reply {
    fn from(result: Result<Value, Failure>) -> Self {
        Self { result, hooks: None, calls: None }
    }
}

impl From<Failure> for Reply {
    fn from(failure: Failure) -> Self {
        Err(failure).into()
    }
}
