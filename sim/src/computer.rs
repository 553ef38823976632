//! The simulated computer: machines with disks, processes that can be stopped, killed or lose power at any
//! call into the operating system, and virtual time. It knows nothing of any queue: SQLite runs on it
//! unmodified, through a VFS named [`VFS_NAME`], and any code over rusqlite connections can be its program. Its
//! processes run on a discrete-event executor with a network of its own, or on turmoil's hosts ([`TurmoilOptions`]).

mod disk;
mod ffi;
mod lock;
mod meter;
mod network;
mod observer;
mod operation;
mod process;
mod simulation;
mod steps;
mod stream;
mod trace;
mod turmoil_arm;
mod vfs;
mod world;

pub use disk::{Disk, SECTOR_BYTES};
pub use ffi::VFS_NAME;
pub use meter::{Measured, measure};
pub use observer::{LockEvent, Observer};
pub use process::{Context, ProcessClock, ProcessSpec, SimLane};
pub(crate) use simulation::named;
pub use simulation::{EPOCH_MS, End, Simulation, SimulationOptions};
pub use stream::{SimListener, SimStream};
pub use trace::{Event, Recording, Trace};
pub use turmoil_arm::{TICK_MS, TurmoilOptions};
pub use world::{Ending, MachineId, ProcessId, Struck, World, current};
