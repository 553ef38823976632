//! A deterministic simulator.
