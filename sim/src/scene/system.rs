//! The seam for what is tested: the real queue, or a deliberately broken one.

use std::path::Path;
use std::rc::Rc;

use ackward::shell::Sender;
use ackward::storage::{EventInbox, EventStore, Inbox, LeaseQueue, OpenOptions, Queue, StorageError, Store};

use super::{Post, Stage};
use crate::computer::Context;
use crate::scenario::Consumer;

/// A system under test.
pub trait System: 'static {
    /// Its lease queue.
    type Queue: LeaseQueue + 'static;
    /// Its receiver's inbox.
    type Inbox: EventInbox + 'static;
    /// Its consumer's store.
    type Store: EventStore + 'static;

    /// Opens the queue file.
    ///
    /// # Errors
    /// As [`Queue::open`].
    fn open_queue(path: &Path, options: &OpenOptions) -> Result<Self::Queue, StorageError>;

    /// Opens the inbox file.
    ///
    /// # Errors
    /// As [`Inbox::open`].
    fn open_inbox(path: &Path, options: &OpenOptions) -> Result<Self::Inbox, StorageError>;

    /// Opens a store.
    ///
    /// # Errors
    /// As [`Store::open`].
    fn open_store(path: &Path, options: &OpenOptions) -> Result<Self::Store, StorageError>;

    /// How its workers send; the default is what the production binary does.
    fn sender(context: &Context, stage: &Stage) -> impl Sender
    where
        Self: Sized,
    {
        super::sender::http(context, stage)
    }

    /// A worker's program; the default is what runs in production: the worker loop, or a courier.
    fn work(context: Context, post: Rc<Post>, stage: Rc<Stage>) -> impl Future<Output = ()>
    where
        Self: Sized,
    {
        super::worker::work::<Self>(context, post, stage)
    }

    /// A consumer's program; the default follows the publisher as the production binary does.
    fn consume(context: Context, consumer: Rc<Consumer>, stage: Rc<Stage>) -> impl Future<Output = ()>
    where
        Self: Sized,
    {
        super::stream::consume::<Self>(context, consumer, stage)
    }
}

/// What runs in production.
#[derive(Debug, Clone, Copy)]
pub struct Real;

impl System for Real {
    type Queue = Queue;
    type Inbox = Inbox;
    type Store = Store;

    fn open_queue(path: &Path, options: &OpenOptions) -> Result<Queue, StorageError> {
        Queue::open(path, options)
    }

    fn open_inbox(path: &Path, options: &OpenOptions) -> Result<Inbox, StorageError> {
        Inbox::open(path, options)
    }

    fn open_store(path: &Path, options: &OpenOptions) -> Result<Store, StorageError> {
        Store::open(path, options)
    }
}
