//! Twins of the HTTP sender.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::pin::pin;

use ackward::rules::{Event, Name};
use ackward::shell::{HttpError, HttpSender, SendError, Sender};

use crate::computer::Context;
use crate::scenario::Flaw;
use crate::scene::{Stage, http_sender, patient_http_sender};

/// Connections that a sender's pool holds, with the mistake that has one.
const SLOTS: usize = 2;

/// A sender that makes a mistake, or none.
pub struct SenderTwin {
    real: HttpSender<Context, Context>,
    flaw: Flaw,
    slots: Cell<usize>,
    sent: RefCell<BTreeSet<Name>>,
}

impl SenderTwin {
    /// The real sender, with one mistake from now on.
    #[must_use]
    pub fn new(context: &Context, stage: &Stage, flaw: Flaw) -> Self {
        let real = match flaw {
            Flaw::SendsWithoutALimit => patient_http_sender(context),
            _ => http_sender(context, stage),
        };
        Self { real, flaw, slots: Cell::new(SLOTS), sent: RefCell::default() }
    }

    /// As what an event is sent.
    fn labelled(&self, event: Event) -> Event {
        let is_repeat = !self.sent.borrow_mut().insert(event.id.clone());
        if self.flaw != Flaw::FreshKeyPerAttempt || !is_repeat {
            return event;
        }
        let fresh = Name::new("id", &format!("{}-again", event.id));
        Event { id: fresh.unwrap_or_else(|_| event.id.clone()), ..event }
    }
}

impl Sender for SenderTwin {
    async fn send(&mut self, event: Event) -> Result<(), SendError> {
        if self.slots.get() == 0 {
            return Err(SendError::retryable(PoolTimeout));
        }
        let event = self.labelled(event);
        let sent = pin!(self.real.send(event.clone())).await;
        match (self.flaw, sent) {
            (Flaw::ResendsByItself, Err(error)) if !is_status(&error) => self.real.send(event).await,
            (Flaw::TimeoutIsPermanent, Err(SendError::Retryable { cause, .. }))
                if matches!(cause.downcast_ref(), Some(HttpError::Timeout)) =>
            {
                Err(SendError::Permanent { cause })
            }
            (Flaw::RequestTimeoutIsPermanent, Err(SendError::Retryable { cause, .. })) if matches!(cause.downcast_ref(), Some(HttpError::Status(status)) if status.as_u16() == 408) => {
                Err(SendError::Permanent { cause })
            }
            (Flaw::SlotLeakedOnTimeout, Err(SendError::Retryable { cause, retry_after }))
                if matches!(cause.downcast_ref(), Some(HttpError::Timeout)) =>
            {
                self.slots.set(self.slots.get() - 1);
                Err(SendError::Retryable { cause, retry_after })
            }
            (Flaw::AnyTwoHundredIsOk, Err(SendError::BadAck { cause }))
                if matches!(cause.downcast_ref(), Some(HttpError::Body(_))) =>
            {
                Ok(())
            }
            (_, sent) => sent,
        }
    }
}

/// No connection of the pool was free.
#[derive(Debug, thiserror::Error)]
#[error("no connection of the pool is free")]
struct PoolTimeout;

fn is_status(error: &SendError) -> bool {
    let (SendError::Retryable { cause, .. } | SendError::Permanent { cause } | SendError::BadAck { cause }) =
        error
    else {
        return false;
    };
    matches!(cause.downcast_ref(), Some(HttpError::Status(_)))
}
