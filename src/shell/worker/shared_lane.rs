//! A lane that several slots use.

use std::rc::Rc;

use crate::port::Lane;

/// A handle of a lane. The lane is closed with the last of its handles.
pub(super) struct SharedLane<L>(Rc<L>);

impl<L> SharedLane<L> {
    pub(super) fn new(lane: L) -> Self {
        Self(Rc::new(lane))
    }
}

impl<L> Clone for SharedLane<L> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

impl<R: 'static, L: Lane<R>> Lane<R> for SharedLane<L> {
    async fn call<T, F>(&self, label: &'static str, job: F) -> T
    where
        T: Send + 'static,
        F: FnOnce(&mut R) -> T + Send + 'static,
    {
        self.0.call(label, job).await
    }

    async fn close(self) {
        if let Ok(lane) = Rc::try_unwrap(self.0) {
            lane.close().await;
        }
    }
}
