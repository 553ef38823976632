//! The production binary.

fn main() {}
