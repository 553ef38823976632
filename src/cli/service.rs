//! What `work` and `receive` have in common: each runs until a signal ends it or its file is replaced, and after a
//! SIGHUP goes on with the settings read anew, or with the old ones where the new ones are refused.

use std::cell::Cell;
use std::convert::Infallible;
use std::future::pending;
use std::path::Path;
use std::pin::{Pin, pin};
use std::time::Duration;

use ackward::adapter::SystemClock;
use ackward::port::Clock;
use ackward::shell::{Jump, watch_clock};
use futures_util::FutureExt;
use tokio::sync::oneshot;

use super::exit::{Ended, Exit};
use super::signals::{Signals, Wish};
use super::status::Board;
use super::{Command, files};

/// A command that runs until it is told to stop, with all that outlives a reload.
pub trait Service {
    /// Takes over settings that were read anew. All that can fail does so before anything has changed.
    async fn take(&mut self, command: Command) -> Result<(), Ended>;

    /// Runs once with the settings taken over last.
    async fn once(&self, signals: &mut Signals) -> Result<Why, Ended>;

    /// Sums up, at the end.
    async fn end(self, why: Why) -> Result<(), Ended>;
}

/// Why a run ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// A signal asked for it.
    Stop,
    /// It goes on with other settings.
    Reload,
    /// Another file, or none, is where the one that was opened was.
    Replaced,
}

/// What a run is watched for, and who is told.
pub struct Watch<'a> {
    /// The file that is open.
    pub path: &'a Path,
    /// Device and inode of that file.
    pub identity: (u64, u64),
    /// Is told when the run is to end.
    pub board: &'a Board,
    /// What a jump of the clock may lead to.
    pub jump: &'static str,
}

/// How often the clock is looked at, and from which step on it has jumped.
const CLOCK_EVERY: Duration = Duration::from_secs(1);
const CLOCK_JUMP: Duration = Duration::from_secs(2);
/// How often it is looked whether the file is still the one that was opened.
const FILE_EVERY: Duration = Duration::from_secs(1);

/// Runs a service to its end.
pub async fn run(mut service: impl Service, mut signals: Signals) -> Result<(), Ended> {
    loop {
        let mut why = service.once(&mut signals).await?;
        if why == Why::Reload {
            // A signal to end that came while the last of the run was under way counts.
            why = signals.next().now_or_never().map_or(why, Why::from);
        }
        if why != Why::Reload {
            return service.end(why).await;
        }
        let taken = match super::parse() {
            Ok(anew) => {
                // Reading a secret may take as long as somebody takes to write it.
                let taken = unless_stopped(&mut signals, service.take(anew.command)).await;
                if let Ok(None) = taken {
                    return service.end(Why::Stop).await;
                }
                if taken.is_ok() {
                    anew.logging.warn_of_changes();
                }
                taken.map_err(|ended| ended.message)
            }
            Err(refused) => Err(refused.message()),
        };
        if let Err(error) = taken {
            tracing::error!(error, "the settings are refused, the old ones stay");
        }
    }
}

/// Says that a setting was changed to no effect for now.
pub fn waits_for_start(flag: &str) {
    tracing::warn!(
        "{flag} has changed, and takes effect with the next start only: until then the old one stays"
    );
}

/// The end of what comes before a run; `None` where a signal to end came first.
pub async fn unless_stopped<T>(
    signals: &mut Signals,
    preparing: impl Future<Output = Result<T, Ended>>,
) -> Result<Option<T>, Ended> {
    tokio::select! {
        biased;
        () = signals.stop() => Ok(None),
        prepared = preparing => prepared.map(Some),
    }
}

/// Runs `work`, whose argument completes when it is to end, and says why it was.
pub async fn until_told<T>(
    watch: &Watch<'_>,
    signals: &mut Signals,
    work: impl AsyncFnOnce(Pin<&mut dyn Future<Output = ()>>) -> T,
) -> (T, Why) {
    let why = Cell::new(Why::Stop);
    watch.board.set_stopping(false);
    let (tell, told) = oneshot::channel();
    let told = pin!(told.map(drop));
    let tell_jump = |Jump { by_ms }: Jump| {
        tracing::warn!(by_ms, "the clock jumped, or the process stood still: {}", watch.jump);
    };
    let done = tokio::select! {
        biased;
        never = listen(watch, signals, &why, tell) => match never {},
        done = work(told) => done,
        never = watch_clock(&SystemClock, CLOCK_EVERY, CLOCK_JUMP, tell_jump) => match never {},
    };
    (done, why.get())
}

/// Tells a run to end, and goes on listening while it does: a signal to end turns a reload into an end. From the first
/// such signal on, whenever it comes, one more ends the process at once.
async fn listen(
    watch: &Watch<'_>,
    signals: &mut Signals,
    why: &Cell<Why>,
    tell: oneshot::Sender<()>,
) -> Infallible {
    let first = tokio::select! {
        biased;
        wish = signals.next() => Why::from(wish),
        () = replaced(watch.path, watch.identity) => Why::Replaced,
    };
    why.set(first);
    watch.board.set_stopping(true);
    // Only a run that has ended does not hear it.
    let _ = tell.send(());
    if first != Why::Stop {
        signals.stop().await;
    }
    if first == Why::Reload {
        why.set(Why::Stop);
    }
    pending().await
}

/// How the last run ended: `replaced` says what follows from another file in its place, `cut` what was cut off, if
/// anything was.
pub fn ended(why: Why, path: &Path, replaced: &str, cut: Option<&str>) -> Result<(), Ended> {
    let cut = cut.map(|what| format!("{what} cut off: the grace time was over"));
    if why == Why::Replaced {
        let cut = cut.map_or_else(String::new, |cut| format!("; {cut}"));
        let path = path.display();
        let why = format_args!("{path}: was moved, removed or replaced while it was open: {replaced}{cut}");
        return Err(Ended::new(Exit::Storage, why));
    }
    cut.map_or(Ok(()), |cut| Err(Ended::new(Exit::Cut, cut)))
}

impl From<Wish> for Why {
    fn from(wish: Wish) -> Self {
        match wish {
            Wish::Stop => Self::Stop,
            Wish::Reload => Self::Reload,
        }
    }
}

/// Completes when another file, or none, is at the path. SQLite itself refuses to write to a file that has moved.
pub async fn replaced(path: &Path, identity: (u64, u64)) {
    while files::identity(path).is_ok_and(|now| now == identity) {
        SystemClock.sleep(FILE_EVERY).await;
    }
}
