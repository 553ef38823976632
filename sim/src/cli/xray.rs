//! What differed between two runs of the same seed: the first event, and what kind of leak makes such a difference.

use super::child::{Child, Told};
use super::folder::Entry;
use super::outcome::{Outcome, Problem};

/// Seeds run before the one that differed, to make its process as warm as it was.
const WARM_UP_SEEDS: u64 = 16;

/// Adds to a problem what differed first.
pub(crate) fn explain(entry: &Entry, outcome: &Outcome, problem: &mut Problem) {
    let seeds = outcome.tally.nondeterministic.iter().copied().chain(outcome.cold.map(|cold| cold.seed));
    let Some(seed) = seeds.min() else { return };
    match compare(entry, seed) {
        Ok(note) => problem.notes.extend(note),
        Err(how) => problem.notes.push(format!("not compared: {how}")),
    }
}

/// Runs the seed in a fresh process, and in one that has run others and this one before.
fn compare(entry: &Entry, seed: u64) -> Result<Vec<String>, String> {
    let spawn = || Child::spawn().map_err(|error| format!("{error:#}"));
    let cold = spawn()?.story(entry, seed)?;
    let mut child = spawn()?;
    let start = seed.saturating_sub(WARM_UP_SEEDS);
    child.run(entry, start, seed - start + 1, Default::default())?;
    let warm = child.story(entry, seed)?;
    Ok(difference(&cold, &warm))
}

fn difference(cold: &[Told], warm: &[Told]) -> Vec<String> {
    let length = cold.len().max(warm.len());
    let Some(at) = (0..length).find(|at| cold.get(*at) != warm.get(*at)) else {
        return vec![
            "every event is the same: what differs are bytes that were written, such as random numbers that \
                     the seed does not decide"
                .to_owned(),
        ];
    };
    let (cold, warm) = (cold.get(at), warm.get(at));
    vec![
        format!("the first difference is event {}", at + 1),
        format!("in a fresh process: {}", shown(cold)),
        format!("in a warm process:  {}", shown(warm)),
        format!("likely leak: {}", leak(cold, warm)),
    ]
}

fn shown(event: Option<&Told>) -> String {
    event.map_or("nothing more".to_owned(), |(at_us, process, text)| {
        format!("{}.{:03} ms {process} {text}", at_us.div_euclid(1_000), at_us.rem_euclid(1_000))
    })
}

fn leak(cold: Option<&Told>, warm: Option<&Told>) -> &'static str {
    match (cold, warm) {
        (Some((cold, ..)), Some((warm, ..))) if cold != warm => {
            "time that is not the simulation's, or a wait whose length outlives a run"
        }
        (Some((_, cold, _)), Some((_, warm, _))) if cold != warm => {
            "the order in which processes run: a map whose order differs, or a thread"
        }
        _ => {
            "state that outlives a run (a static, a thread-local, a cache), or randomness that the seed does not decide"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(at_us: i64, process: &str, text: &str) -> Told {
        (at_us, process.to_owned(), text.to_owned())
    }

    #[test]
    fn the_first_difference_names_its_likely_leak() {
        let one = [told(0, "a", "x"), told(1_500, "a", "y")];
        let leak = |other: &[Told]| difference(&one, other).last().cloned().unwrap();
        assert!(leak(&[told(0, "a", "x"), told(1_700, "a", "y")]).contains("time that is not"));
        assert!(leak(&[told(0, "a", "x"), told(1_500, "b", "y")]).contains("the order in which"));
        assert!(leak(&[told(0, "a", "z")]).contains("state that outlives"));
        assert!(leak(&one[..1]).contains("state that outlives"));
        assert!(leak(&one).contains("every event is the same"));
        assert!(difference(&one, &one[..1])[2].contains("nothing more"));
    }
}
