//! The one place where choices are made: each point asks the chooser, and what it decides is done to the process there.

use super::parts::Verdict;
use super::{LaneId, ProcessId, State};
use crate::choice::{Decision, Kind, Offer, Phase, Point, Role};

impl State {
    /// The choice at a call into the operating system. `offers` are the errors that this call can meet.
    pub(in crate::computer) fn vfs_call(&mut self, role: Role, errors: &[Kind], detail: u64) -> Verdict {
        self.vfs_calls += 1;
        let Some(lane) = self.current_lane else { return Verdict::Fail(Kind::IoError) };
        if !self.lane_is_alive(lane) {
            return Verdict::Fail(Kind::Kill);
        }
        self.trace.fold(
            ((role as u64) << 56) ^ ((lane as u64) << 40) ^ detail ^ (self.now_us as u64).rotate_left(20),
        );
        if std::thread::panicking() {
            return Verdict::Go;
        }
        let Some(decision) = self.choose_in_lane(lane, role, errors) else { return Verdict::Go };
        self.apply_in_lane(lane, decision)
    }

    pub(super) fn choose_in_lane(&mut self, lane: LaneId, role: Role, errors: &[Kind]) -> Option<Decision> {
        let point = self.armed_point(lane, role)?;
        let process = point.process;
        let mut offers = std::mem::take(&mut self.offers);
        offers.clear();
        self.offer_switches(process, Kind::Switch, &mut offers);
        let (low, high) = self.options.stall_ms;
        offers.push(Offer { kind: Kind::Stall, low, high });
        offers.extend(errors.iter().map(|kind| Offer::plain(*kind)));
        offers.push(Offer::plain(Kind::Kill));
        offers.push(Offer::plain(Kind::PowerCut));
        self.offer_terminate(process, &mut offers);
        let decision = self.decide(&point, &offers);
        self.offers = offers;
        (!decision.is_go()).then_some(decision)
    }

    pub(super) fn hook(&mut self, role: Role) -> Verdict {
        let Some(lane) = self.current_lane else { return self.hook_of_process(role) };
        if !self.lane_is_alive(lane) {
            return Verdict::Fail(Kind::Kill);
        }
        let Some(point) = self.armed_point(lane, role) else { return Verdict::Go };
        let offers = [Offer::plain(Kind::HookKill), Offer::plain(Kind::HookError)];
        let decision = self.decide(&point, &offers);
        self.hooked(self.lanes[lane].process, decision)
    }

    /// A hook outside of SQLite: a process that is killed here goes on, without effect, to its next wait.
    pub(super) fn hook_of_process(&mut self, role: Role) -> Verdict {
        let process = self.current_process;
        let offers = [Offer::plain(Kind::HookKill), Offer::plain(Kind::HookError)];
        let decision = self.choose_in_process(process, Phase::Wait, role, &offers);
        self.hooked(process, decision)
    }

    pub(super) fn hooked(&mut self, process: ProcessId, decision: Decision) -> Verdict {
        match decision.kind {
            Kind::HookKill => {
                self.struck.effective[Kind::HookKill as usize] += 1;
                self.kill(process);
                Verdict::Suspend
            }
            Kind::HookError => {
                self.struck.effective[Kind::HookError as usize] += 1;
                Verdict::Fail(Kind::HookError)
            }
            _ => Verdict::Go,
        }
    }

    /// The point of a call, where a choice is possible there; listed where calls are.
    pub(super) fn armed_point(&mut self, lane: LaneId, role: Role) -> Option<Point> {
        let (is_armed, lists_calls) = (self.is_armed(), self.trace.lists_calls());
        if !is_armed && !lists_calls {
            return None;
        }
        let phase = self.lanes[lane].operation.phase;
        let point = self.point_of_lane(lane, phase, role);
        if lists_calls {
            let at = point.name(&self.processes[point.process].name);
            self.note(Some(point.process), || format!("-- {at}"));
        }
        is_armed.then_some(point)
    }

    pub(super) fn point_of_lane(&mut self, lane: LaneId, phase: Phase, role: Role) -> Point {
        let operation = &mut self.lanes[lane].operation;
        let (label, ordinal) = (operation.label, operation.ordinal);
        let count = operation.count(phase, role);
        let process = self.lanes[lane].process;
        let (process_hash, incarnation) = (self.processes[process].hash, self.processes[process].incarnation);
        Point { process, process_hash, incarnation, operation: label, ordinal, phase, role, count }
    }

