//! A deterministic simulator.

pub mod model;
pub mod scenario;
pub mod sqlite_file;
