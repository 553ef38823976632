//! Twins of the HTTP sender.

use std::pin::pin;

use crate::computer::Context;
use ackward::rules::Event;
use ackward::shell::{HttpError, HttpSender, SendError, Sender};

use crate::scenario::Flaw;

/// A sender that makes a mistake, or none.
pub struct SenderTwin {
    pub(super) real: HttpSender<Context, Context>,
    pub(super) flaw: Flaw,
}

impl Sender for SenderTwin {
    async fn send(&mut self, event: Event) -> Result<(), SendError> {
        let sent = pin!(self.real.send(event.clone())).await;
        match (self.flaw, sent) {
            (Flaw::ResendsByItself, Err(error)) if !is_status(&error) => self.real.send(event).await,
            (Flaw::TimeoutIsPermanent, Err(SendError::Retryable { cause, .. }))
                if matches!(cause.downcast_ref(), Some(HttpError::Timeout)) =>
            {
                Err(SendError::Permanent { cause })
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

fn is_status(error: &SendError) -> bool {
    let (SendError::Retryable { cause, .. } | SendError::Permanent { cause } | SendError::BadAck { cause }) =
        error
    else {
        return false;
    };
    matches!(cause.downcast_ref(), Some(HttpError::Status(_)))
}
