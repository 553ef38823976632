//! The operating system as SQLite sees it: each call is a point where the run can go otherwise.

use std::ffi::c_int;
use std::rc::Rc;

use rusqlite::ffi as sqlite;

use super::ffi;
use super::lock::{Handle, Level};
use super::world::{LaneId, MachineId, OpenFile, State, Timer, Verdict, World, current};
use crate::choice::{Kind, Phase, Role};

/// Errors that a call can meet besides being suspended or killed.
const NONE: &[Kind] = &[];
const IO: &[Kind] = &[Kind::IoError];
const IO_OR_FULL: &[Kind] = &[Kind::IoError, Kind::DiskFull];
const SYNC: &[Kind] = &[Kind::FsyncError];

/// Ends of names of files that go with a database.
const JOURNAL: &str = "-journal";

pub(super) fn open(name: Option<&str>, flags: c_int) -> Result<Handle, c_int> {
    let creates = flags & sqlite::SQLITE_OPEN_CREATE != 0;
    let is_journal = flags & sqlite::SQLITE_OPEN_MAIN_JOURNAL != 0;
    let is_database = flags & sqlite::SQLITE_OPEN_MAIN_DB != 0;
    let role = match () {
        () if is_journal => Role::JournalOpen,
        () if is_database => Role::DbOpen,
        () => Role::Other,
    };
    let errors = if creates { IO_OR_FULL } else { IO };
    let world = enter(role, errors, flags.unsigned_abs().into(), sqlite::SQLITE_CANTOPEN)?;
    let mut state = world.state.borrow_mut();
    let state = &mut *state;
    let lane = state.current_lane.ok_or(sqlite::SQLITE_CANTOPEN)?;
    let process = state.lanes[lane].process;
    let machine = state.processes[process].machine;
    let disk = &mut state.machines[machine].disk;
    let file = match name {
        None => disk.create_unnamed(),
        Some(name) => match disk.find(name) {
            Some(file) => file,
            None if creates => disk.create(name),
            None => return Err(sqlite::SQLITE_CANTOPEN),
        },
    };
    // As in the unix VFS, the flag decides and not what was found: a journal that a killed process left behind
    // may have an entry that was never synced.
    let is_new = is_journal && creates;
    disk.file(file).handles += 1;
    let incarnation = state.processes[process].incarnation;
    let name = Rc::from(name.unwrap_or_default());
    let open = OpenFile { process, incarnation, lane, machine, file, name, is_journal, is_database, is_new };
    let free = state.handles.iter().position(Option::is_none);
    let handle = free.unwrap_or(state.handles.len());
    if handle == state.handles.len() {
        state.handles.push(None);
    }
    state.handles[handle] = Some(open);
    Ok(handle)
}

pub(super) fn close(handle: Handle) {
    let Some(world) = current() else { return };
    let mut state = world.state.borrow_mut();
    let Some(open) = state.handles.get_mut(handle).and_then(Option::take) else { return };
    let file = state.machines[open.machine].disk.file(open.file);
    file.handles = file.handles.saturating_sub(1);
    file.lock.lower(handle, Level::None);
}

pub(super) fn read(handle: Handle, offset: usize, into: &mut [u8]) -> Result<(), c_int> {
    let role = role_of(handle, Role::DbRead, Role::JournalRead);
    let world = enter(role, IO, offset as u64, sqlite::SQLITE_IOERR_READ)?;
    let mut state = world.state.borrow_mut();
    let (state, open) = state.file(handle).ok_or(sqlite::SQLITE_IOERR_READ)?;
    if state.machines[open.0].disk.file(open.1).read(offset, into) {
        Ok(())
    } else {
        Err(sqlite::SQLITE_IOERR_SHORT_READ)
    }
}

