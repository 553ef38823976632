//! The test hook `ACKWARD_FAULT`: freezes or fails the process at a named point, so that tests can kill it
//! between a commit and its ACK. Unset, which is how production runs, it does nothing.
//!
//! `POINT:N=ACTION`, where POINT is any of the contract's (`before-cursor` and `before-ack` in the consumer,
//! `after-claim`, `after-finish`, `after-renew`, `after-release` in the worker, `after-accept` in the receiver,
//! `after-audit` and `after-redrive` in redrive, `after-commit` in all but the consumer), N counts the calls
//! before (0 is the first), and ACTION is `hold` (say `held at POINT` on stderr, then stand still until killed),
//! `pause-MS` (say so, stand still for so many milliseconds, go on) or `error`.

#![expect(clippy::disallowed_methods, reason = "the command line reads the environment")]

use std::env;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ackward::port::{Fault, FaultPoint, Injected};

use super::exit::{Ended, Exit};

/// Where the hook is set.
const VARIABLE: &str = "ACKWARD_FAULT";

/// The hook; its clones count together.
#[derive(Debug, Clone, Default)]
pub struct EnvFault(Option<Arc<Armed>>);

#[derive(Debug)]
struct Armed {
    point: FaultPoint,
    calls_before: u64,
    action: Action,
    calls: AtomicU64,
}

#[derive(Debug, Clone, Copy)]
enum Action {
    Hold,
    Pause(Duration),
    Error,
}

impl EnvFault {
    /// Reads the environment.
    pub fn from_env() -> Result<Self, Ended> {
        let Some(text) = env::var_os(VARIABLE) else { return Ok(Self::default()) };
        let armed = text.to_str().and_then(parse).ok_or_else(|| {
            let allowed = "POINT:N=ACTION, such as before-ack:1=hold";
            Ended::new(Exit::Usage, format_args!("{VARIABLE} is {text:?}, allowed: {allowed}"))
        })?;
        tracing::warn!(?text, "the test hook {VARIABLE} is set");
        Ok(Self(Some(Arc::new(armed))))
    }
}

impl Fault for EnvFault {
    fn at(&mut self, point: FaultPoint) -> Result<(), Injected> {
        let Some(armed) = self.0.as_ref().filter(|armed| armed.point == point) else { return Ok(()) };
        if armed.calls.fetch_add(1, Ordering::Relaxed) != armed.calls_before {
            return Ok(());
        }
        match armed.action {
            Action::Error => Err(Injected(format!("{VARIABLE} at {point}").into())),
            Action::Hold => hold(point),
            Action::Pause(duration) => {
                say_held(point);
                std::thread::sleep(duration);
                Ok(())
            }
        }
    }
}

fn hold(point: FaultPoint) -> ! {
    say_held(point);
    loop {
        std::thread::park();
    }
}

fn say_held(point: FaultPoint) {
    let _ = writeln!(std::io::stderr(), "held at {point}");
}

fn parse(text: &str) -> Option<Armed> {
    let (place, action) = text.split_once('=')?;
    let (point, calls_before) = place.split_once(':')?;
    let point = FaultPoint::ALL.iter().copied().find(|p| p.as_str() == point)?;
    let action = match action {
        "hold" => Action::Hold,
        "error" => Action::Error,
        _ => Action::Pause(Duration::from_millis(action.strip_prefix("pause-")?.parse().ok()?)),
    };
    Some(Armed { point, calls_before: calls_before.parse().ok()?, action, calls: AtomicU64::new(0) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The hook fires once, at its call of its point, and only if it is set.
    #[test]
    fn the_hook_fires_at_its_call() {
        let mut fault = EnvFault(parse("before-ack:1=error").map(Arc::new));
        let mut clone = fault.clone();
        assert!(fault.at(FaultPoint::BeforeCursor).is_ok());
        assert!(fault.at(FaultPoint::BeforeAck).is_ok());
        assert!(clone.at(FaultPoint::BeforeAck).is_err());
        assert!(fault.at(FaultPoint::BeforeAck).is_ok());
        assert!(EnvFault::default().at(FaultPoint::BeforeAck).is_ok());
        for bad in [
            "",
            "before-ack",
            "before-ack:1",
            "before-ack:x=hold",
            "before-ack:1=kill",
            "before-ack:1=pause-",
            "before-ack:1=pause-x",
            "nowhere:1=hold",
        ] {
            assert!(parse(bad).is_none(), "{bad}");
        }
    }
}
