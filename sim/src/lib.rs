//! `ackward-sim`: a deterministic simulator that replays races, crashes and lost ACKs in SQLite-backed
//! systems from a seed.

pub mod choice;
pub mod computer;