pub(super) fn write(handle: Handle, offset: usize, bytes: &[u8]) -> Result<(), c_int> {
    let role = role_of(handle, Role::DbWrite, Role::JournalWrite);
    let world = enter(role, IO_OR_FULL, offset as u64, sqlite::SQLITE_IOERR_WRITE)?;
    let mut state = world.state.borrow_mut();
    let (state, open) = state.file(handle).ok_or(sqlite::SQLITE_IOERR_WRITE)?;
    state.trace.fold_bytes(bytes);
    state.machines[open.0].disk.file(open.1).write(offset, bytes);
    Ok(())
}

pub(super) fn truncate(handle: Handle, size: usize) -> Result<(), c_int> {
    let role = role_of(handle, Role::DbTruncate, Role::JournalTruncate);
    let world = enter(role, IO_OR_FULL, size as u64, sqlite::SQLITE_IOERR_TRUNCATE)?;
    let mut state = world.state.borrow_mut();
    let (state, open) = state.file(handle).ok_or(sqlite::SQLITE_IOERR_TRUNCATE)?;
    state.machines[open.0].disk.file(open.1).truncate(size);
    Ok(())
}

/// fsync. As the unix VFS does, the first sync of a journal opened for writing a new one also syncs the directory, and
/// an error of that second sync is not reported. Nothing built on SQLite can survive such an error, so none is
/// offered there.
pub(super) fn sync(handle: Handle) -> Result<(), c_int> {
    let is_journal = role_of(handle, Role::DbSync, Role::JournalSync);
    if is_journal == Role::JournalSync {
        set_phase(Phase::Commit);
    }
    let result = enter(is_journal, SYNC, 0, sqlite::SQLITE_IOERR_FSYNC);
    let world = current().ok_or(sqlite::SQLITE_IOERR_FSYNC)?;
    {
        let mut state = world.state.borrow_mut();
        let (state, open) = state.file(handle).ok_or(sqlite::SQLITE_IOERR_FSYNC)?;
        let file = state.machines[open.0].disk.file(open.1);
        match &result {
            Ok(_) => file.sync(),
            Err(_) => file.fail_sync(),
        }
    }
    result?;
    let is_new = {
        let mut state = world.state.borrow_mut();
        let open = state.handles.get_mut(handle).and_then(Option::as_mut);
        open.is_some_and(|open| open.is_journal && std::mem::take(&mut open.is_new))
    };
    if is_new
        && let Err(code) = sync_directory_of(handle)
        && code != sqlite::SQLITE_IOERR_DIR_FSYNC
    {
        return Err(code);
    }
    Ok(())
}

fn sync_directory_of(handle: Handle) -> Result<(), c_int> {
    let world = current().ok_or(sqlite::SQLITE_IOERR)?;
    let machine = world.state.borrow_mut().file(handle).ok_or(sqlite::SQLITE_IOERR)?.1.0;
    sync_directory(machine, NONE)
}

fn sync_directory(machine: MachineId, errors: &[Kind]) -> Result<(), c_int> {
    let result = enter(Role::DirSync, errors, 0, sqlite::SQLITE_IOERR_DIR_FSYNC);
    let world = current().ok_or(sqlite::SQLITE_IOERR)?;
    if !world.is_alive() {
        return Err(sqlite::SQLITE_IOERR);
    }
    let mut state = world.state.borrow_mut();
    let disk = &mut state.machines[machine].disk;
    match &result {
        Ok(_) => disk.sync_directory(),
        Err(_) => disk.fail_directory_sync(),
    }
    result.map(drop)
}

pub(super) fn size(handle: Handle) -> Result<usize, c_int> {
    let role = role_of(handle, Role::DbSize, Role::JournalSize);
    let world = enter(role, IO, 0, sqlite::SQLITE_IOERR_FSTAT)?;
    let mut state = world.state.borrow_mut();
    let (state, open) = state.file(handle).ok_or(sqlite::SQLITE_IOERR_FSTAT)?;
    Ok(state.machines[open.0].disk.file(open.1).len())
}

