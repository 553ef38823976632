//! The resumable consumer's store (contract, part R) over plain maps.

use std::collections::BTreeMap;

use crate::sqlite_file::{Image, Schema, ValueRef};

use super::Applied;
use super::compare::{Difference, Shape};

/// Highest number of an event (R4).
const SEQ_MAX: i64 = 2_147_483_647;
/// Largest change, either way (R4).
const DELTA_MAX: i64 = 1000;

/// Every operation of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConsumerOp {
    /// R14 to R19.
    ApplyEvent {
        /// The event's number, 0 to 2,147,483,647.
        seq: i64,
        /// The change, −1000 to 1000.
        delta: i64,
    },
}

/// Every result of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConsumerResult {
    /// R15: applied now.
    Applied,
    /// R16: applied before.
    Repeat,
    /// R16: another change was applied under this number, or none is known.
    Conflict,
    /// R17: a number was left out.
    Gap,
    /// R14: out of range.
    Invalid,
}

/// The cursor, the total and the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsumerModel {
    last: i64,
    total: i64,
    ledger: BTreeMap<i64, i64>,
}

const CHECKPOINT: Shape<3> = Shape { table: "checkpoint", columns: ["id", "last", "total"] };
const LEDGER: Shape<2> = Shape { table: "ledger", columns: ["seq", "delta"] };

impl Default for ConsumerModel {
    fn default() -> Self {
        Self { last: -1, total: 0, ledger: BTreeMap::new() }
    }
}

impl ConsumerModel {
    /// A new store (R8).
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The last applied number and the total (R12).
    #[must_use]
    pub const fn state(&self) -> (i64, i64) {
        (self.last, self.total)
    }

    /// The applied changes by number.
    #[must_use]
    pub const fn ledger(&self) -> &BTreeMap<i64, i64> {
        &self.ledger
    }

    /// Applies an operation as one transaction.
    pub fn apply(&mut self, op: &ConsumerOp) -> Applied<ConsumerResult> {
        let ConsumerOp::ApplyEvent { seq, delta } = *op;
        if !(0..=SEQ_MAX).contains(&seq) || !(-DELTA_MAX..=DELTA_MAX).contains(&delta) {
            return Applied::unchanged(ConsumerResult::Invalid);
        }
        if seq <= self.last {
            let is_repeat = self.ledger.get(&seq) == Some(&delta);
            return Applied::unchanged(if is_repeat {
                ConsumerResult::Repeat
            } else {
                ConsumerResult::Conflict
            });
        }
        if seq > self.last + 1 {
            return Applied::unchanged(ConsumerResult::Gap);
        }
        self.ledger.insert(seq, delta);
        self.total += delta;
        self.last = seq;
        Applied::changed(ConsumerResult::Applied)
    }

    /// Whether cursor, ledger and total agree: the ledger holds each number from 0 to the cursor, and the
    /// total is its sum.
    #[must_use]
    pub fn agrees(&self) -> bool {
        self.ledger.keys().copied().eq(0..=self.last) && self.ledger.values().sum::<i64>() == self.total
    }

    /// Reads the rows of a file; absent tables, or a checkpoint without its row, are a new store.
    ///
    /// # Errors
    /// [`Difference`] where the file is corrupt or a column holds no value of its kind.
    pub fn from_image(image: &Image<'_>, schema: &Schema) -> Result<Self, Difference> {
        let mut model = Self::new();
        for (id, [_, last, total]) in CHECKPOINT.read_ints(image, schema)? {
            if id == 1 {
                (model.last, model.total) = (last, total);
            }
        }
        for (seq, [_, delta]) in LEDGER.read_ints(image, schema)? {
            model.ledger.insert(seq, delta);
        }
        Ok(model)
    }

    /// Compares with the rows of a file. A new store also matches a file without tables.
    ///
    /// # Errors
    /// The first [`Difference`].
    pub fn matches(&self, image: &Image<'_>, schema: &Schema) -> Result<(), Difference> {
        let cells = [ValueRef::Int(1), ValueRef::Int(self.last), ValueRef::Int(self.total)];
        // The row is written when the store is first opened: before that a new store has none.
        let row = (*self != Self::new() || CHECKPOINT.has_rows(image, schema)?).then_some((1, cells));
        CHECKPOINT.compare(image, schema, row.into_iter())?;
        let ledger =
            self.ledger.iter().map(|(seq, delta)| (*seq, [ValueRef::Int(*seq), ValueRef::Int(*delta)]));
        LEDGER.compare(image, schema, ledger)
    }
}
