//! What can happen at a point instead of nothing special.

use std::fmt;

macro_rules! kinds {
    ($($(#[$doc:meta])* $variant:ident = $text:literal),+ $(,)?) => {
        /// A kind of event that a chooser can make happen; also the unit that probabilities are given for.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum Kind {
            $($(#[$doc])* $variant),+
        }

        impl Kind {
            /// Every kind.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];
            /// How many kinds there are.
            pub const COUNT: usize = Self::ALL.len();

            /// The word in scenario files and traces.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }

            /// Reads the word.
            #[must_use]
            pub fn parse(text: &str) -> Option<Self> {
                match text { $($text => Some(Self::$variant),)+ _ => None }
            }
        }
    };
}

kinds! {
    /// Nothing special.
    Go = "go",
    /// Inside a SQLite call: another process runs first.
    Switch = "switch",
    /// Between two steps: another process that is ready runs first.
    Pick = "pick",
    /// The process stands still for a while, as under SIGSTOP.
    Stall = "stall",
    /// The process's clock jumps and stays there.
    ClockJump = "clock-jump",
    /// The call fails with an I/O error and has no effect.
    IoError = "io-error",
    /// fsync fails; what it should have made durable is lost at a power cut unless written again.
    FsyncError = "fsync-error",
    /// The disk is full for this one call.
    DiskFull = "disk-full",
    /// The process is killed before the call.
    Kill = "kill",
    /// The machine loses power before the call: all its processes, and what was not synced.
    PowerCut = "power-cut",
    /// At a power cut: this unsynced part reached the disk after all.
    Keep = "keep",
    /// The process is killed at a fault hook.
    HookKill = "hook-kill",
    /// A fault hook returns an error.
    HookError = "hook-error",
    /// The request never arrives.
    RequestLost = "request-lost",
    /// The reply never arrives.
    ReplyLost = "reply-lost",
    /// A message takes longer.
    Slow = "slow",
    /// The receiver answers something that acknowledges nothing, in the way of this number.
    WrongReply = "wrong-reply",
    /// The receiver refuses for now, with the status of this place among [`REFUSALS`].
    Refused = "refused",
    /// The process is told to end (SIGTERM) where it listens to that, and goes on to its end in good order.
    Terminate = "terminate",
    /// A publisher breaks the rules of the stream, in the way of this number.
    BadLine = "bad-line",
    /// The connection is refused.
    ConnectRefused = "connect-refused",
    /// Connecting gets no answer at all.
    ConnectLost = "connect-lost",
    /// The connection is reset.
    Reset = "reset",
    /// Bytes arrive in pieces.
    Fragment = "fragment",
    /// The peer is gone and nobody says so: bytes of one direction are swallowed from here on.
    HalfOpen = "half-open",
    /// The two machines cannot reach each other for a while.
    Partition = "partition",
}

/// The statuses with which a receiver refuses for now (W2); the quantity of [`Kind::Refused`] is a place here.
pub const REFUSALS: [i64; 10] = [503, 408, 409, 429, 500, 502, 504, 425, 401, 403];

/// Longest span that a deviation may name, in ms; a clock may jump back as far. What happens is within the spans of the
/// scenario, or of the check.
const SPAN_MS_MAX: i64 = 1_000_000_000_000;

impl Kind {
    const fn has_number(self) -> bool {
        matches!(self, Self::Fragment | Self::BadLine | Self::WrongReply)
    }

    const fn has_duration(self) -> bool {
        matches!(self, Self::Stall | Self::ClockJump | Self::Slow | Self::Partition)
    }
}

/// One thing that may happen at a point, with the range of its quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offer {
    /// What.
    pub kind: Kind,
    /// Least quantity: ms for durations, a process's number for a switch, bytes for a fragment, else 0.
    pub low: i64,
    /// Greatest quantity.
    pub high: i64,
}

impl Offer {
    /// An offer without a quantity.
    #[must_use]
    pub const fn plain(kind: Kind) -> Self {
        Self { kind, low: 0, high: 0 }
    }

    /// An offer of one quantity.
    #[must_use]
    pub const fn of(kind: Kind, value: i64) -> Self {
        Self { kind, low: value, high: value }
    }

    /// Whether `decision` is one of what is offered.
    #[must_use]
    pub const fn allows(&self, decision: Decision) -> bool {
        self.kind as u8 == decision.kind as u8 && self.low <= decision.value && decision.value <= self.high
    }
}

/// What a chooser answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Decision {
    /// What happens.
    pub kind: Kind,
    /// Its quantity, see [`Offer`].
    pub value: i64,
}

impl Decision {
    /// Nothing special.
    pub const GO: Self = Self { kind: Kind::Go, value: 0 };

    /// Whether this is the default.
    #[must_use]
    pub const fn is_go(self) -> bool {
        matches!(self.kind, Kind::Go)
    }
}

/// A decision as a scenario file writes it: `kill`, `stall:1200ms`, `switch:worker-b`, `fragment:3`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// A kind without a quantity.
    Plain(Kind),
    /// A kind with a number: ms for durations, bytes for fragments.
    Amount(Kind, i64),
    /// Another process runs first.
    Process(Kind, String),
}

