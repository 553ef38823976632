//! Checks for one's own code: any program over rusqlite connections and the ports of `ackward`, run on the
//! simulated computer from a `#[test]`.
//!
//! A [`Check`] builds the same small world for every seed, lets faults strike in it, and holds properties against
//! every commit and against the end. What fails is shrunk to the deviations that matter, and the panic says how to
//! replay it under `cargo test` and nextest: with the environment variable [`REPLAY`].
//!
//! ```
//! use ackward::port::{Blocking, Lane};
//! use ackward_sim::check::{Check, connect};
//! use ackward_sim::choice::Kind;
//!
//! Check::new("counter").fault(Kind::Kill, 0.01).seeds(50).run(|lab| {
//!     let host = lab.machine("host");
//!     lab.process(host, "writer", |computer| async move {
//!         let Ok(lane) = computer.open("open", || connect("counter.db")).await else { return };
//!         let sql = "CREATE TABLE IF NOT EXISTS counter (n INTEGER); INSERT INTO counter VALUES (1)";
//!         let counted = lane.call("count", move |counter| counter.execute_batch(sql)).await;
//!         counted.expect("no fault but a kill strikes here");
//!     });
//!     lab.always(host, "counter.db", "only-ones", |tables| {
//!         let odd = tables.rows("counter").into_iter().find(|row| row.integer(0) != Some(1));
//!         odd.map_or(Ok(()), |row| Err(format!("there is {row}")))
//!     });
//!     lab.finally(host, "counter.db", "counted", |counter| {
//!         let sql = "SELECT count(*) FROM counter";
//!         let count: i64 = counter.query_row(sql, [], |row| row.get(0)).map_err(|error| error.to_string())?;
//!         if count > 0 { Ok(()) } else { Err("nothing was counted".to_owned()) }
//!     });
//! });
//! ```
//!
//! Simulations run one at a time in a process, since SQLite's random numbers are one generator per process: tests
//! that check wait for each other.

mod failure;
mod lab;
mod once;
mod tables;

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use rusqlite::{Connection, OpenFlags};

use crate::choice::{Decision, Kind, Nothing, Probabilities, Random, Recorder, Replay};
use crate::computer::{Recording, SimulationOptions, VFS_NAME};
use crate::explore::values;
use once::Settings;

pub use failure::Failure;
pub use lab::Lab;
pub use tables::{Row, Tables};

/// The environment variable that replays one run of a check instead of all its seeds. Its value is
/// `NAME seed N`, or `NAME: POINT = ACTION; POINT = ACTION`, as a failure prints it.
pub const REPLAY: &str = "ACKWARD_REPLAY";

/// The seeds run after a failure to tell how often it strikes.
const SEEDS_FOR_RATE: u64 = 200;

static ALONE: Mutex<()> = Mutex::new(());

/// Opens a database file on the simulated computer, to be called on a lane. It waits for no lock: set a busy
/// timeout where your program has one.
///
/// # Errors
/// As [`Connection::open_with_flags_and_vfs`].
pub fn connect(path: impl AsRef<Path>) -> rusqlite::Result<Connection> {
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags_and_vfs(path, flags, VFS_NAME)
}

/// A check of one's own code.
#[derive(Debug, Clone)]
pub struct Check {
    settings: Settings,
    probabilities: Probabilities,
    first: u64,
    seeds: u64,
}

