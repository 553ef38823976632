//! A deterministic simulator.

pub mod exec;