impl Action {
    /// What kind of event it is.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Plain(kind) | Self::Amount(kind, _) | Self::Process(kind, _) => *kind,
        }
    }

    /// Actions that do less harm than this one, the plainest first; empty where there is none.
    #[must_use]
    pub fn plainer(&self) -> Vec<Self> {
        super::words::plainer(self)
    }

    /// Names a decision; `process_name` turns a process's number into its name.
    #[must_use]
    pub fn from_decision(decision: Decision, process_name: impl Fn(usize) -> String) -> Self {
        match decision.kind {
            Kind::Switch | Kind::Pick => Self::Process(
                decision.kind,
                process_name(usize::try_from(decision.value).unwrap_or(usize::MAX)),
            ),
            kind if kind.has_duration() || kind.has_number() => Self::Amount(kind, decision.value),
            Kind::Refused => {
                let place = usize::try_from(decision.value).unwrap_or_default();
                Self::Amount(Kind::Refused, REFUSALS.get(place).copied().unwrap_or(REFUSALS[0]))
            }
            kind => Self::Plain(kind),
        }
    }

    /// Turns the text into a decision; `process_number` finds a process by name. `None` where it is unknown.
    #[must_use]
    pub fn decision(&self, process_number: impl Fn(&str) -> Option<usize>) -> Option<Decision> {
        Some(match self {
            Self::Plain(kind) => Decision { kind: *kind, value: 0 },
            Self::Amount(Kind::Refused, status) => {
                let place = REFUSALS.iter().position(|refusal| refusal == status)?;
                Decision { kind: Kind::Refused, value: i64::try_from(place).ok()? }
            }
            Self::Amount(kind, value) => Decision { kind: *kind, value: *value },
            Self::Process(kind, name) => {
                Decision { kind: *kind, value: i64::try_from(process_number(name)?).ok()? }
            }
        })
    }

    /// Reads the text of a scenario file; the error says what is allowed.
    ///
    /// # Errors
    /// A sentence for the user.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (word, quantity) = text.split_once(':').map_or((text, None), |(word, rest)| (word, Some(rest)));
        let kind = Kind::parse(word).filter(|kind| *kind != Kind::Go).ok_or_else(|| {
            let words: Vec<_> = Kind::ALL.iter().skip(1).map(|kind| kind.as_str()).collect();
            format!("one of {}", words.join(", "))
        })?;
        let want = |what: &str| format!("{word} with {what}");
        match kind {
            Kind::Switch | Kind::Pick => {
                let name = quantity.filter(|name| !name.is_empty());
                let name = name.ok_or_else(|| want("a process, as in \"switch:worker-b\""))?;
                Ok(Self::Process(kind, name.to_owned()))
            }
            kind if kind.has_duration() => {
                let low = if kind == Kind::ClockJump { -SPAN_MS_MAX } else { 0 };
                let number = quantity.and_then(|text| text.strip_suffix("ms")).and_then(|n| n.parse().ok());
                number.filter(|n| (low..=SPAN_MS_MAX).contains(n)).map(|n| Self::Amount(kind, n)).ok_or_else(
                    || {
                        want(&format!(
                            "whole milliseconds from {low} to {SPAN_MS_MAX}, as in \"{word}:1200ms\""
                        ))
                    },
                )
            }
            kind if kind.has_number() => {
                let number = quantity.and_then(|n| n.parse().ok()).filter(|n| *n >= 0);
                number
                    .map(|n| Self::Amount(kind, n))
                    .ok_or_else(|| want(&format!("a whole number from 0 on, as in \"{word}:3\"")))
            }
            Kind::Refused => {
                let status = quantity.and_then(|n| n.parse().ok()).filter(|n| REFUSALS.contains(n));
                status.map(|n| Self::Amount(kind, n)).ok_or_else(|| {
                    let allowed = REFUSALS.map(|status| status.to_string()).join(", ");
                    want(&format!("one of {allowed}, as in \"refused:503\""))
                })
            }
            _ if quantity.is_some() => Err(format!("{word} without a quantity")),
            kind => Ok(Self::Plain(kind)),
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain(kind) => f.write_str(kind.as_str()),
            Self::Amount(kind, value) if kind.has_duration() => write!(f, "{}:{value}ms", kind.as_str()),
            Self::Amount(kind, value) => write!(f, "{}:{value}", kind.as_str()),
            Self::Process(kind, name) => write!(f, "{}:{name}", kind.as_str()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_action_reads_back_as_it_is_written() {
        for kind in Kind::ALL.iter().skip(1) {
            let value = i64::from(kind.has_duration() || kind.has_number() || *kind == Kind::Refused) * 7;
            let action = Action::from_decision(Decision { kind: *kind, value }, |_| "worker-b".into());
            assert_eq!(Action::parse(&action.to_string()), Ok(action));
        }
    }

    #[test]
    fn a_wrong_action_says_what_is_allowed() {
        assert!(Action::parse("kil").unwrap_err().contains("one of switch, pick"));
        assert!(Action::parse("go").is_err());
        assert!(Action::parse("stall:12").unwrap_err().contains("stall:1200ms"));
        assert!(Action::parse("refused:404").unwrap_err().contains("503, 408"));
        assert!(Action::parse("kill:3").unwrap_err().contains("without a quantity"));
        assert!(Action::parse("switch").unwrap_err().contains("a process"));
    }
}