impl Check {
    /// A check without faults, over 200 seeds from 1 on, of 60 seconds of virtual time each. `name` is how a
    /// replay command names it.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let settings =
            Settings { name: name.to_owned(), duration_ms: 60_000, options: SimulationOptions::default() };
        Self { settings, probabilities: Probabilities::default(), first: 1, seeds: 200 }
    }

    /// How probable a kind of event is at each opportunity, 0 to 1.
    #[must_use]
    pub fn fault(mut self, kind: Kind, probability: f64) -> Self {
        self.probabilities = self.probabilities.with(kind, probability);
        self
    }

    /// How many seeds are run, at least 1.
    #[must_use]
    pub fn seeds(mut self, seeds: u64) -> Self {
        self.seeds = seeds.max(1);
        self
    }

    /// The first seed.
    #[must_use]
    pub const fn start(mut self, first: u64) -> Self {
        self.first = first;
        self
    }

    /// For how long faults strike at most, in ms of virtual time. After that the world has two more minutes to
    /// settle.
    #[must_use]
    pub const fn duration_ms(mut self, duration_ms: i64) -> Self {
        self.settings.duration_ms = duration_ms;
        self
    }

    /// The least and the greatest length of a stall, in ms.
    #[must_use]
    pub const fn stall_ms(mut self, least: i64, greatest: i64) -> Self {
        self.settings.options.stall_ms = (least, greatest);
        self
    }

    /// The least and the greatest delay of a message, in ms.
    #[must_use]
    pub const fn slow_ms(mut self, least: i64, greatest: i64) -> Self {
        self.settings.options.slow_ms = (least, greatest);
        self
    }

    /// Runs every seed in the world that `build` makes, or the one run that [`REPLAY`] names.
    ///
    /// # Panics
    /// Where a property does not hold; the message is the [`Failure`]. And where [`REPLAY`] cannot be read.
    pub fn run(&self, build: impl Fn(&mut Lab)) {
        if let Some(wanted) = failure::wanted(&self.settings.name) {
            return self.replay(&wanted, &build);
        }
        if let Some(failure) = self.find(build) {
            panic!("{failure}");
        }
    }

    /// As [`Check::run`], but returns the first failure, shrunk: for a test of a planted bug.
    #[must_use]
    pub fn find(&self, build: impl Fn(&mut Lab)) -> Option<Failure> {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let seeds = self.first..self.first.saturating_add(self.seeds);
        let (seed, ran) = seeds
            .into_iter()
            .map(|seed| (seed, self.seed(seed, Recording::Off, &build)))
            .find(|(_, ran)| ran.broke())?;
        let until = seed.saturating_add(SEEDS_FOR_RATE);
        let hits = 1
            + (seed + 1..until).filter(|seed| self.seed(*seed, Recording::Off, &build).broke()).count()
                as u64;
        let shrunk = failure::shrink(&self.settings, &ran, &build);
        Some(Failure::new(&self.settings, Some((seed, hits, until - seed)), ran, shrunk))
    }

    /// Runs everything with at most `depth` deviations of the kinds that have a probability above 0, whatever it
    /// is, and returns how many runs that took.
    ///
    /// # Errors
    /// The first failure; it has the fewest deviations that one can have.
    ///
    /// # Panics
    /// Never, unless the code under test does outside of its processes.
    pub fn explore(&self, depth: u32, build: impl Fn(&mut Lab)) -> Result<u64, Box<Failure>> {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let mut level: Vec<Vec<(u64, Decision)>> = vec![Vec::new()];
        let mut runs = 0;
        for at in 0..=depth {
            let mut next = Vec::new();
            for path in level {
                let recorder =
                    std::rc::Rc::new(std::cell::RefCell::new(Recorder::new(Replay::new(path.clone()))));
                let ran = once::run(
                    &self.settings,
                    once::SEED,
                    Recording::Off,
                    std::rc::Rc::clone(&recorder),
                    &build,
                );
                runs += 1;
                if ran.broke() {
                    let shrunk = failure::shrink(&self.settings, &ran, &build);
                    return Err(Box::new(Failure::new(&self.settings, None, ran, shrunk)));
                }
                if at < depth {
                    next.extend(self.children(&path, recorder.borrow().met()));
                }
            }
            level = next;
        }
        Ok(runs)
    }

    /// The paths with one more deviation, behind the last of `path`.
    fn children(
        &self,
        path: &[(u64, Decision)],
        met: &[(crate::choice::Point, Vec<crate::choice::Offer>)],
    ) -> Vec<Vec<(u64, Decision)>> {
        let last = path.last().map(|(key, _)| *key);
        let behind = last
            .map_or(0, |last| met.iter().position(|(point, _)| point.key() == last).map_or(0, |at| at + 1));
        let alternatives = met[behind..].iter().flat_map(|(point, offers)| {
            let tried = offers.iter().filter(|offer| self.probabilities.is_enabled(offer.kind));
            tried.flat_map(values).map(|decision| (point.key(), decision))
        });
        alternatives.map(|step| path.iter().copied().chain([step]).collect()).collect()
    }

    fn seed(&self, seed: u64, recording: Recording, build: &impl Fn(&mut Lab)) -> once::Ran {
        let is_random = Kind::ALL.iter().any(|kind| self.probabilities.is_enabled(*kind));
        if is_random {
            let random = Random::new(seed, self.probabilities.clone());
            return once::run(&self.settings, seed, recording, random, build);
        }
        once::run(&self.settings, seed, recording, Nothing, build)
    }

    fn replay(&self, wanted: &failure::Wanted, build: &impl Fn(&mut Lab)) {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let ran = match wanted {
            failure::Wanted::Seed(seed) => self.seed(*seed, Recording::Story, build),
            failure::Wanted::Deviations(deviations) => {
                once::replay(&self.settings, deviations, Recording::Story, build)
            }
        };
        if ran.broke() {
            panic!("{}", Failure::new(&self.settings, None, ran, None));
        }
        eprintln!("{}", failure::story(&ran.events));
    }
}
