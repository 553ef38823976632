//! `cargo sim`.

fn main() {}