pub(super) fn lock(handle: Handle, level: c_int) -> Result<(), c_int> {
    let (level, role) = match level {
        sqlite::SQLITE_LOCK_SHARED => (Level::Shared, Role::DbLockShared),
        sqlite::SQLITE_LOCK_RESERVED => (Level::Reserved, Role::DbLockReserved),
        sqlite::SQLITE_LOCK_PENDING => (Level::Pending, Role::DbLockExclusive),
        sqlite::SQLITE_LOCK_EXCLUSIVE => (Level::Exclusive, Role::DbLockExclusive),
        _ => return Ok(()),
    };
    if level == Level::Exclusive {
        set_phase(Phase::Commit);
    }
    let world = enter(role, IO, 0, sqlite::SQLITE_IOERR_LOCK)?;
    let granted = {
        let mut state = world.state.borrow_mut();
        let (state, open) = state.file(handle).ok_or(sqlite::SQLITE_IOERR_LOCK)?;
        let granted = state.machines[open.0].disk.file(open.1).lock.raise(handle, level);
        state.trace.fold(u64::from(granted) | 0x10c0);
        if !granted {
            let lane = state.current_lane;
            let process = lane.map(|lane| state.lanes[lane].process);
            state.note(process, || format!("finds the file locked ({})", role.as_str()));
        }
        granted
    };
    if !granted {
        return Err(sqlite::SQLITE_BUSY);
    }
    if level == Level::Reserved {
        set_phase(Phase::Write);
        observe(&world, handle, Seen::WriteLocked);
    }
    Ok(())
}

pub(super) fn unlock(handle: Handle, level: c_int) -> Result<(), c_int> {
    let world = enter(Role::DbUnlock, NONE, level.unsigned_abs().into(), sqlite::SQLITE_IOERR_UNLOCK)?;
    let to = if level == sqlite::SQLITE_LOCK_SHARED { Level::Shared } else { Level::None };
    let was = {
        let mut state = world.state.borrow_mut();
        let (state, open) = state.file(handle).ok_or(sqlite::SQLITE_IOERR_UNLOCK)?;
        state.machines[open.0].disk.file(open.1).lock.level(handle)
    };
    if was >= Level::Reserved {
        observe(&world, handle, Seen::Unlocked);
    }
    let mut state = world.state.borrow_mut();
    let (state, open) = state.file(handle).ok_or(sqlite::SQLITE_IOERR_UNLOCK)?;
    state.machines[open.0].disk.file(open.1).lock.lower(handle, to);
    Ok(())
}

pub(super) fn check_reserved(handle: Handle) -> Result<bool, c_int> {
    let world = enter(Role::DbCheckReserved, IO, 0, sqlite::SQLITE_IOERR_CHECKRESERVEDLOCK)?;
    let mut state = world.state.borrow_mut();
    let (state, open) = state.file(handle).ok_or(sqlite::SQLITE_IOERR_CHECKRESERVEDLOCK)?;
    Ok(state.machines[open.0].disk.file(open.1).lock.is_reserved())
}

pub(super) fn delete(name: &str, sync_dir: bool) -> Result<(), c_int> {
    let is_journal = name.ends_with(JOURNAL);
    let role = if is_journal { Role::JournalDelete } else { Role::DbDelete };
    let world = enter(role, IO, u64::from(sync_dir), sqlite::SQLITE_IOERR_DELETE)?;
    let machine = {
        let mut state = world.state.borrow_mut();
        let lane = state.current_lane.ok_or(sqlite::SQLITE_IOERR_DELETE)?;
        let machine = state.processes[state.lanes[lane].process].machine;
        if !state.machines[machine].disk.delete(name) {
            return Err(sqlite::SQLITE_IOERR_DELETE_NOENT);
        }
        machine
    };
    if let Some(database) = name.strip_suffix(JOURNAL) {
        set_phase(Phase::End);
        observe_file(&world, (machine, database), Seen::JournalRetired);
    }
    if sync_dir { sync_directory(machine, SYNC) } else { Ok(()) }
}

