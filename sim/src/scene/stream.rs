//! The consumers' part of a world: a publisher with its log on one machine, consumers with their stores on
//! another, and somebody who appends to the log.

mod rogue;

use std::cell::{Cell, RefCell};
use std::future::pending;
use std::io;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use ackward::port::{Clock, Network};
use ackward::rules::{Jitter, RetryPolicy};
use ackward::shell::{
    Client, ClientOptions, Commit, FollowError, FollowOptions, Log, LogBytes, PublishOptions, SessionOptions,
    follow, publish,
};
use ackward::storage::{Durability, OpenOptions};
use rand_chacha::rand_core::RngCore;

use super::worker::options;
use super::{SimFault, Stage, System, timeout};
use crate::choice::{stable_hash, stream};
use crate::computer::{Context, ProcessSpec, Simulation};
use crate::judge::{self, Judged, Judges, Milestone, SAME_EVENTS, WatchedStore};
use crate::scenario::{Consumer, Publisher};

/// Where the publisher listens.
pub const ADDRESS: &str = "publisher-host:7000";
/// How long a program waits before it tries again what failed.
const PAUSE: Duration = Duration::from_millis(200);

/// Adds the publisher, whoever appends to its log, and the consumers.
pub(super) fn populate<S: System>(
    simulation: &mut Simulation,
    stage: &Rc<Stage>,
    judges: &Rc<RefCell<Judges>>,
) {
    let Some(publisher) = &stage.scenario.publisher else { return };
    let (far, near) = (simulation.machine("publisher-host"), simulation.machine("consumer-host"));
    let spec =
        ProcessSpec { restarts: u32::MAX, restart_after_ms: 300, ..ProcessSpec::new("publisher", far) };
    let shared = Rc::clone(stage);
    let process = simulation.process(spec, move |context| serve(context, Rc::clone(&shared)));
    judges.borrow_mut().publisher = Some(process);
    judges.borrow_mut().is_publisher_faithful = !publisher.rogue;
    if publisher.grow > 0 {
        // Outside of any machine that can fail: whoever appends to the log does so durably.
        let desk = simulation.machine("author-host");
        let shared = Rc::clone(stage);
        simulation
            .process(ProcessSpec::new("author", desk), move |context| author(context, Rc::clone(&shared)));
    }
    for consumer in &stage.scenario.consumers {
        let spec = ProcessSpec {
            restarts: u32::try_from(consumer.restarts).unwrap_or(u32::MAX),
            restart_after_ms: consumer.restart_after_ms,
            ..ProcessSpec::new(consumer.name.as_str(), near)
        };
        let file = consumer.store_file();
        let (post, shared) = (Rc::new(consumer.clone()), Rc::clone(stage));
        let process = simulation
            .process(spec, move |context| S::consume(context, Rc::clone(&post), Rc::clone(&shared)));
        let mut judges = judges.borrow_mut();
        if !judges.stores.iter().any(|store| store.file.judged().file == file) {
            judges.add_store(Judged::new(near, file.as_str(), Durability::Extra));
        }
        if let Some(store) = judges.stores.iter_mut().find(|store| store.file.judged().file == file) {
            store.consumers.push(process);
        }
    }
}

/// Whether every store holds all that the log holds, or its consumers were told that they need a resync.
pub(super) fn has_caught_up(stage: &Stage, judges: &Judges) -> bool {
    let (first, end) = stage.log.span();
    if stage.resyncs.get() >= stage.scenario.consumers.len() {
        return true;
    }
    stage.log.is_complete()
        && first == 0
        && judges.stores.iter().all(|store| store.file.model().0.state().0 + 1 == end)
}

/// Every store holds exactly the log's first events, no other and none twice.
pub(super) fn check(stage: &Stage, judges: &mut Judges, at_us: i64) {
    let (_, end) = stage.log.span();
    let mut broken = Vec::new();
    for store in &judges.stores {
        let model = &store.file.model().0;
        let (last, total) = model.state();
        let wrong = model.ledger().iter().find(|(seq, delta)| EventLog::delta(**seq) != **delta);
        if last >= end || wrong.is_some() || total != EventLog::total(0, last + 1) {
            let wrong = wrong.map_or_else(
                || "no event is wrong".to_owned(),
                |(seq, delta)| format!("event {seq} is {delta:+}, expected {:+}", EventLog::delta(*seq)),
            );
            broken.push(format!("{}: cursor {last}, total {total}, {wrong}", store.file.judged().file));
        }
    }
    for detail in broken {
        judges.fail(SAME_EVENTS, at_us, detail);
    }
}

impl Stage {
    /// A consumer was told that only a new start helps (W4), and ends.
    pub fn needs_resync(&self) {
        judge::with(|judges, _| judges.milestones.reach(Milestone::Resync));
        self.resyncs.set(self.resyncs.get() + 1);
    }
}

/// The publisher's log, which outlives its process.
#[derive(Debug, Default)]
pub(crate) struct EventLog {
    bytes: RefCell<Vec<u8>>,
    first: Cell<i64>,
    next: Cell<i64>,
    is_complete: Cell<bool>,
}

