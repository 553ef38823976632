//! The seam for what is tested: the real queue, or a deliberately broken one.

use std::path::Path;

use ackward::storage::{LeaseQueue, OpenOptions, Queue, StorageError};

/// A system under test.
pub trait System: 'static {
    /// Its lease queue.
    type Queue: LeaseQueue + 'static;

    /// Opens the queue file.
    ///
    /// # Errors
    /// As [`Queue::open`].
    fn open_queue(path: &Path, options: &OpenOptions) -> Result<Self::Queue, StorageError>;
}

/// What runs in production.
#[derive(Debug, Clone, Copy)]
pub struct Real;

impl System for Real {
    type Queue = Queue;

    fn open_queue(path: &Path, options: &OpenOptions) -> Result<Queue, StorageError> {
        Queue::open(path, options)
    }
}
