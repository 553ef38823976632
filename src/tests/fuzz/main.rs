//! Fuzz targets for everything that reads what comes from outside. Under `cargo test` each replays its corpus (below
//! `__fuzz__`) and some thousand inputs drawn from a fixed seed. `BOLERO_RANDOM_ITERATIONS=1000000 cargo test --test
//! fuzz` draws more, anew each time, and `cargo bolero test` looks for them by coverage.

mod http;
mod input;
mod rules;
