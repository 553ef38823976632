//! A consumer with a program of its own: opens its store, and connects, resumes, commits and acknowledges line by
//! line. Without a mistake it keeps the contract.

use std::cell::RefCell;
use std::future::Future;
use std::io;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use ackward::port::{Blocking, Clock, Fault, FaultPoint, Lane, Network};
use ackward::rules::{Cursor, ack_line, parse_line, parse_resync, resume_line};
use ackward::storage::{Durability, EventStore, Inbox, OpenOptions, Queue, StorageError};
use ackward_sim::computer::{Context, SimLane, SimStream, VFS_NAME};
use ackward_sim::judge::WatchedStore;
use ackward_sim::scenario::Consumer;
use ackward_sim::scene::{PUBLISHER_ADDRESS, SimFault, Stage, System};
use futures_util::future::{Either, select};
use tokio::io::AsyncWriteExt;

use super::flaw::{Flaw, makes};
use super::reader::Reader;
use super::store::TwinStore;

const PAUSE: Duration = Duration::from_millis(100);
/// While it waits for a line it looks up this often.
const TICK: Duration = Duration::from_millis(3);

/// Consumers that can be made to err.
pub struct Twins;

impl System for Twins {
    type Queue = Queue;
    type Inbox = Inbox;
    type Store = TwinStore;

    fn open_queue(path: &Path, options: &OpenOptions) -> Result<Queue, StorageError> {
        Queue::open(path, options)
    }

    fn open_inbox(path: &Path, options: &OpenOptions) -> Result<Inbox, StorageError> {
        Inbox::open(path, options)
    }

    fn open_store(path: &Path, options: &OpenOptions) -> Result<TwinStore, StorageError> {
        TwinStore::open(path, options)
    }

    async fn consume(context: Context, consumer: Rc<Consumer>, stage: Rc<Stage>) {
        let lane = open(&context, consumer.store_file()).await;
        let timeout = Duration::from_millis(consumer.timeout_ms.unsigned_abs());
        let twin = Twin { context, timeout, lane, began: RefCell::default(), kept: RefCell::default() };
        while !twin.connect_and_consume().await.is_ok_and(|needs_resync| needs_resync) {
            twin.context.sleep(PAUSE).await;
        }
        stage.needs_resync();
        twin.lane.close().await;
    }
}

type StoreLane = SimLane<WatchedStore<TwinStore>>;

async fn open(context: &Context, file: String) -> StoreLane {
    loop {
        let path = file.clone();
        let options = OpenOptions::new(Durability::Extra).vfs(VFS_NAME);
        let open = move || WatchedStore::open(TwinStore::open, Path::new(&path), &options);
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
        let from = if makes(Flaw::ResumesFromTheStart) { began } else { last };
        stream.write_all(resume_line(from).as_bytes()).await?;
        let mut reader = Reader::default();
        while let Some(line) = self.within(self.line(&mut reader, stream)).await? {
            if parse_resync(&line).is_ok() {
                return Ok(true);
            }
            if makes(Flaw::AckBeforeTheCommit) {
                acknowledge(stream, &line).await?;
            }
            let given = [line.clone()];
            let batch =
                self.lane.call("consume", move |store| store.consume_lines(&given, &mut SimFault)).await;
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

    /// The next line; now and then it looks up and waits anew.
    async fn line(&self, reader: &mut Reader, stream: &mut SimStream) -> io::Result<Option<Vec<u8>>> {
        loop {
            let line = Box::pin(reader.line(stream));
            let tick = Box::pin(self.context.sleep(TICK));
            if let Either::Left((line, _)) = select(line, tick).await {
                return line;
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

async fn acknowledge(stream: &mut SimStream, line: &[u8]) -> io::Result<()> {
    let Ok(event) = parse_line(line) else { return Ok(()) };
    stream.write_all(ack_line(event.seq).as_bytes()).await
}
