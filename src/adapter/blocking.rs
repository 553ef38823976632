//! Blocking work on a thread per resource.

#![expect(clippy::disallowed_methods, reason = "the real implementation of the Blocking port")]

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc;
use std::thread;

use tokio::sync::oneshot;

use crate::port::{Blocking, Lane};

/// Opens each resource on a thread of its own, which alone ever touches it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Threads;

/// The handle of a resource that lives on its thread. When it is gone, the thread ends after the job that
/// runs, and closes the resource.
pub struct ThreadLane<R> {
    jobs: mpsc::Sender<Job<R>>,
    /// Its other end drops when the thread has closed the resource.
    closed: oneshot::Receiver<()>,
}

type Job<R> = Box<dyn FnOnce(&mut R) + Send>;
type Panic = Box<dyn Any + Send>;

impl Blocking for Threads {
    type Lane<R: 'static> = ThreadLane<R>;

    async fn open<R, E, F>(&self, label: &'static str, open: F) -> Result<ThreadLane<R>, E>
    where
        R: 'static,
        E: Send + 'static,
        F: FnOnce() -> Result<R, E> + Send + 'static,
    {
        let (jobs, queue) = mpsc::channel::<Job<R>>();
        let (opened, on_opened) = oneshot::channel();
        let (closing, closed) = oneshot::channel::<()>();
        let body = move || {
            let _closing = closing;
            serve(open, opened, &queue);
        };
        // A system that has no thread left for a handful of lanes is out of order.
        thread::Builder::new().name(label.into()).spawn(body).expect("the system starts a thread");
        outcome(on_opened).await?;
        Ok(ThreadLane { jobs, closed })
    }
}

impl<R: 'static> Lane<R> for ThreadLane<R> {
    async fn call<T, F>(&self, _label: &'static str, job: F) -> T
    where
        T: Send + 'static,
        F: FnOnce(&mut R) -> T + Send + 'static,
    {
        let (done, on_done) = oneshot::channel();
        let job: Job<R> = Box::new(move |resource| {
            // Nobody listening means that the future was dropped: the job is done all the same.
            let _ = done.send(catch_unwind(AssertUnwindSafe(|| job(resource))));
        });
        // Where the thread is gone the job is dropped, and `outcome` panics.
        let _ = self.jobs.send(job);
        outcome(on_done).await
    }

    async fn close(self) {
        let Self { jobs, closed } = self;
        drop(jobs);
        let _ = closed.await;
    }
}

/// The thread's life: open, work until no handle is left, close.
fn serve<R, E, F>(
    open: F,
    opened: oneshot::Sender<Result<Result<(), E>, Panic>>,
    jobs: &mpsc::Receiver<Job<R>>,
) where
    F: FnOnce() -> Result<R, E>,
{
    let mut resource = match catch_unwind(AssertUnwindSafe(open)) {
        Ok(Ok(resource)) => resource,
        Ok(Err(error)) => {
            let _ = opened.send(Ok(Err(error)));
            return;
        }
        Err(panic) => {
            let _ = opened.send(Err(panic));
            return;
        }
    };
    let _ = opened.send(Ok(Ok(())));
    while let Ok(job) = jobs.recv() {
        job(&mut resource);
    }
}

/// What the thread sent; a panic there goes on here.
async fn outcome<T>(receiver: oneshot::Receiver<Result<T, Panic>>) -> T {
    match receiver.await {
        Ok(Ok(value)) => value,
        Ok(Err(panic)) => resume_unwind(panic),
        Err(_) => panic!("a lane's thread ended before its handle"),
    }
}
