//! How a consumer's store is judged: each transaction against the model, and each ACK against the store.

use std::path::Path;

use ackward::port::Fault;
use ackward::rules::{StreamEvent, parse_line};
use ackward::storage::{
    Applied as Outcome_, ApplyError, Batch, ConsumeError, EventStore, OpenOptions, State, StorageError,
};

use super::file::{BUSY_TIMEOUT_US, FileJudge, Model, Outcome};
use super::spy::{Kept, begin, blames_itself, end_with, gave_up, hidden};
use super::{FAITHFUL_LINES_ACCEPTED, Judges, Milestone, Milestones, with};
use crate::model::{Applied, Broken, ConsumerModel, ConsumerOp, ConsumerResult, Difference};
use crate::sqlite_file::{Image, Schema};

/// Lines that are consumed in one transaction; a malformed one is `None`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lines(pub Vec<Option<(i64, i64)>>);

/// What became of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Consumed {
    /// The numbers of those that may be acknowledged, and whether they were new.
    pub lines: Vec<(i64, bool)>,
    /// Why the next one was not.
    pub end: LinesEnd,
}

/// How a group of lines ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinesEnd {
    /// All were consumed.
    Complete,
    /// R17.
    Gap,
    /// R16.
    Conflict,
    /// Malformed.
    Invalid,
    /// A hook or SQLite failed there.
    Cut,
}

impl LinesEnd {
    /// The end in words; none where nothing is left.
    const fn told(self) -> Option<&'static str> {
        match self {
            Self::Complete => None,
            Self::Gap => Some("refuses a gap"),
            Self::Conflict => Some("refuses other content under an old number"),
            Self::Invalid => Some("refuses a malformed line"),
            Self::Cut => Some("fails"),
        }
    }
}

/// The store's model with groups of lines as operations.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoreModel(pub ConsumerModel);

impl StoreModel {
    /// Consumes at most `most` lines; whether rows changed, and what is returned.
    fn consume(&self, lines: &Lines, most: usize) -> (Self, Applied<Consumed>) {
        let mut after = self.clone();
        let mut changed = false;
        let mut consumed = Vec::new();
        let mut end = LinesEnd::Complete;
        for line in lines.0.iter().take(most) {
            let Some((seq, delta)) = *line else {
                end = LinesEnd::Invalid;
                break;
            };
            let applied = after.0.apply(&ConsumerOp::ApplyEvent { seq, delta });
            changed |= applied.changed;
            end = match applied.result {
                ConsumerResult::Applied | ConsumerResult::Repeat => {
                    consumed.push((seq, applied.changed));
                    continue;
                }
                ConsumerResult::Gap => LinesEnd::Gap,
                ConsumerResult::Conflict => LinesEnd::Conflict,
                ConsumerResult::Invalid => LinesEnd::Invalid,
            };
            break;
        }
        if end == LinesEnd::Complete && most < lines.0.len() {
            end = LinesEnd::Cut;
        }
        (after, Applied { result: Consumed { lines: consumed, end }, changed })
    }
}

impl Model for StoreModel {
    type Op = Lines;
    type Result = Consumed;

    fn outcomes(&self, op: &Lines) -> Vec<(Self, Applied<Consumed>)> {
        (0..=op.0.len()).rev().map(|most| self.consume(op, most)).collect()
    }

    fn matches(&self, image: &Image<'_>, schema: &Schema) -> Result<(), Difference> {
        self.0.matches(image, schema)
    }

    fn check_step(&self, before: &Self) -> Result<(), Broken> {
        let (was, is) = (before.0.state().0, self.0.state().0);
        if is < was || !self.0.agrees() {
            let detail = format!("the cursor was {was} and is {is}; cursor, ledger and total must agree");
            return Err(Broken { property: super::CURSOR_AGREES, detail });
        }
        Ok(())
    }

    fn asked(lines: &Lines) -> String {
        let lines = lines.0.iter().map(|line| match line {
            Some((seq, delta)) => format!("{seq} ({delta:+})"),
            None => "a malformed one".to_owned(),
        });
        format!("lines {}", lines.collect::<Vec<_>>().join(", "))
    }

    fn told(result: &Consumed) -> String {
        let lines: Vec<_> = result
            .lines
            .iter()
            .map(|(seq, is_new)| format!("{seq}{}", if *is_new { "" } else { " again" }))
            .collect();
        let end = result.end.told().map_or_else(String::new, |end| format!(", then {end}"));
        let lines = if lines.is_empty() { "nothing".to_owned() } else { lines.join(", ") };
        format!("consumes {lines}{end}")
    }

    fn story(&self, before: &Self) -> Vec<String> {
        let ((from, _), (to, total)) = (before.0.state(), self.0.state());
        vec![format!("cursor {from} -> {to}, total {total}")]
    }

    fn milestones(&self, before: &Self, _op: &Lines, _result: &Consumed, reached: &mut Milestones) {
        if self.0.state().0 > before.0.state().0 + 1 {
            reached.reach(Milestone::Group);
        }
    }

    /// A malformed line is refused before the file is looked at.
    fn needs_no_lock(result: &Consumed) -> bool {
        result.lines.is_empty() && result.end == LinesEnd::Invalid
    }