    /// Offers each other process that is ready to run.
    pub(super) fn offer_switches(&self, process: ProcessId, kind: Kind, offers: &mut Vec<Offer>) {
        if self.hosts.is_some() {
            // Each runs in its host's turn.
            return;
        }
        for runnable in &self.ready {
            let other = self.process_of(*runnable) as i64;
            let known = offers.iter().any(|offer| offer.kind == kind && offer.low == other);
            if other != process as i64 && !known {
                offers.push(Offer::of(kind, other));
            }
        }
    }

    /// Offers SIGTERM to a process that listens and has not had it.
    pub(in crate::computer) fn offer_terminate(&self, process: ProcessId, offers: &mut Vec<Offer>) {
        let signal = &self.processes[process].signal;
        if signal.came_us.is_none() && !signal.waiting.is_empty() {
            offers.push(Offer::plain(Kind::Terminate));
        }
    }

    pub(super) fn apply_in_lane(&mut self, lane: LaneId, decision: Decision) -> Verdict {
        let process = self.lanes[lane].process;
        match decision.kind {
            Kind::Switch => {
                self.queue_lane(lane);
                self.run_first(usize::try_from(decision.value).unwrap_or(process));
                self.struck.effective[Kind::Switch as usize] += 1;
                Verdict::Suspend
            }
            Kind::Stall => {
                self.stall(process, decision.value);
                self.queue_lane(lane);
                Verdict::Suspend
            }
            Kind::Kill => {
                // In the middle of an operation: its work is unfinished.
                self.struck.effective[Kind::Kill as usize] += 1;
                self.kill(process);
                Verdict::Suspend
            }
            Kind::PowerCut => {
                self.cut_power(self.processes[process].machine);
                Verdict::Suspend
            }
            Kind::Terminate => {
                self.terminate(process);
                Verdict::Go
            }
            kind => {
                self.lanes[lane].injected.push(kind);
                Verdict::Fail(kind)
            }
        }
    }

    pub(in crate::computer) fn choose_in_process(
        &mut self,
        process: ProcessId,
        phase: Phase,
        role: Role,
        offers: &[Offer],
    ) -> Decision {
        if !self.is_armed() || !self.processes[process].alive {
            return Decision::GO;
        }
        let point = self.point_of_process(process, phase, role);
        self.decide(&point, offers)
    }

    pub(super) fn point_of_process(&mut self, process: ProcessId, phase: Phase, role: Role) -> Point {
        let this = &mut self.processes[process];
        let count = this.scope.count(phase, role);
        let (process_hash, incarnation) = (this.hash, this.incarnation);
        let (operation, ordinal) = (this.scope.label, this.scope.ordinal);
        Point { process, process_hash, incarnation, operation, ordinal, phase, role, count }
    }

    pub(super) fn is_armed(&self) -> bool {
        self.now_us < self.options.faults_until_us && self.chooser.is_armed()
    }

    pub(super) fn decide(&mut self, point: &Point, offers: &[Offer]) -> Decision {
        if offers.is_empty() {
            return Decision::GO;
        }
        let decision = self.chooser.choose(point, offers);
        if !decision.is_go() {
            self.struck.chosen[decision.kind as usize] += 1;
            self.deviations.push((*point, decision));
            self.trace.fold(point.key() ^ ((decision.kind as u64) << 48) ^ decision.value as u64);
            if self.tells(decision.kind) {
                let name = |id: usize| self.processes.get(id).map(|p| p.name.clone()).unwrap_or_default();
                let action = crate::choice::Action::from_decision(decision, name);
                let at = point.name(&self.processes[point.process].name);
                self.note(Some(point.process), || format!("!! {action} at {at}"));
            }
        }
        decision
    }

    /// Whether a decision belongs into the story: who runs next fills pages, and is told with the calls only.
    pub(super) fn tells(&self, kind: Kind) -> bool {
        let is_scheduling = matches!(kind, Kind::Switch | Kind::Pick);
        self.trace.is_recording() && (!is_scheduling || self.trace.lists_calls())
    }
}
