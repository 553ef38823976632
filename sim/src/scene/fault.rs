//! The simulated [`Fault`] port: every hook is a choice.

use ackward::port::{Fault, FaultPoint, Injected};

use crate::computer::current;

/// Hooks of the process that runs on this thread.
#[derive(Debug, Clone, Copy, Default)]
pub struct SimFault;

impl Fault for SimFault {
    fn at(&mut self, point: FaultPoint) -> Result<(), Injected> {
        match current() {
            Some(world) if !world.hook(point) => Err(Injected("a fault was injected at this hook".into())),
            _ => Ok(()),
        }
    }
}
