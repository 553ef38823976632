//! What happened in a run: always as a rolling hash, on request as a list of readable events.

use std::fmt;

/// One line of a run's story.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Virtual time since the run began, in microseconds.
    pub at_us: i64,
    /// The process's name, or empty for the world.
    pub process: String,
    /// What happened.
    pub text: String,
}

/// How much of a run is listed as events. The hash is the same at every level.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Recording {
    /// Nothing: the hash alone.
    #[default]
    Off,
    /// The story: what processes do, what strikes them, what changes in the files.
    Story,
    /// The story and every call into the operating system, by its point's name.
    Calls,
}

impl From<bool> for Recording {
    fn from(tells_the_story: bool) -> Self {
        if tells_the_story { Self::Story } else { Self::Off }
    }
}

/// The record of a run.
#[derive(Debug)]
pub struct Trace {
    hash: u64,
    folded: u64,
    events: Option<Vec<Event>>,
    lists_calls: bool,
}

/// An odd constant (the golden ratio's fraction, as in splitmix64).
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

impl Trace {
    pub(super) fn new(recording: Recording) -> Self {
        let events = (recording > Recording::Off).then(Vec::new);
        Self { hash: GOLDEN, folded: 0, events, lists_calls: recording == Recording::Calls }
    }

    /// Adds a number to the hash.
    pub fn fold(&mut self, value: u64) {
        // A 64x64 to 128 bit multiplication, folded (the mixing step of wyhash, Wang Yi).
        let product = u128::from(self.hash ^ value) * u128::from(GOLDEN ^ self.folded);
        self.hash = (product as u64) ^ ((product >> 64) as u64);
        self.folded = self.folded.wrapping_add(2);
    }

    /// Adds bytes to the hash.
    pub fn fold_bytes(&mut self, bytes: &[u8]) {
        self.fold(bytes.len() as u64);
        // Eight lanes, so that the multiplications of a page overlap.
        let mut lanes: [u64; 8] = std::array::from_fn(|lane| self.hash.rotate_left(8 * lane as u32));
        let (blocks, rest) = bytes.as_chunks::<64>();
        for block in blocks {
            let (words, _) = block.as_chunks::<8>();
            for (lane, word) in lanes.iter_mut().zip(words) {
                *lane = (*lane ^ u64::from_le_bytes(*word)).wrapping_mul(GOLDEN).rotate_left(29);
            }
        }
        for lane in lanes {
            self.fold(lane);
        }
        for byte in rest {
            self.fold(u64::from(*byte));
        }
    }

    /// Whether events are being listed; texts need not be made otherwise.
    #[must_use]
    pub fn is_recording(&self) -> bool {
        self.events.is_some()
    }

    /// Whether calls into the operating system are listed too.
    pub(super) fn lists_calls(&self) -> bool {
        self.lists_calls
    }

    /// Lists an event, where events are listed.
    pub fn note(&mut self, at_us: i64, process: &str, text: impl FnOnce() -> String) {
        if let Some(events) = &mut self.events {
            events.push(Event { at_us, process: process.to_owned(), text: text() });
        }
    }

    /// The hash of everything so far.
    #[must_use]
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// What was listed.
    #[must_use]
    pub fn events(&self) -> &[Event] {
        self.events.as_deref().unwrap_or_default()
    }

    /// Hands the list over and lists nothing more.
    pub(super) fn take_events(&mut self) -> Vec<Event> {
        self.events.take().unwrap_or_default()
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at_us, process, text } = self;
        write!(f, "{:>10}.{:03} ms  {process:<12}  {text}", at_us.div_euclid(1_000), at_us.rem_euclid(1_000))
    }
}
