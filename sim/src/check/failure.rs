//! A check's failure: made small, told, and how to have it again.

use std::fmt;

use super::REPLAY;
use super::lab::Lab;
use super::once::{self, Ran, Settings};
use crate::choice::{Deviation, Kind};
use crate::computer::{Event, Recording};
use crate::findability::HitRate;
use crate::numbers::count;
use crate::shrink::minimize;

/// A property of a check that did not hold, and the fewest deviations found that break it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The check.
    pub check: String,
    /// The property.
    pub property: String,
    /// How it is broken.
    pub detail: String,
    /// The first seed that breaks it, unless it was found in another way.
    pub seed: Option<u64>,
    /// Of how many seeds from that one on how many break something.
    pub rate: Option<HitRate>,
    /// What happens in the run, and need not be left out to break the property.
    pub deviations: Vec<Deviation>,
    /// Deviations before it was shrunk.
    pub before: usize,
    /// The story of the shrunk run, a line each.
    pub story: String,
}

impl Failure {
    pub(super) fn new(
        settings: &Settings,
        found: Option<(u64, u64, u64)>,
        ran: Ran,
        shrunk: Option<Ran>,
    ) -> Self {
        let before = ran.deviations.len();
        let small = shrunk.unwrap_or(ran);
        let (property, detail) = small.broken.unwrap_or_default();
        Self {
            check: settings.name.clone(),
            property,
            detail,
            seed: found.map(|(seed, ..)| seed),
            rate: found.and_then(|(_, hits, seeds)| HitRate::new(hits, seeds)),
            deviations: small.deviations,
            before,
            story: story(&small.events),
        }
    }

    /// The value of [`REPLAY`] that has it again.
    #[must_use]
    pub fn replay(&self) -> String {
        let deviations: Vec<String> = self.deviations.iter().map(ToString::to_string).collect();
        format!("{}: {}", self.check, deviations.join("; "))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { check, property, detail, .. } = self;
        match self.seed {
            Some(seed) => writeln!(f, "{check}: seed {seed} breaks {property}: {detail}")?,
            None => writeln!(f, "{check} breaks {property}: {detail}")?,
        }
        if let Some(rate) = self.rate {
            let (sure, surer) =
                (count(rate.clean_seeds(95), "clean seed"), count(rate.clean_seeds(99), "clean seed"));
            writeln!(f, "  {rate} seeds fail: after a fix, {sure} for 95 % confidence, {surer} for 99 %")?;
        }
        let before = count(self.before as u64, "deviation");
        writeln!(f, "  {} of {before} are enough:", self.deviations.len())?;
        for deviation in &self.deviations {
            writeln!(f, "    {}", deviation.in_words())?;
        }
        f.write_str(&self.story)?;
        let test =
            std::thread::current().name().filter(|name| *name != "main").unwrap_or_default().to_owned();
        write!(f, "  replay: {REPLAY}='{}' cargo test {test}", self.replay())
    }
}

/// Leaves out every deviation that is not needed to break the same property, and runs what is left with its story.
/// `None` where the deviations alone do not break it.
pub(super) fn shrink(settings: &Settings, ran: &Ran, build: &impl Fn(&mut Lab)) -> Option<Ran> {
    let (property, _) = ran.broken.as_ref()?;
    let breaks = |ran: &Ran| ran.broken.as_ref().is_some_and(|(broken, _)| broken == property);
    let mut best = once::replay(settings, &ran.deviations, Recording::Off, build);
    if !breaks(&best) {
        return None;
    }
    let accepts = |kept: &[Deviation], best: &mut Ran| {
        let ran = once::replay(settings, kept, Recording::Off, build);
        let is_same = breaks(&ran);
        if is_same {
            *best = ran;
        }
        is_same
    };
    loop {
        let all = best.deviations.clone();
        minimize(all.len(), |rest| {
            let kept: Vec<Deviation> = rest.iter().map(|at| all[*at].clone()).collect();
            accepts(&kept, &mut best)
        });
        let deaths = (0..best.deviations.len()).rev();
        let without = deaths.filter_map(|at| without_death(&best.deviations, at));
        if !without.collect::<Vec<_>>().iter().any(|kept| accepts(kept, &mut best)) {
            break;
        }
    }
    let told = once::replay(settings, &best.deviations, Recording::Story, build);
    breaks(&told).then_some(told)
}