    fn confirms(result: &Consumed) -> bool {
        !result.lines.is_empty()
    }

    fn returned(result: &Consumed, reached: &mut Milestones) {
        if result.lines.iter().any(|(_, is_new)| !is_new) {
            reached.reach(Milestone::Resent);
        }
        if matches!(result.end, LinesEnd::Gap | LinesEnd::Conflict | LinesEnd::Invalid) {
            reached.reach(Milestone::BadStream);
        }
    }
}

/// A store's judge, and what was acknowledged from it.
pub struct StoreJudge {
    /// Judges the file.
    pub file: FileJudge<StoreModel>,
    /// The last event that was acknowledged; −1 for none.
    pub acknowledged: i64,
    /// The processes that work on it.
    pub consumers: Vec<usize>,
    /// How often they made a connection.
    pub connections: i64,
}

impl Kept for StoreModel {
    fn judge(judges: &mut Judges, index: usize) -> Option<(&mut FileJudge<Self>, &mut Milestones)> {
        Some((&mut judges.stores.get_mut(index)?.file, &mut judges.milestones))
    }
}

/// A store that is watched.
#[derive(Debug)]
pub struct WatchedStore<E> {
    inner: E,
    index: usize,
}

impl<E> WatchedStore<E> {
    /// Opens a store and watches it, where its file is judged.
    ///
    /// # Errors
    /// What `open` returns.
    pub fn open(
        open: impl FnOnce(&Path, &OpenOptions) -> Result<E, StorageError>,
        path: &Path,
        options: &OpenOptions,
    ) -> Result<Self, StorageError> {
        let inner = open(path, options)?;
        let name = path.to_string_lossy();
        let index = with(|judges, _| judges.stores.iter().position(|store| store.file.judged().file == name));
        Ok(Self { inner, index: index.flatten().unwrap_or(usize::MAX) })
    }

    fn watch(&mut self, lines: Lines, consume: impl FnOnce(&mut E) -> Batch) -> Batch {
        begin::<StoreModel>(self.index, Some(lines));
        let batch = consume(&mut self.inner);
        if let Some(ConsumeError::Apply(ApplyError::Storage(error))) = &batch.error {
            if error.is_busy() {
                gave_up::<StoreModel>(self.index, BUSY_TIMEOUT_US);
            }
            if let Some(error) = blames_itself(error) {
                hidden(&error);
            }
        }
        let told = told(&batch);
        if let Outcome::Returned(Consumed { end, .. }) = &told {
            refused(self.index, *end);
        }
        end_with::<StoreModel>(self.index, told);
        batch
    }
}

impl<E: EventStore> EventStore for WatchedStore<E> {
    fn state(&self) -> Result<State, StorageError> {
        self.inner.state()
    }

    fn apply_event(&mut self, event: StreamEvent, fault: &mut dyn Fault) -> Result<Outcome_, ApplyError> {
        self.inner.apply_event(event, fault)
    }

    fn consume_lines<L: AsRef<[u8]>>(&mut self, lines: &[L], fault: &mut dyn Fault) -> Batch {
        let read = lines.iter().map(|line| parse_line(line.as_ref()).ok());
        let read = read.map(|event| event.map(|event| (event.seq.get(), event.delta.get()))).collect();
        self.watch(Lines(read), |store| store.consume_lines(lines, fault))
    }
}

/// A faithful publisher's lines are refused only where bytes were lost or read twice on this side.
fn refused(index: usize, end: LinesEnd) {
    let is_refused = matches!(end, LinesEnd::Gap | LinesEnd::Conflict | LinesEnd::Invalid);
    let Some(told) = end.told().filter(|_| is_refused) else { return };
    with(|judges, world| {
        let Some(store) = judges.stores.get(index).filter(|_| judges.is_publisher_faithful) else { return };
        let detail = format!("{}: {told}", store.file.judged().file);
        judges.fail(FAITHFUL_LINES_ACCEPTED, world.now_us(), detail);
    });
}

/// What the judge is told of a batch.
fn told(batch: &Batch) -> Outcome<Consumed> {
    let lines = batch.consumed.iter().map(|line| (line.seq.get(), line.applied == Outcome_::New)).collect();
    let end = match &batch.error {
        None => LinesEnd::Complete,
        Some(ConsumeError::Invalid(_)) => LinesEnd::Invalid,
        Some(ConsumeError::Apply(ApplyError::Gap { .. })) => LinesEnd::Gap,
        Some(ConsumeError::Apply(ApplyError::Conflict { .. })) => LinesEnd::Conflict,
        Some(ConsumeError::Apply(ApplyError::Storage(error))) if batch.consumed.is_empty() => {
            let busy = error.is_busy();
            let unknown = matches!(error, StorageError::CommitUnknown(_));
            with(|judges, _| judges.milestones.reach(Milestone::of_failure(unknown, busy)));
            return if unknown { Outcome::Unknown } else { Outcome::Failed };
        }
        Some(ConsumeError::Apply(_)) if batch.consumed.is_empty() => return Outcome::Failed,
        Some(ConsumeError::Apply(_)) => LinesEnd::Cut,
    };
    Outcome::Returned(Consumed { lines, end })
}
