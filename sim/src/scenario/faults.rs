//! How likely each fault is, and how large.

use std::fmt;

use schemars::JsonSchema;
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::field::refused;
use crate::choice::Kind;

/// A probability, 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default)]
pub struct Probability(f64);

impl Probability {
    /// Checks the range; none for NaN too.
    #[must_use]
    pub fn new(value: f64) -> Option<Self> {
        // Adding zero turns −0 into 0.
        (0.0..=1.0).contains(&value).then_some(Self(value + 0.0))
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> f64 {
        self.0
    }
}

const PROBABILITY: &str = "a probability from 0 to 1";

struct ProbabilityVisitor;

impl Visitor<'_> for ProbabilityVisitor {
    type Value = Probability;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(PROBABILITY)
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Probability, E> {
        Probability::new(value).ok_or_else(|| refused(value, PROBABILITY))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Probability, E> {
        Probability::new(value as f64).ok_or_else(|| refused(value, PROBABILITY))
    }
}

impl<'de> Deserialize<'de> for Probability {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_f64(ProbabilityVisitor)
    }
}

impl Serialize for Probability {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_f64(self.0)
    }
}

/// A span of time from which an amount is drawn, both ends included, in ms, `LEAST` to 600,000; written
/// `[10, 3000]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpanMs<const LEAST: i64> {
    min: i64,
    max: i64,
}

impl<const LEAST: i64> SpanMs<LEAST> {
    pub(super) const MOST: i64 = 600_000;

    /// Checks the ends; none where they are out of range or in the wrong order.
    #[must_use]
    pub fn new(min_ms: i64, max_ms: i64) -> Option<Self> {
        let fits = LEAST <= min_ms && min_ms <= max_ms && max_ms <= Self::MOST;
        fits.then_some(Self { min: min_ms, max: max_ms })
    }

    /// The shortest, in ms.
    #[must_use]
    pub const fn min(self) -> i64 {
        self.min
    }

    /// The longest, in ms.
    #[must_use]
    pub const fn max(self) -> i64 {
        self.max
    }

    fn allowed() -> String {
        format!("[least, most] in whole ms, from {LEAST} to {}, least first", Self::MOST)
    }
}

struct SpanVisitor<const LEAST: i64>;

impl<'de, const LEAST: i64> Visitor<'de> for SpanVisitor<LEAST> {
    type Value = SpanMs<LEAST>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&Self::Value::allowed())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<Self::Value, A::Error> {
        let mut ends = Vec::new();
        while let Some(end) = values.next_element::<i64>()? {
            ends.push(end);
        }
        let span = if let [min, max] = ends[..] { SpanMs::new(min, max) } else { None };
        span.ok_or_else(|| refused(format!("{ends:?}"), &Self::Value::allowed()))
    }
}

impl<'de, const LEAST: i64> Deserialize<'de> for SpanMs<LEAST> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_seq(SpanVisitor)
    }
}

impl<const LEAST: i64> Serialize for SpanMs<LEAST> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        [self.min, self.max].serialize(to)
    }
}

