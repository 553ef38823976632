//! Group commit: the events that arrive while a transaction is being committed share the next one.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::convert::Infallible;

use tokio::sync::{Notify, oneshot};

use super::observer::{CommitFailed, RequestObserver};
use super::refusal::Refusal;
use crate::port::{Fault, Lane};
use crate::shell::trouble::{Line, Trouble};
use crate::storage::{AcceptError, Accepted, Answer, Arrival, EventInbox, MayBeBusy};

/// The events that wait for their transaction, in the order of their arrival.
#[derive(Default)]
pub(super) struct Group {
    waiting: RefCell<VecDeque<Waiting>>,
    arrived: Notify,
    trouble: Trouble,
}

struct Waiting {
    arrival: Arrival,
    reply: oneshot::Sender<Result<Accepted, Refusal>>,
}

impl Group {
    /// Waits until the event is committed or refused. Dropping the future takes nothing back.
    pub(super) async fn take(&self, arrival: Arrival) -> Result<Accepted, Refusal> {
        let (reply, answer) = oneshot::channel();
        self.waiting.borrow_mut().push_back(Waiting { arrival, reply });
        self.arrived.notify_one();
        answer.await.unwrap_or_else(|_| Err(Refusal::Unavailable("the receiver is closing".into())))
    }

    /// Commits one group after the other, for ever.
    pub(super) async fn commit<I, L, F>(
        &self,
        inbox: &L,
        group_max: usize,
        fault: F,
        observer: &dyn RequestObserver,
    ) -> Infallible
    where
        I: EventInbox + 'static,
        L: Lane<I>,
        F: Fault + Clone + Send + 'static,
    {
        loop {
            let (arrivals, replies) = self.next(group_max);
            let Some(arrival) = arrivals.last() else {
                self.arrived.notified().await;
                continue;
            };
            let at_ms = arrival.at.get();
            let mut fault = fault.clone();
            let job = move |inbox: &mut I| inbox.accept_many(&arrivals, &mut fault);
            let answers = inbox.call("accept", job).await;
            self.tell(commit(&answers), at_ms, observer);
            give(answers, replies);
        }
    }

    /// Tells how a commit went, if there was one. Failures that last are logged now and then.
    fn tell(&self, commit: Option<Result<(), &AcceptError>>, at_ms: i64, observer: &dyn RequestObserver) {
        match commit {
            None => {}
            Some(Ok(())) => {
                if let Some(failures) = self.trouble.worked() {
                    tracing::info!(failures, "events are accepted again");
                }
                observer.committed(Ok(()));
            }
            Some(Err(error)) => {
                if let Some(Line { left_out }) = self.trouble.failed(at_ms) {
                    tracing::error!(%error, left_out, "nothing was accepted");
                }
                observer.committed(Err(CommitFailed { error, is_busy: error.is_busy() }));
            }
        }
    }

    fn next(&self, group_max: usize) -> (Vec<Arrival>, Vec<oneshot::Sender<Result<Accepted, Refusal>>>) {
        let mut waiting = self.waiting.borrow_mut();
        let count = waiting.len().min(group_max);
        waiting.drain(..count).map(|waiting| (waiting.arrival, waiting.reply)).unzip()
    }
}

/// How a group's commit went; `None` where there was nothing to commit.
fn commit(answers: &Result<Vec<Answer>, AcceptError>) -> Option<Result<(), &AcceptError>> {
    let answers = match answers {
        Ok(answers) => answers,
        Err(error) => return Some(Err(error)),
    };
    if answers.iter().any(Result::is_ok) {
        return Some(Ok(()));
    }
    let failed = answers.iter().filter_map(|answer| answer.as_ref().err());
    failed.into_iter().find(|error| !matches!(error, AcceptError::Conflict { .. })).map(Err)
}

/// Gives each request its answer; one that is gone needs none.
fn give(answers: Result<Vec<Answer>, AcceptError>, replies: Vec<oneshot::Sender<Result<Accepted, Refusal>>>) {
    match answers {
        Ok(answers) => {
            for (answer, reply) in answers.into_iter().zip(replies) {
                let _ = reply.send(answer.map_err(Refusal::from));
            }
        }
        Err(error) => {
            let error = error.to_string();
            for reply in replies {
                let _ = reply.send(Err(Refusal::Unavailable(error.clone())));
            }
        }
    }
}
