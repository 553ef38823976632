//! One run of a check.

use std::cell::RefCell;
use std::rc::Rc;

use ackward::port::{Blocking, Lane};

use super::connect;
use super::lab::{Broken, Lab};
use crate::choice::{Action, Chooser, Decision, Deviation, Replay};
use crate::computer::{Context, End, Ending, Event, ProcessSpec, Recording, Simulation, SimulationOptions};

/// How long a world may take to settle once faults have stopped, in ms.
const SETTLE_MS: i64 = 120_000;
/// The property that is broken where a world does not settle.
const SETTLES: &str = "settles";
/// The property that is broken by a panic.
const NO_PANIC: &str = "no-panic";

/// Seeds SQLite's random numbers where no seed decides what happens.
pub(super) const SEED: u64 = 1;

/// What all runs of a check have in common.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub(super) name: String,
    pub(super) duration_ms: i64,
    pub(super) options: SimulationOptions,
}

/// What came of a run.
#[derive(Debug)]
pub(super) struct Ran {
    /// The first broken property.
    pub(super) broken: Option<Broken>,
    pub(super) deviations: Vec<Deviation>,
    pub(super) events: Vec<Event>,
    pub(super) processes: Vec<String>,
}

impl Ran {
    pub(super) const fn broke(&self) -> bool {
        self.broken.is_some()
    }
}

/// Runs the world of one seed.
pub(super) fn run(
    settings: &Settings,
    seed: u64,
    recording: Recording,
    chooser: impl Chooser + 'static,
    build: &impl Fn(&mut Lab),
) -> Ran {
    let options = SimulationOptions {
        sqlite_seed: SimulationOptions::sqlite_seed_of(seed),
        faults_until_us: settings.duration_ms * 1_000,
        limit_us: settings.duration_ms * 1_000,
        recording,
        ..settings.options.clone()
    };
    let mut lab = Lab::new(Simulation::new(options, chooser));
    build(&mut lab);
    let broken = Rc::new(RefCell::new(Vec::new()));
    lab.watch(&broken);
    let has_settled = play(settings, &mut lab, &broken);
    if !has_settled {
        let how =
            format!("processes that have not ended two minutes after the last fault: {}", lab.open.get());
        broken.borrow_mut().push((SETTLES.to_owned(), how));
    }
    judge(settings, &mut lab, &broken);
    for (property, at_end) in std::mem::take(&mut lab.at_end) {
        let holds = at_end();
        let mut broken = broken.borrow_mut();
        if let Err(how) = holds {
            broken.push((property, how));
        }
    }
    let end = lab.simulation.finish(false);
    report(end, &broken)
}

/// Runs with these deviations alone.
pub(super) fn replay(
    settings: &Settings,
    deviations: &[Deviation],
    recording: Recording,
    build: &impl Fn(&mut Lab),
) -> Ran {
    // A first run without deviations tells how the processes are numbered.
    let needs_names = deviations.iter().any(|deviation| matches!(deviation.action, Action::Process(..)));
    let names = if needs_names {
        run(settings, SEED, Recording::Off, crate::choice::Nothing, build).processes
    } else {
        Vec::new()
    };
    let number = |name: &str| names.iter().position(|known| known == name);
    let decided = deviations.iter().filter_map(|deviation| {
        let decision: Decision = deviation.action.decision(number)?;
        Some((deviation.at.key(), decision))
    });
    run(settings, SEED, recording, Replay::new(decided.collect::<Vec<_>>()), build)
}

/// Lets everything happen; returns whether all processes came to their end.
fn play(settings: &Settings, lab: &mut Lab, broken: &Rc<RefCell<Vec<Broken>>>) -> bool {
    let (open, found) = (Rc::clone(&lab.open), Rc::clone(broken));
    let is_over = move || open.get() == 0 || !found.borrow().is_empty();
    lab.simulation.run_until(&is_over);
    if is_over() {
        return true;
    }
    lab.simulation.stop_faults();
    lab.simulation.revive();
    lab.simulation.set_limit_us((settings.duration_ms + SETTLE_MS) * 1_000);
    lab.simulation.run_until(&is_over);
    is_over()
}

/// Holds the last properties against the files, each by a process of its own.
fn judge(settings: &Settings, lab: &mut Lab, broken: &Rc<RefCell<Vec<Broken>>>) {
    lab.simulation.stop_faults();
    lab.simulation.set_limit_us(i64::MAX);
    for (at, last) in std::mem::take(&mut lab.last).into_iter().enumerate() {
        if !broken.borrow().is_empty() {
            return;
        }
        let name = format!("{}-judge-{}", settings.name, at + 1);
        let (property, file) = (last.property, last.file);
        let (waiting, found) = (Rc::new(RefCell::new(Some(last.finally))), Rc::clone(broken));
        let is_done = Rc::new(std::cell::Cell::new(false));
        let ended = Rc::clone(&is_done);
        lab.simulation.process(ProcessSpec::new(name, last.machine), move |computer: Context| {
            let (finally, found, ended) = (waiting.borrow_mut().take(), Rc::clone(&found), Rc::clone(&ended));
            let (property, file) = (property.clone(), file.clone());
            async move {
                let Some(finally) = finally else { return };
                let judged = match computer.open("open", move || connect(file)).await {
                    Ok(lane) => lane.call("judge", finally).await,
                    Err(error) => Err(format!("the file cannot be opened: {error}")),
                };
                if let Err(how) = judged {
                    found.borrow_mut().push((property, how));
                }
                ended.set(true);
            }
        });
        lab.simulation.run_until(|| is_done.get());
    }
}

fn report(end: End, broken: &Rc<RefCell<Vec<Broken>>>) -> Ran {
    let panicked = end.processes.iter().find_map(|(name, ending)| match ending {
        Some(Ending::Panicked(text)) => Some((NO_PANIC.to_owned(), format!("{name} panics: {text}"))),
        _ => None,
    });
    let deviations = end.named_deviations();
    let processes: Vec<String> = end.processes.into_iter().map(|(name, _)| name).collect();
    // A panic is the cause of whatever else is wrong.
    let broken = panicked.or_else(|| broken.borrow().first().cloned());
    Ran { broken, deviations, events: end.events, processes }
}
