//! A simulated process as its program sees it: clock, threads and faults, all through the ports.

use std::any::Any;
use std::cell::RefCell;
use std::future::{Future, pending, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Duration;

use ackward::port::{Blocking, Clock, Lane};
use ackward::rules::{Invalid, Millis};

use super::world::{LaneId, MachineId, ProcessId, Timer, World, current};
use crate::choice::{Kind, Offer, Phase, Role};

/// A process's program: called anew at each start.
pub(super) type Main = Rc<dyn Fn(Context) -> Pin<Box<dyn Future<Output = ()>>>>;

/// What a process is, besides its program.
#[derive(Debug, Clone)]
pub struct ProcessSpec {
    /// Its name, unique in the run.
    pub name: String,
    /// Where it runs.
    pub machine: MachineId,
    /// How far its clock is ahead of the true time, in ms; may be negative.
    pub clock_skew_ms: i64,
    /// How often it is started again after it died.
    pub restarts: u32,
    /// How long that takes, in ms.
    pub restart_after_ms: i64,
}

impl ProcessSpec {
    /// A process with a true clock that is never started again.
    #[must_use]
    pub fn new(name: impl Into<String>, machine: MachineId) -> Self {
        Self { name: name.into(), machine, clock_skew_ms: 0, restarts: 0, restart_after_ms: 0 }
    }
}

/// A running process's access to its world; implements the ports.
#[derive(Clone)]
pub struct Context {
    pub(super) world: Rc<World>,
    /// The process's number.
    pub process: ProcessId,
    /// How often it was started, from 1.
    pub incarnation: u32,
}

impl Context {
    /// The world.
    #[must_use]
    pub fn world(&self) -> &Rc<World> {
        &self.world
    }

    /// Whether this incarnation still lives.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        let state = self.world.state.borrow();
        let process = &state.processes[self.process];
        process.alive && process.incarnation == self.incarnation
    }

    /// Waits on the true time, whatever the process's clock says.
    pub async fn sleep_us(&self, duration_us: i64) {
        if !self.is_alive() {
            pending::<()>().await;
        }
        let at_us = self.world.state.borrow().now_us + duration_us.max(0);
        Sleep { context: self.clone(), at_us, key: None }.await;
    }
}

impl Context {
    /// Completes when this process is told to end (SIGTERM). A process that waits for this can be told to.
    pub async fn terminated(&self) {
        poll_fn(|cx| {
            let mut state = self.world.state.borrow_mut();
            let this = &mut state.processes[self.process];
            if this.incarnation != self.incarnation || this.signal.came_us.is_none() {
                if !this.signal.waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
                    this.signal.waiting.push(cx.waker().clone());
                }
                return Poll::Pending;
            }
            Poll::Ready(())
        })
        .await;
    }

    /// Since when this process is told to end, in microseconds of virtual time.
    #[must_use]
    pub fn terminated_at_us(&self) -> Option<i64> {
        self.world.state.borrow().processes[self.process].signal.came_us
    }
}

struct Sleep {
    context: Context,
    at_us: i64,
    key: Option<(i64, u64)>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> Poll<()> {
        let world = Rc::clone(&self.context.world);
        let mut state = world.state.borrow_mut();
        if state.now_us >= self.at_us {
            return Poll::Ready(());
        }
        if let Some(key) = self.key.take() {
            state.timers.remove(&key);
        }
        self.key = Some(state.add_timer(self.at_us, Timer::Wake(cx.waker().clone())));
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let (Some(key), Ok(mut state)) = (self.key, self.context.world.state.try_borrow_mut()) {
            state.timers.remove(&key);
        }
    }
}

impl Clock for Context {
    fn now(&self) -> Result<Millis, Invalid> {
        let (low, high) = self.world.state.borrow().options.clock_jump_ms;
        let jump = self.world.choose(Phase::Wait, Role::Now, &[Offer { kind: Kind::ClockJump, low, high }]);
        let mut state = self.world.state.borrow_mut();
        if !jump.is_go() {
            state.processes[self.process].skew_us += jump.value * 1_000;
            state.struck.effective[Kind::ClockJump as usize] += 1;
        }
        Millis::new(state.clock_ms(self.process))
    }

    async fn sleep(&self, duration: Duration) {
        self.sleep_us(i64::try_from(duration.as_micros()).unwrap_or(i64::MAX / 4)).await;
    }
}

/// The clock of a simulated process, for code that must be able to move between threads: it finds its world on
/// whichever thread runs it.
#[derive(Debug, Clone, Copy)]
pub struct ProcessClock {
    process: ProcessId,
    incarnation: u32,
}

