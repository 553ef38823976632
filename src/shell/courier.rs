//! The courier: claims one job, sends it, records the outcome (Q47 to Q57). It holds no transaction while
//! it sends, and it trusts nothing but its own ticket afterwards.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

use crate::port::{Blocking, Clock, Fault, Lane};
use crate::rules::{
    Attempt, Delay, Invalid, Jitter, Lease, Limits, Millis, Name, Outcome, RetryPolicy, Ticket, Token,
    retry_delay,
};
use crate::storage::{ClaimError, FinishError, Finished, LeaseQueue, OpenOptions, Queue, StorageError};

use super::sender::{SendError, Sender};

/// What a courier is told. Each of the first three is a value or the reason why there is none: run_once
/// refuses a bad one at the very point where the contract checks it (Q47, A12), so whoever reads them from
/// text hands over what came of it.
#[derive(Debug, Clone)]
pub struct Orders {
    /// The random part of a retry's delay.
    pub jitter: Result<Jitter, Invalid>,
    /// Who claims.
    pub owner: Result<Name, Invalid>,
    /// How long the claim lasts.
    pub lease: Result<Lease, Invalid>,
    /// The delays between attempts.
    pub retry: RetryPolicy,
    /// Caps what a receiver's `Retry-After` can ask for.
    pub limits: Limits,
}

impl Orders {
    /// The contract's orders: delays of 100 to 1,000 ms (Q51), the contract's limits.
    #[must_use]
    pub const fn new(owner: Name, lease: Lease, jitter: Jitter) -> Self {
        Self {
            jitter: Ok(jitter),
            owner: Ok(owner),
            lease: Ok(lease),
            retry: RetryPolicy::CONTRACT,
            limits: Limits::CONTRACT,
        }
    }
}

/// A job that was claimed, sent and finished (Q54).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// The job.
    pub id: Name,
    /// The claim's token.
    pub token: Token,
    /// Its new status, or stale: the ticket no longer held and the row was left alone.
    pub finished: Finished,
}