pub(super) fn access(name: &str) -> Result<bool, c_int> {
    let role = if name.ends_with(JOURNAL) { Role::JournalAccess } else { Role::DbAccess };
    let world = enter(role, IO, 0, sqlite::SQLITE_IOERR_ACCESS)?;
    let state = world.state.borrow();
    let lane = state.current_lane.ok_or(sqlite::SQLITE_IOERR_ACCESS)?;
    let machine = state.processes[state.lanes[lane].process].machine;
    Ok(state.machines[machine].disk.find(name).is_some())
}

/// SQLite's busy handler waits: other processes run meanwhile.
pub(super) fn sleep(microseconds: i64) {
    if enter(Role::Sleep, NONE, microseconds.unsigned_abs(), sqlite::SQLITE_IOERR).is_err() {
        return;
    }
    let Some(world) = current() else { return };
    {
        let mut state = world.state.borrow_mut();
        let Some(lane) = state.current_lane else { return };
        let at_us = state.now_us + microseconds.max(0);
        state.add_timer(at_us, Timer::Lane(lane));
    }
    ffi::suspend();
}

pub(super) fn now_ms() -> i64 {
    let Some(world) = current() else { return 0 };
    let state = world.state.borrow();
    state.current_lane.map_or(state.options.epoch_ms, |lane| state.clock_ms(state.lanes[lane].process))
}

/// The choice that every call begins with. An error means that the call must fail with that code.
fn enter(role: Role, errors: &[Kind], detail: u64, code: c_int) -> Result<Rc<World>, c_int> {
    let world = current().ok_or(code)?;
    let verdict = world.state.borrow_mut().vfs_call(role, errors, detail);
    match verdict {
        Verdict::Go => Ok(world),
        Verdict::Fail(Kind::DiskFull) => Err(sqlite::SQLITE_FULL),
        Verdict::Fail(_) => Err(code),
        Verdict::Suspend => {
            ffi::suspend();
            if world.is_alive() { Ok(world) } else { Err(code) }
        }
    }
}

fn set_phase(phase: Phase) {
    let Some(world) = current() else { return };
    let mut state = world.state.borrow_mut();
    if let Some(lane) = state.current_lane {
        state.lanes[lane].operation.phase = phase;
    }
}

fn role_of(handle: Handle, database: Role, journal: Role) -> Role {
    let Some(world) = current() else { return Role::Other };
    let state = world.state.borrow();
    match state.handles.get(handle).and_then(Option::as_ref) {
        Some(open) if open.is_journal => journal,
        Some(open) if open.is_database => database,
        _ => Role::Other,
    }
}

#[derive(Clone, Copy)]
enum Seen {
    WriteLocked,
    JournalRetired,
    Unlocked,
}

fn observe(world: &World, handle: Handle, seen: Seen) {
    let file = {
        let state = world.state.borrow();
        let Some(open) = state.handles.get(handle).and_then(Option::as_ref) else { return };
        if !open.is_database {
            return;
        }
        (open.machine, Rc::clone(&open.name))
    };
    observe_file(world, (file.0, &file.1), seen);
}

fn observe_file(world: &World, file: (MachineId, &str), seen: Seen) {
    let mut state = world.state.borrow_mut();
    let State { processes, lanes, machines, now_us, trace, current_lane, .. } = &mut *state;
    let Some(lane): Option<LaneId> = *current_lane else { return };
    let event = State::lock_event(processes, lanes, machines, *now_us, lane, file);
    let mut observer = world.observer.borrow_mut();
    match seen {
        Seen::WriteLocked => observer.write_locked(&event, trace),
        Seen::JournalRetired => observer.journal_retired(&event, trace),
        Seen::Unlocked => observer.unlocked(&event, trace),
    }
}

impl State {
    /// The file of a handle that belongs to a living process.
    fn file(&mut self, handle: Handle) -> Option<(&mut Self, (MachineId, usize))> {
        let open = self.handles.get(handle)?.as_ref()?;
        let place = (open.machine, open.file);
        let owner = &self.processes[open.process];
        (owner.alive && owner.incarnation == open.incarnation).then_some((self, place))
    }
}