impl Context {
    /// This process's clock.
    #[must_use]
    pub const fn clock(&self) -> ProcessClock {
        ProcessClock { process: self.process, incarnation: self.incarnation }
    }
}

impl ProcessClock {
    fn context(self) -> Option<Context> {
        Some(Context { world: current()?, process: self.process, incarnation: self.incarnation })
    }
}

impl Clock for ProcessClock {
    fn now(&self) -> Result<Millis, Invalid> {
        let outside = || Invalid::new("clock", "none", "one, inside a simulation");
        self.context().ok_or_else(outside)?.now()
    }

    async fn sleep(&self, duration: Duration) {
        match self.context() {
            Some(context) => context.sleep(duration).await,
            None => pending().await,
        }
    }
}

/// A lane of a simulated process: a coroutine that can be suspended anywhere inside SQLite.
pub struct SimLane<R: 'static> {
    context: Context,
    lane: LaneId,
    resource: Rc<RefCell<Option<R>>>,
    closed: bool,
}

impl Blocking for Context {
    type Lane<R: 'static> = SimLane<R>;

    async fn open<R, E, F>(&self, label: &'static str, open: F) -> Result<SimLane<R>, E>
    where
        R: 'static,
        E: Send + 'static,
        F: FnOnce() -> Result<R, E> + Send + 'static,
    {
        let lane = self.world.state.borrow_mut().add_lane(self.process);
        let lane = SimLane { context: self.clone(), lane, resource: Rc::default(), closed: false };
        let resource = Rc::clone(&lane.resource);
        let opened = lane.run(label, move || open().map(|opened| drop(resource.replace(Some(opened))))).await;
        opened.map(|()| lane)
    }
}

impl<R: 'static> Lane<R> for SimLane<R> {
    async fn call<T, F>(&self, label: &'static str, job: F) -> T
    where
        T: Send + 'static,
        F: FnOnce(&mut R) -> T + Send + 'static,
    {
        let slot = Rc::clone(&self.resource);
        self.run(label, move || {
            // Taken out, since the job may be suspended while it has it.
            let mut resource = slot.take();
            let result = resource.as_mut().map(|resource| catch_unwind(AssertUnwindSafe(|| job(resource))));
            slot.replace(resource);
            match result {
                Some(Ok(result)) => result,
                Some(Err(panic)) => resume_unwind(panic),
                None => unreachable!("a lane exists only once its resource is open"),
            }
        })
        .await
    }

    async fn close(mut self) {
        self.closed = true;
        let resource = Rc::clone(&self.resource);
        self.run("close", move || drop(resource.take())).await;
    }
}

impl<R: 'static> SimLane<R> {
    /// Runs a body on the lane and waits for its result; a panic goes on unwinding in the caller.
    async fn run<T: 'static>(&self, label: &'static str, body: impl FnOnce() -> T + 'static) -> T {
        type Outcome<T> = (Option<Result<T, Box<dyn Any + Send>>>, Option<Waker>);
        if !self.context.is_alive() {
            pending::<()>().await;
        }
        let slot: Rc<RefCell<Outcome<T>>> = Rc::new(RefCell::new((None, None)));
        let filled = Rc::clone(&slot);
        let job = Box::new(move || {
            let result = catch_unwind(AssertUnwindSafe(body));
            let waker = {
                let mut slot = filled.borrow_mut();
                slot.0 = Some(result);
                slot.1.take()
            };
            if let Some(waker) = waker {
                waker.wake();
            }
        });
        self.context.world.state.borrow_mut().submit(self.lane, label, job);
        let result = poll_fn(|cx| {
            let mut slot = slot.borrow_mut();
            let Some(result) = slot.0.take() else {
                slot.1 = Some(cx.waker().clone());
                return Poll::Pending;
            };
            Poll::Ready(result)
        })
        .await;
        result.unwrap_or_else(|panic| resume_unwind(panic))
    }
}

impl<R: 'static> Drop for SimLane<R> {
    fn drop(&mut self) {
        // The job under way runs to its end, then the resource is closed behind it, on the lane. A dead
        // process has nothing to close: its locks are gone, and its handles go with the drained code.
        if self.closed || !self.context.is_alive() {
            return;
        }
        let resource = Rc::clone(&self.resource);
        let close = Box::new(move || drop(resource.take()));
        self.context.world.state.borrow_mut().submit(self.lane, "close", close);
    }
}
