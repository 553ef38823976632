//! The receiver's inbox (contract, W3 and part Y) over plain maps: the same id takes effect once.

use ackward::rules::{Event, Millis, Name};

use crate::sqlite_file::{Image, Schema, ValueRef};

use super::Applied;
use super::compare::{Cells, Difference, Shape};

/// Every operation of the inbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InboxOp {
    /// A request that is well-formed (W3).
    Receive {
        /// What was sent.
        event: Event,
        /// The receiver's time.
        now: Millis,
    },
}

/// Every result of the inbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InboxResult {
    /// The effect took place now: 200.
    Applied,
    /// It took place before: 200.
    Duplicate,
    /// The id was received with another quantity: 422.
    Conflict,
}

/// A row of `inbox`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InboxRow {
    /// The job's identifier.
    pub id: Name,
    /// The quantity.
    pub qty: i64,
    /// When it was received, in ms.
    pub at_ms: i64,
}

/// A row of `effects`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EffectRow {
    /// Its number, from 1.
    pub seq: i64,
    /// The job that took effect.
    pub id: Name,
    /// The quantity.
    pub qty: i64,
    /// When, in ms.
    pub at_ms: i64,
}

/// The inbox, the effects and their totals.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InboxModel {
    /// In the order of acceptance.
    inbox: Vec<InboxRow>,
    effects: Vec<EffectRow>,
    count: i64,
    qty: i64,
}

const INBOX: Shape<3> = Shape { table: "inbox", columns: ["id", "qty", "at_ms"] };
const EFFECTS: Shape<4> = Shape { table: "effects", columns: ["seq", "id", "qty", "at_ms"] };
const TOTALS: Shape<3> = Shape { table: "totals", columns: ["id", "count", "qty"] };

impl InboxModel {
    /// An empty inbox.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The effects in order.
    #[must_use]
    pub fn effects(&self) -> &[EffectRow] {
        &self.effects
    }

    /// Number of effects, and the sum of their quantities.
    #[must_use]
    pub const fn totals(&self) -> (i64, i64) {
        (self.count, self.qty)
    }

    /// Applies an operation as one transaction.
    pub fn apply(&mut self, op: &InboxOp) -> Applied<InboxResult> {
        let InboxOp::Receive { event, now } = op;
        let (qty, at_ms) = (event.qty.get(), now.get());
        if let Some(row) = self.inbox.iter().find(|row| row.id == event.id) {
            let is_same = row.qty == qty;
            return Applied::unchanged(if is_same { InboxResult::Duplicate } else { InboxResult::Conflict });
        }
        self.inbox.push(InboxRow { id: event.id.clone(), qty, at_ms });
        let seq = self.effects.last().map_or(0, |effect| effect.seq) + 1;
        self.effects.push(EffectRow { seq, id: event.id.clone(), qty, at_ms });
        self.count += 1;
        self.qty += qty;
        Applied::changed(InboxResult::Applied)
    }

    /// Whether inbox, effects and totals agree: each id once in both, and the totals are their sums.
    #[must_use]
    pub fn agrees(&self) -> bool {
        let is_received = |effect: &EffectRow| {
            let (id, qty, at_ms) = (effect.id.clone(), effect.qty, effect.at_ms);
            self.inbox.contains(&InboxRow { id, qty, at_ms })
        };
        let mut ids: Vec<_> = self.effects.iter().map(|effect| &effect.id).collect();
        ids.sort();
        ids.dedup();
        ids.len() == self.effects.len()
            && ids.len() == self.inbox.len()
            && self.effects.iter().all(is_received)
            && self.count == self.effects.len() as i64
            && self.qty == self.effects.iter().map(|effect| effect.qty).sum::<i64>()
    }

    /// Reads the rows of a file; absent tables are empty.
    ///
    /// # Errors
    /// [`Difference`] where the file is corrupt or a column holds no value of its kind.
    pub fn from_image(image: &Image<'_>, schema: &Schema) -> Result<Self, Difference> {
        let mut model = Self::new();
        if let Some(table) = schema.table(INBOX.table) {
            image.for_each_row(table, |row, values| {
                let cells = Cells { shape: &INBOX, row, values };
                model.inbox.push(InboxRow { id: cells.name(0)?, qty: cells.int(1)?, at_ms: cells.int(2)? });
                Ok::<_, Difference>(())
            })?;
        }
        if let Some(table) = schema.table(EFFECTS.table) {
            image.for_each_row(table, |seq, values| {
                let cells = Cells { shape: &EFFECTS, row: seq, values };
                let (id, qty, at_ms) = (cells.name(1)?, cells.int(2)?, cells.int(3)?);
                model.effects.push(EffectRow { seq, id, qty, at_ms });
                Ok::<_, Difference>(())
            })?;
        }
        for (id, [_, count, qty]) in TOTALS.read_ints(image, schema)? {
            if id == 1 {
                (model.count, model.qty) = (count, qty);
            }
        }
        Ok(model)
    }

    /// Compares with the rows of a file. An empty inbox also matches a file without tables or totals.
    ///
    /// # Errors
    /// The first [`Difference`].
    pub fn matches(&self, image: &Image<'_>, schema: &Schema) -> Result<(), Difference> {
        let inbox = self
            .inbox
            .iter()
            .map(|row| [ValueRef::Text(row.id.as_str()), ValueRef::Int(row.qty), ValueRef::Int(row.at_ms)]);
        INBOX.compare_by_name(image, schema, inbox)?;
        let effects = self.effects.iter().map(|row| (row.seq, row.cells()));
        EFFECTS.compare(image, schema, effects)?;
        let cells = [ValueRef::Int(1), ValueRef::Int(self.count), ValueRef::Int(self.qty)];
        let totals = (self.count > 0 || TOTALS.has_rows(image, schema)?).then_some((1, cells));
        TOTALS.compare(image, schema, totals.into_iter())
    }
}

impl EffectRow {
    fn cells(&self) -> [ValueRef<'_>; 4] {
        [
            ValueRef::Int(self.seq),
            ValueRef::Text(self.id.as_str()),
            ValueRef::Int(self.qty),
            ValueRef::Int(self.at_ms),
        ]
    }
}
