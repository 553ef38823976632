//! Coverage-guided fuzzing: what runs do, seen from afar ([`Behaviours`]), the trials that reached something new (the
//! [`corpus`]), and the [`Fuzzer`] that changes them a little and tries again. A [`Trial`] is a list of deviations and the
//! values of what the scenario lets vary.
//!
//! One thread, one run after the other; seed and corpus decide the whole sequence of runs. When to stop is the
//! caller's matter.

mod behaviour;
pub mod corpus;
mod fuzzer;
mod minimise;
mod mutate;
mod trial;

pub use behaviour::Behaviours;
pub use fuzzer::{Failed, Fuzzer, SCENE_SEED, Step};
pub use minimise::smallest;
pub use trial::Trial;
