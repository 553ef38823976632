//! `ackward-sim`: a deterministic simulator that replays races, crashes and lost ACKs in SQLite-backed
//! systems from a seed.

pub mod campaign;
pub mod check;
pub mod choice;
pub mod computer;
pub mod coverage;
pub mod detection;
pub mod exec;
pub mod explain;
pub mod explore;
pub mod findability;
pub mod import;
pub mod judge;
pub mod model;
pub mod numbers;
pub mod outside;
pub mod scenario;
pub mod scene;
pub mod shrink;
pub mod sqlite_file;
pub mod strategy;
pub mod twin;
pub mod zoo;