impl EventLog {
    pub(super) fn new(publisher: Option<&Publisher>) -> Self {
        let log = Self::default();
        if let Some(publisher) = publisher {
            log.first.set(publisher.first);
            log.next.set(publisher.first);
            for _ in 0..publisher.events {
                log.append();
            }
        }
        log.is_complete.set(publisher.is_none_or(|publisher| publisher.grow == 0));
        log
    }

    /// The change of an event: some of each sign, and zeros.
    pub(super) fn delta(seq: i64) -> i64 {
        (seq * 37) % 23 - 11
    }

    /// The number and the sum of all events before `end`, from the first.
    pub(super) fn total(first: i64, end: i64) -> i64 {
        (first..end).map(Self::delta).sum()
    }

    fn append(&self) {
        let seq = self.next.get();
        self.bytes.borrow_mut().extend_from_slice(format!("{seq} {}\n", Self::delta(seq)).as_bytes());
        self.next.set(seq + 1);
    }

    /// The first event it holds, and the one after the last.
    pub(super) fn span(&self) -> (i64, i64) {
        (self.first.get(), self.next.get())
    }

    /// Whether nothing will be appended any more.
    pub(super) fn is_complete(&self) -> bool {
        self.is_complete.get()
    }
}

/// The log as its publisher reads it.
struct Reading(Rc<Stage>);

impl LogBytes for Reading {
    fn len(&mut self) -> io::Result<u64> {
        Ok(self.0.log.bytes.borrow().len() as u64)
    }

    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.0.log.bytes.borrow();
        let rest = usize::try_from(offset).ok().and_then(|offset| bytes.get(offset..)).unwrap_or_default();
        let len = rest.len().min(buffer.len());
        buffer[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }
}

/// Appends to the log: the first half of a line, and a moment later the rest.
pub(super) async fn author(context: Context, stage: Rc<Stage>) {
    let Some(publisher) = stage.scenario.publisher.clone() else { return };
    let until = publisher.first + publisher.events + publisher.grow;
    while stage.log.next.get() < until {
        context.sleep_us(publisher.grow_every_ms * 1_000).await;
        let seq = stage.log.next.get();
        let line = format!("{seq} {}\n", EventLog::delta(seq));
        let (half, rest) = line.as_bytes().split_at(line.len() / 2);
        stage.log.bytes.borrow_mut().extend_from_slice(half);
        context.sleep_us(1_000).await;
        stage.log.bytes.borrow_mut().extend_from_slice(rest);
        stage.log.next.set(seq + 1);
    }
    stage.log.is_complete.set(true);
}

pub(super) async fn serve(context: Context, stage: Rc<Stage>) {
    let Some(publisher) = stage.scenario.publisher.clone() else { return };
    loop {
        if let Ok(listener) = context.listen(ADDRESS).await {
            if publisher.rogue {
                rogue::serve(&context, &stage, listener).await;
            } else if let Ok(log) = Log::open(Reading(Rc::clone(&stage))) {
                let options = PublishOptions {
                    timeout: timeout(publisher.timeout_ms),
                    idle_timeout: timeout(10_000),
                    poll_interval: timeout(50),
                    follow: publisher.grow > 0,
                    connections_max: 16,
                };
                if let Err(error) = publish(listener, log, &context, options, pending()).await {
                    context.world().note(|| format!("stops publishing: {error}"));
                }
            }
        }
        context.sleep(PAUSE).await;
    }
}

/// Follows the publisher, as often as it takes; ends only where a resync is needed.
pub(super) async fn consume<S: System>(context: Context, consumer: Rc<Consumer>, stage: Rc<Stage>) {
    let name = format!("jitter/{}/{}", consumer.name, context.incarnation);
    let mut random = stream(stage.seed, stable_hash(name.as_bytes()));
    let mut jitter = move || {
        let share = (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        Jitter::new(share).unwrap_or(Jitter::FULL)
    };
    let client = Client {
        clock: context.clone(),
        network: context.clone(),
        blocking: context.clone(),
        fault: SimFault,
        open: |path: &Path, options: &OpenOptions| {
            WatchedStore::<S::Store>::open(S::open_store, path, options)
        },
    };
    let commit = if consumer.group { Commit::Group } else { Commit::PerLine };
    let options = FollowOptions {
        client: ClientOptions {
            address: ADDRESS.to_owned(),
            path: consumer.store_file().into(),
            open: options(Durability::Extra),
            session: SessionOptions { timeout: timeout(consumer.timeout_ms), commit },
        },
        retry: RetryPolicy::CONTRACT,
        failures_max: None,
    };
    loop {
        let ended = follow(&client, &options, &mut jitter, &mut |_| Ok(()), pending()).await;
        match ended {
            Err(FollowError::Resync(_)) => return stage.needs_resync(),
            Err(error) => context.world().note(|| format!("starts following anew after: {error}")),
            Ok(_) => {}
        }
        context.sleep(PAUSE).await;
    }
}
