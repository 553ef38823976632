//! A consumer with a program of its own: opens its store, and connects, resumes, commits and acknowledges line by
//! line. Without a mistake it keeps the contract.

mod reader;
mod store;

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::io;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::computer::{Context, SimLane, SimStream, VFS_NAME};
use crate::judge::WatchedStore;
use crate::scenario::{Consumer, Flaw};
use crate::scene::{PUBLISHER_ADDRESS, SimFault, Stage};
use ackward::port::{Blocking, Clock, Fault, FaultPoint, Injected, Lane, Network};
use ackward::rules::{Cursor, ack_line, parse_line, parse_resync, resume_line};
use ackward::storage::{Batch, Durability, EventStore, OpenOptions};
use futures_util::future::{Either, select};
use tokio::io::AsyncWriteExt;

use super::makes;
use reader::Reader;

pub use store::StoreTwin;

const PAUSE: Duration = Duration::from_millis(100);
/// While it waits for a line it looks up this often.
const TICK: Duration = Duration::from_millis(3);
/// After this long it gives a commit up, where that is the mistake.
const COMMIT_LIMIT: Duration = Duration::from_millis(50);

/// A consumer's program.
pub(super) async fn consume(context: Context, consumer: Rc<Consumer>, stage: Rc<Stage>) {
    let lane = open(&context, consumer.store_file()).await;
    let timeout = Duration::from_millis(consumer.timeout_ms.unsigned_abs());
    let (began, kept) = Default::default();
    let twin = Twin { context, timeout, lane, began, kept, was_fed: Cell::new(true) };
    while !twin.connect_and_consume().await.is_ok_and(|needs_resync| needs_resync) {
        twin.context.sleep(PAUSE).await;
    }
    stage.needs_resync();
    twin.lane.close().await;
}

type StoreLane = SimLane<WatchedStore<StoreTwin>>;

async fn open(context: &Context, file: String) -> StoreLane {
    loop {
        let path = file.clone();
        let options = OpenOptions::new(Durability::Extra).vfs(VFS_NAME);
        let open = move || WatchedStore::open(StoreTwin::open, Path::new(&path), &options);
        match context.open("open", open).await {
            Ok(lane) => return lane,
            Err(_) => context.sleep(PAUSE).await,
        }
    }
}

struct Twin {
    context: Context,
    timeout: Duration,
    lane: StoreLane,
    /// Where the store stood at first.
    began: RefCell<Option<Cursor>>,
    /// Connections that nobody needs any more.
    kept: RefCell<Vec<SimStream>>,
    /// Whether the last connection brought something.
    was_fed: Cell<bool>,
}

impl Twin {
    /// One connection to its end; whether a resync is needed.
    async fn connect_and_consume(&self) -> io::Result<bool> {
        let mut stream = self.within(self.context.connect(PUBLISHER_ADDRESS)).await?;
        let result = self.consume(&mut stream).await;
        if makes(Flaw::ConnectionLeaked)
            && result.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::TimedOut)
        {
            self.kept.borrow_mut().push(stream);
        }
        result
    }

    async fn consume(&self, stream: &mut SimStream) -> io::Result<bool> {
        let last = self.lane.call("state", |store| store.state()).await.map_err(io::Error::other)?.last;
        let began = *self.began.borrow_mut().get_or_insert(last);
        let from = match () {
            () if makes(Flaw::ResumesFromTheStart) => began,
            () if makes(Flaw::CursorForgotten) && !self.was_fed.get() => Cursor::START,
            () => last,
        };
        self.was_fed.set(false);
        stream.write_all(resume_line(from).as_bytes()).await?;
        let mut reader = Reader::default();
        let mut held = None;
        while let Some(line) = self.next(&mut reader, stream, &mut held).await? {
            if parse_resync(&line).is_ok() {
                return Ok(true);
            }
            self.was_fed.set(true);
            if makes(Flaw::AckBeforeTheCommit) {
                acknowledge(stream, &line).await?;
            }
            let batch = self.commit(line.clone()).await?;
            if let Some(error) = batch.error {
                return Err(io::Error::other(error));
            }
            SimFault.at(FaultPoint::BeforeAck).map_err(io::Error::other)?;
            if !makes(Flaw::AckBeforeTheCommit) {
                acknowledge(stream, &line).await?;
            }
        }
        stream.shutdown().await?;
        Ok(false)
    }

    /// Commits a line. Where that is the mistake, it is given up after a while, and what has not been done by then is
    /// left undone.
    async fn commit(&self, line: Vec<u8>) -> io::Result<Batch> {
        let is_given_up = Arc::new(AtomicBool::new(false));
        let mut fault = UnlessGivenUp(Arc::clone(&is_given_up));
        let commit = self.lane.call("consume", move |store| store.consume_lines(&[line], &mut fault));
        if !makes(Flaw::CancelledBeginStaysOpen) {
            return Ok(commit.await);
        }
        let limit = Box::pin(self.context.sleep(COMMIT_LIMIT));
        match select(Box::pin(commit), limit).await {
            Either::Left((batch, _)) => Ok(batch),
            Either::Right(_) => {
                is_given_up.store(true, Ordering::SeqCst);
                Err(io::ErrorKind::TimedOut.into())
            }
        }
    }

    /// The next line to be done.
    async fn next(
        &self,
        reader: &mut Reader,
        stream: &mut SimStream,
        held: &mut Option<Vec<u8>>,
    ) -> io::Result<Option<Vec<u8>>> {
        if let Some(line) = held.take() {
            return Ok(Some(line));
        }
        let line = self.received(reader, stream).await?;
        if !makes(Flaw::AckPastWork) {
            return Ok(line);
        }
        // What came first takes longer than what came next.
        match self.received(reader, stream).await {
            Ok(Some(second)) => {
                *held = line;
                Ok(Some(second))
            }
            _ => Ok(line),
        }
    }

    async fn received(&self, reader: &mut Reader, stream: &mut SimStream) -> io::Result<Option<Vec<u8>>> {
        if makes(Flaw::ReadsWithoutALimit) {
            return self.line(reader, stream).await;
        }
        self.within(self.line(reader, stream)).await
    }

    /// The next line; now and then it looks up and waits anew.
    async fn line(&self, reader: &mut Reader, stream: &mut SimStream) -> io::Result<Option<Vec<u8>>> {
        loop {
            let line = Box::pin(reader.line(stream));
            let tick = Box::pin(self.context.sleep(TICK));
            if let Either::Left((line, _)) = select(line, tick).await {
                return line;
            }
            if makes(Flaw::InterruptedReadStartsAnew) {
                *reader = Reader::default();
            }
        }
    }

    async fn within<T>(&self, wait: impl Future<Output = io::Result<T>>) -> io::Result<T> {
        let limit = Box::pin(self.context.sleep(self.timeout));
        match select(Box::pin(wait), limit).await {
            Either::Left((result, _)) => result,
            Either::Right(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }
}

/// Fails once whoever waits has given up.
struct UnlessGivenUp(Arc<AtomicBool>);

impl Fault for UnlessGivenUp {
    fn at(&mut self, point: FaultPoint) -> Result<(), Injected> {
        if self.0.load(Ordering::SeqCst) {
            return Err(Injected("nobody waits for it any more".into()));
        }
        SimFault.at(point)
    }
}

async fn acknowledge(stream: &mut SimStream, line: &[u8]) -> io::Result<()> {
    let Ok(event) = parse_line(line) else { return Ok(()) };
    stream.write_all(ack_line(event.seq).as_bytes()).await
}
