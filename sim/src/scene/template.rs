//! Empty database files, made once per thread on a simulated computer and copied into every run.

use std::cell::OnceCell;
use std::path::Path;
use std::rc::Rc;

use ackward::port::{Blocking, Lane};
use ackward::storage::{Durability, Inbox, OpenOptions, Queue, StorageError};

use super::{INBOX_FILE, QUEUE_FILE};
use crate::choice::Nothing;
use crate::computer::{ProcessSpec, Simulation, SimulationOptions, VFS_NAME};

/// The bytes of files that have just been created.
#[derive(Debug)]
pub(super) struct Templates {
    pub(super) queue: Vec<u8>,
    pub(super) inbox: Vec<u8>,
}

thread_local! {
    static TEMPLATES: OnceCell<Rc<Templates>> = const { OnceCell::new() };
}

pub(super) fn templates() -> Rc<Templates> {
    TEMPLATES.with(|cell| {
        Rc::clone(cell.get_or_init(|| {
            let options = OpenOptions::new(Durability::Extra).vfs(VFS_NAME);
            let (queue, inbox) = (options.clone(), options);
            Rc::new(Templates {
                queue: create(QUEUE_FILE, move || Queue::open(Path::new(QUEUE_FILE), &queue)),
                inbox: create(INBOX_FILE, move || Inbox::open(Path::new(INBOX_FILE), &inbox)),
            })
        }))
    })
}

fn create<T: 'static>(
    file: &'static str,
    open: impl FnOnce() -> Result<T, StorageError> + Send + Clone + 'static,
) -> Vec<u8> {
    let mut simulation = Simulation::new(SimulationOptions::default(), Nothing);
    let machine = simulation.machine("workshop");
    simulation.process(ProcessSpec::new("creator", machine), move |context| {
        let open = open.clone();
        async move {
            let lane = context.open("open", open).await.expect("an empty disk takes a new file");
            lane.close().await;
        }
    });
    simulation.run_until(|| false);
    let content = simulation.read(machine, file).expect("the file was created");
    let end = simulation.finish(false);
    debug_assert!(end.deviations.is_empty());
    content
}
