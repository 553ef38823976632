//! A deterministic simulator.

pub mod sqlite_file;
