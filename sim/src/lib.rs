//! A deterministic simulator.

pub mod model;
pub mod sqlite_file;
