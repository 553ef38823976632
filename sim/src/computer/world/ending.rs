//! How processes end before their time: told to, killed, or with their machine's power.

use super::super::disk::{EntryChange, Unsynced};
use super::super::observer::LockEvent;
use super::super::operation::Operation;
use super::parts::{Lane, Machine, Process};
use super::{LaneId, MachineId, ProcessId, State};
use crate::choice::{Kind, Offer, Phase, Point, Role, stable_hash};

impl State {
    /// Sends SIGTERM to a process.
    pub(in crate::computer) fn terminate(&mut self, process: ProcessId) {
        let signal = &mut self.processes[process].signal;
        if signal.came_us.is_some() || signal.waiting.is_empty() {
            return;
        }
        signal.came_us = Some(self.now_us);
        for waker in std::mem::take(&mut signal.waiting) {
            waker.wake();
        }
        self.struck.effective[Kind::Terminate as usize] += 1;
        self.note(Some(process), || "is told to end".to_owned());
    }

    /// Marks a process dead and releases its locks; its code is drained by the executor. Whoever kills says
    /// whether that was the effect of a fault.
    pub(in crate::computer) fn kill(&mut self, process: ProcessId) {
        if !self.processes[process].alive {
            return;
        }
        self.die(process, false);
        self.note(Some(process), || "is killed".to_owned());
    }

    pub(in crate::computer) fn die(&mut self, process: ProcessId, is_power_cut: bool) {
        self.drop_sockets(process, is_power_cut);
        let this = &mut self.processes[process];
        this.alive = false;
        this.stalled = None;
        this.deferred.clear();
        let machine = this.machine;
        let (handles, processes) = (&self.handles, &self.processes);
        self.machines[machine].disk.release_locks_of(|handle| {
            handles[handle].as_ref().is_none_or(|open| {
                let owner = &processes[open.process];
                !owner.alive || owner.incarnation != open.incarnation
            })
        });
        self.reap.push(process);
        self.trace.fold(0xdead ^ process as u64);
    }

    /// A machine loses power: its processes die, and what was not synced is lost or kept by choice.
    pub(in crate::computer) fn cut_power(&mut self, machine: MachineId) {
        let mut was_busy = false;
        for process in 0..self.processes.len() {
            if self.processes[process].machine == machine && self.processes[process].alive {
                was_busy |= self.lanes.iter().any(|lane| lane.process == process && lane.job.is_some());
                self.die(process, true);
            }
        }
        self.machines[machine].is_off = true;
        let name = self.machines[machine].name.clone();
        self.trace.note(self.now_us, &name, || "loses power".to_owned());
        let mut disk = std::mem::take(&mut self.machines[machine].disk);
        let hash = stable_hash(name.as_bytes());
        let witness = self.processes.iter().position(|p| p.machine == machine).unwrap_or(0);
        let incarnation = self.processes.get(witness).map_or(1, |p| p.incarnation);
        let mut scope = Operation::new("power", self.processes[witness].ordinals.next("power"), Phase::Power);
        let lost = disk.cut_power(|part| {
            let (role, detail) = match part {
                Unsynced::Entry(change) => (Role::Entry, entry_text(change)),
                Unsynced::Length => (Role::Length, String::new()),
                Unsynced::Sector => (Role::Sector, String::new()),
            };
            let count = scope.count(Phase::Power, role);
            let (operation, ordinal, phase) = (scope.label, scope.ordinal, Phase::Power);
            let process = witness;
            let process_hash = self.processes.get(witness).map_or(hash, |p| p.hash);
            let point = Point { process, process_hash, incarnation, operation, ordinal, phase, role, count };
            let is_kept = !self.decide(&point, &[Offer::plain(Kind::Keep)]).is_go();
            if role == Role::Entry {
                let fate = if is_kept { "survived" } else { "is lost" };
                self.trace.note(self.now_us, &name, || format!("unsynced: {detail} {fate}"));
            }
            is_kept
        });
        self.machines[machine].disk = disk;
        if lost > 0 || was_busy {
            self.struck.effective[Kind::PowerCut as usize] += 1;
        }
        self.trace.fold(0x0ff ^ lost as u64);
        self.power_cuts.push((machine, lost));
    }

    /// What an observer is told about a handle's file.
    pub(in crate::computer) fn lock_event<'a>(
        processes: &'a [Process],
        lanes: &[Lane],
        machines: &'a mut [Machine],
        now_us: i64,
        lane: LaneId,
        (machine, name): (MachineId, &'a str),
    ) -> LockEvent<'a> {
        let process = lanes[lane].process;
        LockEvent {
            at_us: now_us,
            process,
            process_name: &processes[process].name,
            lane,
            operation: lanes[lane].operation.label,
            machine,
            file: name,
            image: machines[machine].disk.read(name).unwrap_or_default(),
        }
    }
}

fn entry_text(change: &EntryChange) -> String {
    match change {
        EntryChange::Create(name, _) => format!("the creation of {name}"),
        EntryChange::Delete(name, _) => format!("the deletion of {name}"),
    }
}
