//! What a check's world is made of: machines, processes and properties.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use rusqlite::Connection;

use super::tables::Tables;
use crate::computer::{Context, LockEvent, MachineId, Observer, ProcessSpec, Simulation, Trace};
use crate::sqlite_file::Image;

/// How long after a kill a process starts again, in ms.
const RESTART_AFTER_MS: i64 = 100;

type Always = Box<dyn Fn(&Tables<'_>) -> Result<(), String>>;
type AtEnd = Box<dyn FnOnce() -> Result<(), String>>;
type Finally = Box<dyn FnOnce(&mut Connection) -> Result<(), String> + Send>;

/// A broken property: its name, and how.
pub(super) type Broken = (String, String);

/// A property that is held against every commit of a file.
struct Rule {
    machine: MachineId,
    file: String,
    property: String,
    always: Always,
}

/// A property that is held against a file when everything has ended.
pub(super) struct Last {
    pub(super) machine: MachineId,
    pub(super) file: String,
    pub(super) property: String,
    pub(super) finally: Finally,
}

/// A world being set up: what a check's `build` is given.
pub struct Lab {
    pub(super) simulation: Simulation,
    rules: Vec<Rule>,
    pub(super) last: Vec<Last>,
    pub(super) at_end: Vec<(String, AtEnd)>,
    pub(super) open: Rc<Cell<usize>>,
}

impl Lab {
    pub(super) fn new(simulation: Simulation) -> Self {
        Self { simulation, rules: Vec::new(), last: Vec::new(), at_end: Vec::new(), open: Rc::default() }
    }

    /// Adds a machine with an empty disk.
    pub fn machine(&mut self, name: &str) -> MachineId {
        self.simulation.machine(name)
    }

    /// Adds a process that must come to its end; after a kill it is started again, 100 ms later.
    pub fn process<F>(&mut self, machine: MachineId, name: &str, main: impl Fn(Context) -> F + 'static)
    where
        F: Future<Output = ()> + 'static,
    {
        self.open.set(self.open.get() + 1);
        let (open, main) = (Rc::clone(&self.open), Rc::new(main));
        self.simulation.process(spec(machine, name), move |context| {
            let (open, main) = (Rc::clone(&open), Rc::clone(&main));
            async move {
                let watched = context.clone();
                main(context).await;
                if watched.is_alive() {
                    open.set(open.get() - 1);
                }
            }
        });
    }

    /// Adds a process that serves the others and need not end.
    pub fn service<F>(&mut self, machine: MachineId, name: &str, main: impl Fn(Context) -> F + 'static)
    where
        F: Future<Output = ()> + 'static,
    {
        self.simulation.process(spec(machine, name), main);
    }

    /// A property that must hold after every commit of a database file; `Err` says how it is broken. Rows are read
    /// from the file's bytes: no connection is opened and no lock is taken.
    pub fn always(
        &mut self,
        machine: MachineId,
        file: &str,
        property: &str,
        always: impl Fn(&Tables<'_>) -> Result<(), String> + 'static,
    ) {
        let (file, property) = (file.to_owned(), property.to_owned());
        self.rules.push(Rule { machine, file, property, always: Box::new(always) });
    }

    /// A property that must hold when faults have stopped and all processes have ended; it is asked on a connection
    /// to the file.
    pub fn finally(
        &mut self,
        machine: MachineId,
        file: &str,
        property: &str,
        finally: impl FnOnce(&mut Connection) -> Result<(), String> + Send + 'static,
    ) {
        let (file, property) = (file.to_owned(), property.to_owned());
        self.last.push(Last { machine, file, property, finally: Box::new(finally) });
    }

    /// A property of what the test itself has collected, asked when everything has ended.
    pub fn at_end(&mut self, property: &str, at_end: impl FnOnce() -> Result<(), String> + 'static) {
        self.at_end.push((property.to_owned(), Box::new(at_end)));
    }

    /// Begins to hold the properties against commits; what is broken is put into `broken`.
    pub(super) fn watch(&mut self, broken: &Rc<RefCell<Vec<Broken>>>) {
        let rules = std::mem::take(&mut self.rules);
        self.simulation.observe(Watch { rules, broken: Rc::clone(broken) });
    }
}

fn spec(machine: MachineId, name: &str) -> ProcessSpec {
    ProcessSpec { restarts: u32::MAX, restart_after_ms: RESTART_AFTER_MS, ..ProcessSpec::new(name, machine) }
}

struct Watch {
    rules: Vec<Rule>,
    broken: Rc<RefCell<Vec<Broken>>>,
}

impl Observer for Watch {
    fn journal_retired(&mut self, event: &LockEvent<'_>, _trace: &mut Trace) {
        let of_file = |rule: &&Rule| rule.machine == event.machine && rule.file == event.file;
        for rule in self.rules.iter().filter(of_file) {
            let checked = match Image::new(event.image) {
                Ok(image) => (rule.always)(&Tables(image)),
                Err(malformed) => Err(format!("{} cannot be read: {malformed}", event.file)),
            };
            if let Err(how) = checked {
                self.broken.borrow_mut().push((rule.property.clone(), how));
            }
        }
    }
}