/// The deviations without a death, and what follows moved to the life before; `None` where it is no death.
fn without_death(deviations: &[Deviation], at: usize) -> Option<Vec<Deviation>> {
    let death = &deviations[at];
    let is_cut = death.action.kind() == Kind::PowerCut;
    if !is_cut && !matches!(death.action.kind(), Kind::Kill | Kind::HookKill) {
        return None;
    }
    let later = deviations[at + 1..].iter().cloned().map(|mut later| {
        let is_hit = is_cut || later.at.process == death.at.process;
        later.at.incarnation -= u32::from(is_hit && later.at.incarnation > 1);
        later
    });
    Some(deviations[..at].iter().cloned().chain(later).collect())
}

/// Which run is to be replayed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    Seed(u64),
    Deviations(Vec<Deviation>),
}

/// The run of this check that the environment asks for.
#[expect(clippy::disallowed_methods, reason = "a test has no command line of its own")]
pub(super) fn wanted(check: &str) -> Option<Wanted> {
    let text = std::env::var(REPLAY).ok()?;
    parse(&text, check).unwrap_or_else(|allowed| panic!("{REPLAY} is {text:?}, allowed: {allowed}"))
}

/// `None` where another check is meant.
fn parse(text: &str, check: &str) -> Result<Option<Wanted>, String> {
    let allowed = || "NAME seed N, or NAME: POINT = ACTION; POINT = ACTION".to_owned();
    if let Some((name, seed)) = text.split_once(" seed ") {
        let seed = seed.trim().parse().map_err(|_| allowed())?;
        return Ok((name.trim() == check).then_some(Wanted::Seed(seed)));
    }
    let (name, deviations) = text.split_once(':').ok_or_else(allowed)?;
    if name.trim() != check {
        return Ok(None);
    }
    let deviations = deviations.split(';').map(str::trim).filter(|deviation| !deviation.is_empty());
    let deviations = deviations.map(|deviation| {
        let (at, action) = deviation.split_once(" = ").ok_or_else(allowed)?;
        let at = at.parse().map_err(|error| format!("{error}, at {at:?}"))?;
        Ok(Deviation { at, action: crate::choice::Action::parse(action)? })
    });
    Ok(Some(Wanted::Deviations(deviations.collect::<Result<_, String>>()?)))
}

/// A run's story, a line each.
pub(super) fn story(events: &[Event]) -> String {
    let line = |event: &Event| {
        let at_ms = event.at_us as f64 / 1_000.0;
        format!("  {at_ms:>12.3} ms  {:<12}  {}\n", event.process, event.text)
    };
    events.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replay_reads_as_a_failure_writes_it() {
        let at = "w/1/claim#1/commit/journal.sync#1";
        let other = "w/2/claim#1/begin/db.read#3";
        let text = format!("outbox: {at} = kill; {other} = stall:5ms");
        let wanted = parse(&text, "outbox").unwrap();
        let Some(Wanted::Deviations(deviations)) = wanted else { panic!("{wanted:?}") };
        let written: Vec<String> = deviations.iter().map(ToString::to_string).collect();
        assert_eq!(written, [format!("{at} = kill"), format!("{other} = stall:5ms")]);
        assert_eq!(parse("outbox seed 17", "outbox"), Ok(Some(Wanted::Seed(17))));
        assert_eq!(parse("outbox:", "outbox"), Ok(Some(Wanted::Deviations(Vec::new()))));
        assert_eq!(parse("other seed 17", "outbox"), Ok(None));
        assert_eq!(parse(&text, "other"), Ok(None));
    }

    #[test]
    fn a_wrong_replay_says_what_is_allowed() {
        for (text, part) in [
            ("outbox", "NAME seed N"),
            ("outbox seed x", "NAME seed N"),
            ("outbox: x", "POINT = ACTION"),
            ("outbox: x = kill", "worker-a/1/claim#2"),
            ("outbox: w/1/claim#1/commit/db.write#1 = kil", "one of switch"),
        ] {
            let allowed = parse(text, "outbox").unwrap_err();
            assert!(allowed.contains(part), "{text}: {allowed}");
        }
    }
}