/// Why a run ended without a delivery. From [`RunOnceError::Send`] on, a job was claimed and sent; it stays
/// leased as claimed and comes back when the lease ends.
#[derive(Debug, thiserror::Error)]
pub enum RunOnceError {
    /// An order or a reading of the clock is out of range, or the clock went backwards between claim and
    /// finish (Q47, Q48, Q53). Only in the last case was a job sent.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The claim failed; nothing was sent.
    #[error(transparent)]
    Claim(ClaimError),
    /// The sender failed in a way that says nothing about the job (Q50, Q52).
    #[error(transparent)]
    Send(SendError),
    /// The outcome could not be recorded.
    #[error(transparent)]
    Finish(#[from] FinishError),
}

/// Claims at most one job, sends it and records the outcome. `Ok(None)`: there was nothing to claim.
///
/// The clock is read once before the claim and once after an answer that counts. Dropping the future before
/// it is done leaves the job leased.
///
/// # Errors
/// [`RunOnceError`].
pub async fn run_once<Q, L, C, S, F>(
    lane: &L,
    orders: Orders,
    clock: &C,
    sender: &mut S,
    fault: F,
) -> Result<Option<Delivery>, RunOnceError>
where
    Q: LeaseQueue + 'static,
    L: Lane<Q>,
    C: Clock,
    S: Sender,
    F: Fault + Clone + Send + 'static,
{
    let jitter = orders.jitter?;
    let claimed_at = clock.now()?;
    let (owner, lease) = (orders.owner?, orders.lease?);
    let Some(ticket) = claim(lane, owner, claimed_at, lease, fault.clone()).await? else {
        return Ok(None);
    };
    let sent = sender.send(ticket.event()).await;
    let (outcome, delay) =
        verdict(sent, ticket.attempt, orders.retry, orders.limits, jitter).map_err(RunOnceError::Send)?;
    let now = not_before(claimed_at, clock.now()?)?;
    let (id, token) = (ticket.id.clone(), ticket.token);
    let finished = finish(lane, ticket, outcome, now, delay, fault).await?;
    Ok(Some(Delivery { id, token, finished }))
}

/// What to record of an attempt (Q50 to Q52, W2).
///
/// # Errors
/// Where nothing is to be recorded: the job stays leased and comes back when the lease ends.
pub(super) fn verdict(
    sent: Result<(), SendError>,
    attempt: Attempt,
    retry: RetryPolicy,
    limits: Limits,
    jitter: Jitter,
) -> Result<(Outcome, Delay), SendError> {
    match sent {
        Ok(()) => Ok((Outcome::Ok, Delay::NONE)),
        Err(SendError::Permanent { .. }) => Ok((Outcome::Permanent, Delay::NONE)),
        Err(SendError::Retryable { retry_after, .. }) => {
            let delay = retry_delay(attempt, retry, jitter);
            let at_least_ms =
                retry_after.map_or(0, |wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
            Ok((Outcome::Retry, limits.raise(delay, at_least_ms)))
        }
        Err(other) => Err(other),
    }
}

async fn claim<Q, L, F>(
    lane: &L,
    owner: Name,
    now: Millis,
    lease: Lease,
    mut fault: F,
) -> Result<Option<Ticket>, RunOnceError>
where
    Q: LeaseQueue + 'static,
    L: Lane<Q>,
    F: Fault + Send + 'static,
{
    let job = move |queue: &mut Q| queue.claim(&owner, now, lease, &mut fault);
    lane.call("claim", job).await.map_err(RunOnceError::Claim)
}

async fn finish<Q, L, F>(
    lane: &L,
    ticket: Ticket,
    outcome: Outcome,
    now: Millis,
    delay: Delay,
    mut fault: F,
) -> Result<Finished, FinishError>
where
    Q: LeaseQueue + 'static,
    L: Lane<Q>,
    F: Fault + Send + 'static,
{
    let job = move |queue: &mut Q| queue.finish(&ticket, outcome, now, delay, &mut fault);
    lane.call("finish", job).await
}

/// Q53: the second reading may equal the first, but not lie before it.
fn not_before(first: Millis, second: Millis) -> Result<Millis, Invalid> {
    if second >= first {
        return Ok(second);
    }
    Err(Invalid::new("clock", second, format!("at least {first}, the time of the claim")))
}

/// Why a run on a file ended without a delivery.
#[derive(Debug, thiserror::Error)]
pub enum RunFileError {
    /// There is no queue file at the path: nothing there, a directory, a FIFO, a dangling link, or an empty
    /// file (Q56, A14). Nothing was created.
    #[error("{} is no queue file: {cause}", path.display())]
    NotFound {
        /// The path.
        path: PathBuf,
        /// What is there instead.
        cause: io::Error,
    },
    /// The file could not be opened as a queue.
    #[error(transparent)]
    Open(#[from] StorageError),
    /// The run itself failed.
    #[error(transparent)]
    Run(#[from] RunOnceError),
}

/// Opens an existing queue file, runs once and closes it, on success and on every failure (Q56, Q57).
///
/// On SQLite's default VFS the file is looked at with `stat` (opening and closing it would drop the locks
/// that this process holds on it); on another VFS, that VFS decides whether the file exists.
///
/// # Errors
/// [`RunFileError`]; the check of the file comes before any of [`run_once`]'s.
pub async fn run_file<B, C, S, F>(
    blocking: &B,
    path: &Path,
    options: OpenOptions,
    orders: Orders,
    clock: &C,
    sender: &mut S,
    fault: F,
) -> Result<Option<Delivery>, RunFileError>
where
    B: Blocking,
    C: Clock,
    S: Sender,
    F: Fault + Clone + Send + 'static,
{
    let path = path.to_owned();
    let lane = blocking.open("open", move || open_existing(path, options)).await?;
    let result = run_once(&lane, orders, clock, sender, fault).await;
    lane.close().await;
    Ok(result?)
}

fn open_existing(path: PathBuf, options: OpenOptions) -> Result<Queue, RunFileError> {
    let real = options.is_default_vfs();
    if real && let Err(cause) = check_file(&path) {
        return Err(RunFileError::NotFound { path, cause });
    }
    match Queue::open(&path, &options.create(false)) {
        Err(error) if !real && is_missing(&error) => {
            Err(RunFileError::NotFound { path, cause: io::Error::other(error) })
        }
        opened => Ok(opened?),
    }
}

fn is_missing(error: &StorageError) -> bool {
    matches!(error, StorageError::Empty) || error.code() == Some(ErrorCode::CannotOpen)
}

/// Whether a regular file with something in it is at `path`, links followed.
fn check_file(path: &Path) -> io::Result<()> {
    let metadata = fs::metadata(path)?;
    if !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::NotFound, "not a regular file"));
    }
    if metadata.len() == 0 {
        return Err(io::Error::new(io::ErrorKind::NotFound, "the file is empty"));
    }
    Ok(())
}
