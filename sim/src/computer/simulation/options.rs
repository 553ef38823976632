//! The settings of a run.

use super::super::trace::Recording;
use super::super::turmoil_arm::TurmoilOptions;
use crate::choice::stable_hash;

/// The true time at the beginning of a run where nothing else is set, in ms since the Unix epoch.
pub const EPOCH_MS: i64 = 1_000_000;

/// Settings of a run.
#[derive(Debug, Clone)]
pub struct SimulationOptions {
    /// Seeds SQLite's own random numbers.
    pub sqlite_seed: u32,
    /// The true time at the beginning, in ms since the Unix epoch.
    pub epoch_ms: i64,
    /// From this virtual time on nothing special happens any more, in microseconds.
    pub faults_until_us: i64,
    /// The run ends here at the latest, in microseconds of virtual time.
    pub limit_us: i64,
    /// The run ends after this many steps at the latest.
    pub steps_max: u64,
    /// How long a stall can take, in ms.
    pub stall_ms: (i64, i64),
    /// How much later a message can be, and how long a partition can last, in ms.
    pub slow_ms: (i64, i64),
    /// How far a clock can jump, in ms.
    pub clock_jump_ms: (i64, i64),
    /// How much of the run is listed as events.
    pub recording: Recording,
    /// Puts the processes on turmoil's hosts; `None` is the built-in executor and network.
    pub turmoil: Option<TurmoilOptions>,
}

impl Default for SimulationOptions {
    fn default() -> Self {
        Self {
            sqlite_seed: 1,
            epoch_ms: EPOCH_MS,
            faults_until_us: i64::MAX,
            limit_us: i64::MAX,
            steps_max: 10_000_000,
            stall_ms: (1, 3_000),
            slow_ms: (1, 3_000),
            clock_jump_ms: (-2_000, 2_000),
            recording: Recording::Off,
            turmoil: None,
        }
    }
}

impl SimulationOptions {
    /// What seeds SQLite's own random numbers in the run of a seed.
    #[must_use]
    pub const fn sqlite_seed_of(seed: u64) -> u32 {
        (stable_hash(&seed.to_le_bytes()) >> 32) as u32
    }
}
