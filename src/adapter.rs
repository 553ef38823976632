//! The ports' real implementations: system clock, threads, sockets.
