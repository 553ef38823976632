//! Children that share out a list of tasks: whoever is free takes the next one. What comes of a task depends on the
//! task alone, so that the number of children changes nothing but the time.

use std::collections::VecDeque;
use std::sync::{Mutex, mpsc};

use super::child::Child;
use super::interrupt::Interrupt;
use super::lock;
use super::pool::Watch;

/// Places for children, which live on from one list to the next.
pub(crate) struct Crew {
    places: Vec<Option<Child>>,
    interrupt: Interrupt,
}

/// A list under way.
struct Shift<'a, T, W, D, L> {
    tasks: Mutex<VecDeque<T>>,
    /// Has a child do a task; an error says how it came to nothing.
    work: W,
    /// Hears what came of it.
    done: D,
    /// Whether nobody wants this task, nor those after it.
    is_late: L,
    watch: Watch,
    interrupt: &'a Interrupt,
}

impl Crew {
    /// A crew of `jobs` children, started when they are needed; an interrupt ends them.
    pub(crate) fn new(jobs: usize, interrupt: Interrupt) -> Self {
        Self { places: (0..jobs.max(1)).map(|_| None).collect(), interrupt }
    }

    /// Has every task done, begun in their order: until one is late, or until an interrupt, which leaves those under
    /// way undone, too.
    ///
    /// # Errors
    /// A child cannot be started, or it died: how, in the words of `work`.
    pub(crate) fn share<T: Send, R>(
        &mut self,
        tasks: impl IntoIterator<Item = T>,
        work: impl Fn(&mut Child, &T) -> Result<R, String> + Sync,
        done: impl Fn(T, R) + Sync,
        is_late: impl Fn(&T) -> bool + Sync,
    ) -> anyhow::Result<()> {
        let tasks = Mutex::new(tasks.into_iter().collect());
        let watch = Watch::new(self.places.len());
        let shift = Shift { tasks, work, done, is_late, watch, interrupt: &self.interrupt };
        let (present, gone) = mpsc::channel::<()>();
        std::thread::scope(|scope| {
            let shift = &shift;
            scope.spawn(move || shift.watch.stand(None, shift.interrupt, &gone));
            // The watch leaves when nobody is present any more.
            let begin = |(at, place), present: mpsc::Sender<()>| {
                scope.spawn(move || {
                    let worked = shift.work(at, place);
                    drop(present);
                    worked
                })
            };
            let places = self.places.iter_mut().enumerate();
            let threads: Vec<_> = places.map(|place| begin(place, present.clone())).collect();
            drop(present);
            threads.into_iter().try_for_each(|thread| {
                thread.join().unwrap_or_else(|_| Err(anyhow::anyhow!("a thread of the crew panicked")))
            })
        })
    }
}

impl<T, R, W, D, L> Shift<'_, T, W, D, L>
where
    W: Fn(&mut Child, &T) -> Result<R, String>,
    D: Fn(T, R),
    L: Fn(&T) -> bool,
{
    fn work(&self, at: usize, place: &mut Option<Child>) -> anyhow::Result<()> {
        while self.interrupt.goes_on() {
            let Some(task) = lock(&self.tasks).pop_front().filter(|task| !(self.is_late)(task)) else {
                break;
            };
            let mut child = match place.take() {
                Some(child) => child,
                None => Child::spawn()?,
            };
            match self.watch.during(at, &mut child, |child| (self.work)(child, &task)) {
                Ok(result) => {
                    *place = (!self.watch.is_over()).then_some(child);
                    (self.done)(task, result);
                }
                Err(_) if self.watch.is_over() => break,
                Err(how) => return Err(anyhow::Error::msg(how)),
            }
        }
        Ok(())
    }
}