/// The probability of each fault at each opportunity, 0 to 1, and its size. All probabilities default to 0.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Faults {
    /// A process is killed, at a call into the disk.
    pub kill: Probability,
    /// A process is killed at a fault hook (Q9).
    pub hook_kill: Probability,
    /// The power of a machine is cut, at a call into the disk.
    pub power_cut: Probability,
    /// A read, write or delete fails.
    pub io_error: Probability,
    /// A sync fails.
    pub fsync_error: Probability,
    /// A write, truncate or create finds the disk full.
    pub disk_full: Probability,
    /// Another process runs first, at a call into the disk.
    pub switch: Probability,
    /// Another ready process runs first, whenever one is picked.
    pub pick: Probability,
    /// A process stands still for `stall_ms`.
    pub stall: Probability,
    /// How long it stands still, in ms, 0 to 600,000. Default `[10, 3000]`.
    pub stall_ms: SpanMs<0>,
    /// A process's clock jumps by `clock_jump_ms`.
    pub clock_jump: Probability,
    /// By how much, in ms, −600,000 to 600,000. Default `[-2000, 2000]`.
    pub clock_jump_ms: SpanMs<-600_000>,
    /// A process that listens to SIGTERM is told to end, at a call into the disk or as it writes to the network.
    pub terminate: Probability,
    /// A request does not arrive: from there on that direction of its connection is silent.
    pub request_lost: Probability,
    /// A reply does not arrive, though the effect took place: that direction of its connection is silent.
    pub reply_lost: Probability,
    /// A message takes `slow_ms` longer.
    pub slow: Probability,
    /// How much longer, in ms, 0 to 600,000. Default `[1, 3000]`.
    pub slow_ms: SpanMs<0>,
    /// The receiver's reply is not what was agreed (W2).
    pub wrong_reply: Probability,
    /// The receiver, or what stands before it, asks to try again later: 503, 408, 409, 429 and the like (W2).
    pub refused: Probability,
    /// The connection is refused.
    pub connect_refused: Probability,
    /// Connecting gets no answer.
    pub connect_lost: Probability,
    /// A connection is reset as something is written to it.
    pub reset: Probability,
    /// What is written arrives in two pieces.
    pub fragment: Probability,
    /// A direction of a connection falls silent for good.
    pub half_open: Probability,
    /// Two machines cannot reach each other for `slow_ms`.
    pub partition: Probability,
    /// A rogue publisher breaks the rules of the stream.
    pub bad_line: Probability,
    /// A fault hook returns an error (Q7, Q8).
    pub hook_error: Probability,
    /// At a power cut, an unsynced sector or directory entry reached the disk after all. Default 0.3.
    pub keep: Probability,
}

impl Faults {
    /// Whether anything is left to chance.
    #[must_use]
    pub fn is_random(&self) -> bool {
        self.probabilities().iter().any(|(_, probability)| *probability > 0.0)
    }

    /// The probabilities by kind.
    #[must_use]
    pub fn probabilities(&self) -> Vec<(Kind, f64)> {
        let all = [
            (Kind::Kill, self.kill),
            (Kind::HookKill, self.hook_kill),
            (Kind::HookError, self.hook_error),
            (Kind::PowerCut, self.power_cut),
            (Kind::Keep, if self.power_cut.get() > 0.0 { self.keep } else { Probability(0.0) }),
            (Kind::IoError, self.io_error),
            (Kind::FsyncError, self.fsync_error),
            (Kind::DiskFull, self.disk_full),
            (Kind::Switch, self.switch),
            (Kind::Pick, self.pick),
            (Kind::Stall, self.stall),
            (Kind::ClockJump, self.clock_jump),
            (Kind::Terminate, self.terminate),
            (Kind::RequestLost, self.request_lost),
            (Kind::ReplyLost, self.reply_lost),
            (Kind::Slow, self.slow),
            (Kind::WrongReply, self.wrong_reply),
            (Kind::Refused, self.refused),
            (Kind::ConnectRefused, self.connect_refused),
            (Kind::ConnectLost, self.connect_lost),
            (Kind::Reset, self.reset),
            (Kind::Fragment, self.fragment),
            (Kind::HalfOpen, self.half_open),
            (Kind::Partition, self.partition),
            (Kind::BadLine, self.bad_line),
        ];
        all.into_iter().map(|(kind, probability)| (kind, probability.get())).collect()
    }
}

impl Default for Faults {
    fn default() -> Self {
        let never = Probability(0.0);
        Self {
            kill: never,
            hook_kill: never,
            power_cut: never,
            io_error: never,
            fsync_error: never,
            disk_full: never,
            switch: never,
            pick: never,
            stall: never,
            stall_ms: SpanMs { min: 10, max: 3000 },
            clock_jump: never,
            clock_jump_ms: SpanMs { min: -2000, max: 2000 },
            terminate: never,
            request_lost: never,
            reply_lost: never,
            slow: never,
            slow_ms: SpanMs { min: 1, max: 3000 },
            wrong_reply: never,
            refused: never,
            connect_refused: never,
            connect_lost: never,
            reset: never,
            fragment: never,
            half_open: never,
            partition: never,
            bad_line: never,
            hook_error: never,
            keep: Probability(0.3),
        }
    }
}
