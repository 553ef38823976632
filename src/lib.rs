//! `ackward`: a lease queue and a resumable TCP consumer on SQLite, both of which survive a crash in the
//! gap between an effect and its acknowledgement.
//!
//! Four storeys; an import never points up:
//!
//! 1. [`rules`]: plain values, no I/O, no clock;
//! 2. [`storage`]: synchronous functions over one SQLite connection, one short transaction each;
//! 3. [`shell`]: async, generic over the ports of [`port`];
//! 4. [`adapter`]: the real clock, threads and sockets, which the binary composes.

pub mod adapter;
pub mod port;
pub mod rules;
pub mod shell;
pub mod storage;
