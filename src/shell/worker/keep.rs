//! Keeps a lease while its job is being sent (M10).

use std::future::Future;
use std::pin::{Pin, pin};
use std::time::Duration;

use futures_util::future::{MaybeDone, maybe_done};

use crate::port::Clock;
use crate::rules::{Lease, Ticket};
use crate::storage::{ClaimError, Renewed};

/// How a send ended.
pub(super) enum Kept<T> {
    /// With this result, under this ticket.
    Sent(T, Ticket),
    /// The lease was lost first. The send was dropped; if it has a result, nobody may record it.
    Lost,
}

/// Waits for `send`, and renews the ticket's lease every third of its length. Renewals go on beside the send, and
/// each is waited for, so that the ticket is always the newest. One that fails, which `renew` tells of, is tried again
/// sooner.
pub(super) async fn keep<C: Clock, T>(
    clock: &C,
    lease: Lease,
    mut ticket: Ticket,
    send: impl Future<Output = T>,
    renew: impl AsyncFn(Ticket) -> Result<Renewed, ClaimError>,
) -> Kept<T> {
    let every = Duration::from_millis(lease.get().unsigned_abs()) / 3;
    let mut send = pin!(maybe_done(send));
    let mut wait = every;
    loop {
        let Some(left) = left(clock, &ticket) else { return Kept::Lost };
        beside(send.as_mut(), clock.sleep(wait.min(left)), true).await;
        if let Some(result) = send.as_mut().take_output() {
            return Kept::Sent(result, ticket);
        }
        if self::left(clock, &ticket).is_none() {
            return Kept::Lost;
        }
        match beside(send.as_mut(), renew(ticket.clone()), false).await {
            Some(Ok(Renewed::Until(renewed))) => (ticket, wait) = (renewed, every),
            Some(Ok(Renewed::Stale)) => return Kept::Lost,
            Some(Err(_)) => wait = every / 4,
            None => {}
        }
        if let Some(result) = send.as_mut().take_output() {
            return Kept::Sent(result, ticket);
        }
    }
}

/// How long the ticket's lease still lasts; `None` where it has run out, or the clock fails.
pub(super) fn left(clock: &impl Clock, ticket: &Ticket) -> Option<Duration> {
    let now = clock.now().ok()?;
    let left_ms = ticket.lease_until_ms() - now.get();
    if left_ms > 0 { Some(Duration::from_millis(left_ms.unsigned_abs())) } else { None }
}

/// Waits for `other` while `send` goes on; where `send` is enough, it ends the wait.
async fn beside<F: Future, G: Future>(
    mut send: Pin<&mut MaybeDone<F>>,
    other: G,
    send_is_enough: bool,
) -> Option<G::Output> {
    let mut other = pin!(other);
    let mut sent = false;
    loop {
        tokio::select! {
            biased;
            () = send.as_mut(), if !sent => {
                if send_is_enough {
                    return None;
                }
                sent = true;
            }
            output = &mut other => return Some(output),
        }
    }
}
