//! The only unsafe code: SQLite's VFS interface in C, and the switch between coroutines.
//!
//! Every function here is a thin shim: it turns C arguments into Rust values and calls the safe code of
//! `vfs`. No shim may unwind into C; the safe code below does not panic on any input from SQLite.

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::sync::Once;

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use rusqlite::ffi;

use super::{meter, vfs};

/// The name under which the simulated computer is registered with SQLite.
pub const VFS_NAME: &str = "ackward-sim";

/// The C string of [`VFS_NAME`].
const VFS_NAME_C: &CStr = c"ackward-sim";
/// Longest path name, in bytes.
const PATH_MAX: c_int = 512;
/// What the unix VFS reports.
const SECTOR_SIZE: c_int = 4_096;

/// Registers the VFS, once per OS process, and switches SQLite's memory statistics off.
pub(super) fn register() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: `sqlite3_config` is called with the arguments that its documentation gives for the option. It
        // fails harmlessly (SQLITE_MISUSE) where SQLite is already in use; statistics then stay on.
        unsafe { ffi::sqlite3_config(ffi::SQLITE_CONFIG_MEMSTATUS, 0 as c_int) };
        page_cache();
        lookaside();
        keep_memory();
        let vfs = Box::leak(Box::new(vfs_table()));
        // SAFETY: the table is leaked and so lives as long as SQLite keeps it.
        let code = unsafe { ffi::sqlite3_vfs_register(vfs, 0) };
        assert_eq!(code, ffi::SQLITE_OK, "SQLite refused to register the simulated VFS");
    });
}

/// Slots of SQLite's shared page cache: more than any run of ours has pages in use.
const PAGE_SLOTS: usize = 1_024;
/// Bytes of a slot: a page of 4,096 bytes and what SQLite keeps with it (`SQLITE_CONFIG_PCACHE_HDRSZ`).
const SLOT_BYTES: usize = 4_096 + 256;

/// Gives SQLite the memory for its pages once and for all, so that each connection need not ask for its own.
fn page_cache() {
    let slots: &'static mut [u64] = Vec::leak(vec![0; PAGE_SLOTS * SLOT_BYTES / size_of::<u64>()]);
    let (memory, size, count) =
        (slots.as_mut_ptr().cast::<c_void>(), SLOT_BYTES as c_int, PAGE_SLOTS as c_int);
    // SAFETY: the memory is leaked, aligned to 8 bytes and of the stated size. As above, a refusal is harmless.
    unsafe { ffi::sqlite3_config(ffi::SQLITE_CONFIG_PAGECACHE, memory, size, count) };
}

/// Small blocks that SQLite keeps for each connection: their size in bytes, and how many. With SQLite's own
/// 40 of them, preparing statements overflows into the heap.
const LOOKASIDE: (c_int, c_int) = (1_200, 200);

fn lookaside() {
    // SAFETY: the option takes two ints. As above, a refusal is harmless.
    unsafe { ffi::sqlite3_config(ffi::SQLITE_CONFIG_LOOKASIDE, LOOKASIDE.0, LOOKASIDE.1) };
}

/// Tells glibc's allocator to keep what a run gives back: the next run wants it again at once.
fn keep_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: `mallopt` with documented parameters, called before the simulation allocates.
    unsafe {
        libc::mallopt(libc::M_TRIM_THRESHOLD, 256 << 20);
        libc::mallopt(libc::M_MMAP_THRESHOLD, 64 << 20);
    }
}

/// Seeds SQLite's own random numbers, of which there is one generator per OS process.
pub(super) fn seed_sqlite(seed: u32) {
    let seed = c_int::from_ne_bytes(seed.max(1).to_ne_bytes());
    // SAFETY: this test control takes an int and a database handle, which may be null.
    unsafe {
        ffi::sqlite3_test_control(ffi::SQLITE_TESTCTRL_PRNG_SEED, seed, ptr::null_mut::<ffi::sqlite3>())
    };
}

/// One SQLite job on a stack of its own, which can be suspended inside any VFS call.
pub(super) struct Job(Option<Coroutine<(), (), (), DefaultStack>>);

thread_local! {
    /// The way back from the job that runs on this thread, or null outside of jobs.
    static YIELDER: Cell<*const Yielder<(), ()>> = const { Cell::new(ptr::null()) };
    /// Stacks of jobs that have ended.
    static STACKS: Cell<Vec<DefaultStack>> = const { Cell::new(Vec::new()) };
}

/// Stack of one job, in bytes; SQLite was seen to use 25 kB.
const STACK_BYTES: usize = 256 * 1_024;

impl Job {
    /// Prepares a job; nothing runs yet. `body` must not unwind.
    pub(super) fn new(body: impl FnOnce() + 'static) -> Self {
        let mut stacks = STACKS.take();
        let stack = stacks.pop();
        STACKS.set(stacks);
        let stack = stack.unwrap_or_else(|| DefaultStack::new(STACK_BYTES).expect("memory for a stack"));
        Self(Some(Coroutine::with_stack(stack, |yielder, ()| {
            YIELDER.set(ptr::from_ref(yielder));
            meter::enter();
            body();
            meter::leave();
        })))
    }

    /// Runs until the job suspends or ends; returns whether it has ended.
    pub(super) fn resume(&mut self) -> bool {
        let Some(coroutine) = &mut self.0 else { return true };
        let outer = YIELDER.get();
        let result = coroutine.resume(());
        YIELDER.set(outer);
        let CoroutineResult::Return(()) = result else { return false };
        if let Some(coroutine) = self.0.take() {
            let mut stacks = STACKS.take();
            stacks.push(coroutine.into_stack());
            STACKS.set(stacks);
        }
        true
    }
}

/// Suspends the job that runs on this thread until it is resumed. Outside of a job, or while it unwinds,
/// nothing happens.
pub(super) fn suspend() {
    let yielder = YIELDER.get();
    if yielder.is_null() || std::thread::panicking() {
        return;
    }
    let _away = meter::away();
    // SAFETY: the pointer was set by the body of the coroutine that runs now (each resume restores the outer
    // one when it returns, and the lines below restore this one), so its yielder lives on this very stack.
    unsafe { (*yielder).suspend(()) };
    YIELDER.set(yielder);
}

/// What SQLite allocates for each open file.
#[repr(C)]
struct OpenFile {
    base: ffi::sqlite3_file,
    handle: usize,
}

const fn vfs_table() -> ffi::sqlite3_vfs {
    ffi::sqlite3_vfs {
        iVersion: 2,
        szOsFile: size_of::<OpenFile>() as c_int,
        mxPathname: PATH_MAX,
        pNext: ptr::null_mut(),
        zName: VFS_NAME_C.as_ptr(),
        pAppData: ptr::null_mut(),
        xOpen: Some(open),
        xDelete: Some(delete),
        xAccess: Some(access),
        xFullPathname: Some(full_pathname),
        xDlOpen: None,
        xDlError: None,
        xDlSym: None,
        xDlClose: None,
        xRandomness: Some(randomness),
        xSleep: Some(sleep),
        xCurrentTime: Some(current_time),
        xGetLastError: Some(last_error),
        xCurrentTimeInt64: Some(current_time_ms),
        xSetSystemCall: None,
        xGetSystemCall: None,
        xNextSystemCall: None,
    }
}

static METHODS: ffi::sqlite3_io_methods = ffi::sqlite3_io_methods {
    iVersion: 1,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: None,
    xShmLock: None,
    xShmBarrier: None,
    xShmUnmap: None,
    xFetch: None,
    xUnfetch: None,
};

/// The text of a C string, or `None` where it is null or not UTF-8.
///
/// # Safety
/// `text` is null or a C string that lives as long as the result is used.
unsafe fn text<'a>(text: *const c_char) -> Option<&'a str> {
    if text.is_null() {
        return None;
    }
    // SAFETY: as this function demands.
    unsafe { CStr::from_ptr(text) }.to_str().ok()
}

/// The handle of an open file.
///
/// # Safety
/// `file` was filled by [`open`].
unsafe fn handle(file: *mut ffi::sqlite3_file) -> usize {
    // SAFETY: SQLite allocated `szOsFile` bytes for it and `open` wrote an `OpenFile` there.
    unsafe { (*file.cast::<OpenFile>()).handle }
}

// For all functions below: SQLite calls them with pointers that are valid for the call, to files that `open`
// filled, and with buffers of the stated length.

unsafe extern "C" fn open(
    _vfs: *mut ffi::sqlite3_vfs,
    name: ffi::sqlite3_filename,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    let _away = meter::away();
    let opened = file.cast::<OpenFile>();
    // SAFETY: `file` points to `szOsFile` bytes; null methods tell SQLite not to close it on failure.
    unsafe { (*opened).base.pMethods = ptr::null() };
    // SAFETY: `name` is null (a temporary file) or a C string.
    match vfs::open(unsafe { text(name) }, flags) {
        Ok(handle) => {
            // SAFETY: as above; `out_flags` may be null.
            unsafe {
                (*opened).handle = handle;
                (*opened).base.pMethods = &raw const METHODS;
                if !out_flags.is_null() {
                    *out_flags = flags;
                }
            }
            ffi::SQLITE_OK
        }
        Err(code) => code,
    }
}

unsafe extern "C" fn delete(_vfs: *mut ffi::sqlite3_vfs, name: *const c_char, sync_dir: c_int) -> c_int {
    let _away = meter::away();
    // SAFETY: `name` is a C string.
    let Some(name) = (unsafe { text(name) }) else { return ffi::SQLITE_IOERR_DELETE };
    code(vfs::delete(name, sync_dir != 0))
}

unsafe extern "C" fn access(
    _vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    _flags: c_int,
    result: *mut c_int,
) -> c_int {
    let _away = meter::away();
    // SAFETY: `name` is a C string.
    let Some(name) = (unsafe { text(name) }) else { return ffi::SQLITE_IOERR_ACCESS };
    match vfs::access(name) {
        Ok(exists) => {
            // SAFETY: `result` points to an int.
            unsafe { *result = c_int::from(exists) };
            ffi::SQLITE_OK
        }
        Err(code) => code,
    }
}

unsafe extern "C" fn full_pathname(
    _vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    len: c_int,
    out: *mut c_char,
) -> c_int {
    // SAFETY: `name` is a C string.
    let bytes = unsafe { CStr::from_ptr(name) }.to_bytes_with_nul();
    if usize::try_from(len).is_ok_and(|len| bytes.len() <= len) {
        // SAFETY: `out` has room for `len` bytes, and the two do not overlap.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr().cast(), out, bytes.len()) };
        return ffi::SQLITE_OK;
    }
    ffi::SQLITE_CANTOPEN
}

unsafe extern "C" fn randomness(_vfs: *mut ffi::sqlite3_vfs, len: c_int, out: *mut c_char) -> c_int {
    // SQLite's generator is seeded through a test control and does not ask here; zeros keep a run repeatable
    // should that ever change.
    if let Ok(len) = usize::try_from(len) {
        // SAFETY: `out` has room for `len` bytes.
        unsafe { ptr::write_bytes(out, 0, len) };
    }
    len
}

unsafe extern "C" fn sleep(_vfs: *mut ffi::sqlite3_vfs, microseconds: c_int) -> c_int {
    let _away = meter::away();
    vfs::sleep(i64::from(microseconds));
    microseconds
}

/// The Julian day of the Unix epoch, in ms.
const UNIX_EPOCH_JULIAN_MS: i64 = 210_866_760_000_000;

unsafe extern "C" fn current_time_ms(_vfs: *mut ffi::sqlite3_vfs, out: *mut ffi::sqlite3_int64) -> c_int {
    // SAFETY: `out` points to a 64-bit integer.
    unsafe { *out = vfs::now_ms() + UNIX_EPOCH_JULIAN_MS };
    ffi::SQLITE_OK
}

unsafe extern "C" fn current_time(_vfs: *mut ffi::sqlite3_vfs, out: *mut f64) -> c_int {
    // SAFETY: `out` points to a double.
    unsafe { *out = (vfs::now_ms() + UNIX_EPOCH_JULIAN_MS) as f64 / 86_400_000.0 };
    ffi::SQLITE_OK
}

unsafe extern "C" fn last_error(_vfs: *mut ffi::sqlite3_vfs, _len: c_int, _out: *mut c_char) -> c_int {
    0
}

unsafe extern "C" fn close(file: *mut ffi::sqlite3_file) -> c_int {
    let _away = meter::away();
    // SAFETY: `open` filled it.
    vfs::close(unsafe { handle(file) });
    ffi::SQLITE_OK
}

unsafe extern "C" fn read(
    file: *mut ffi::sqlite3_file,
    out: *mut c_void,
    len: c_int,
    offset: ffi::sqlite3_int64,
) -> c_int {
    let _away = meter::away();
    let (Ok(len), Ok(offset)) = (usize::try_from(len), usize::try_from(offset)) else {
        return ffi::SQLITE_IOERR_READ;
    };
    // SAFETY: `out` has room for `len` bytes, which SQLite does not touch during the call.
    let buffer = unsafe { std::slice::from_raw_parts_mut(out.cast::<u8>(), len) };
    // SAFETY: `open` filled it.
    code(vfs::read(unsafe { handle(file) }, offset, buffer))
}

unsafe extern "C" fn write(
    file: *mut ffi::sqlite3_file,
    from: *const c_void,
    len: c_int,
    offset: ffi::sqlite3_int64,
) -> c_int {
    let _away = meter::away();
    let (Ok(len), Ok(offset)) = (usize::try_from(len), usize::try_from(offset)) else {
        return ffi::SQLITE_IOERR_WRITE;
    };
    // SAFETY: `from` points to `len` bytes, which SQLite does not change during the call.
    let bytes = unsafe { std::slice::from_raw_parts(from.cast::<u8>(), len) };
    // SAFETY: `open` filled it.
    code(vfs::write(unsafe { handle(file) }, offset, bytes))
}

unsafe extern "C" fn truncate(file: *mut ffi::sqlite3_file, size: ffi::sqlite3_int64) -> c_int {
    let _away = meter::away();
    let Ok(size) = usize::try_from(size) else { return ffi::SQLITE_IOERR_TRUNCATE };
    // SAFETY: `open` filled it.
    code(vfs::truncate(unsafe { handle(file) }, size))
}

unsafe extern "C" fn sync(file: *mut ffi::sqlite3_file, _flags: c_int) -> c_int {
    let _away = meter::away();
    // SAFETY: `open` filled it.
    code(vfs::sync(unsafe { handle(file) }))
}

unsafe extern "C" fn file_size(file: *mut ffi::sqlite3_file, out: *mut ffi::sqlite3_int64) -> c_int {
    let _away = meter::away();
    // SAFETY: `open` filled it.
    match vfs::size(unsafe { handle(file) }) {
        Ok(size) => {
            // SAFETY: `out` points to a 64-bit integer. Files here are far smaller than 2^63.
            unsafe { *out = size as ffi::sqlite3_int64 };
            ffi::SQLITE_OK
        }
        Err(code) => code,
    }
}

unsafe extern "C" fn lock(file: *mut ffi::sqlite3_file, level: c_int) -> c_int {
    let _away = meter::away();
    // SAFETY: `open` filled it.
    code(vfs::lock(unsafe { handle(file) }, level))
}

unsafe extern "C" fn unlock(file: *mut ffi::sqlite3_file, level: c_int) -> c_int {
    let _away = meter::away();
    // SAFETY: `open` filled it.
    code(vfs::unlock(unsafe { handle(file) }, level))
}

unsafe extern "C" fn check_reserved(file: *mut ffi::sqlite3_file, out: *mut c_int) -> c_int {
    let _away = meter::away();
    // SAFETY: `open` filled it.
    match vfs::check_reserved(unsafe { handle(file) }) {
        Ok(reserved) => {
            // SAFETY: `out` points to an int.
            unsafe { *out = c_int::from(reserved) };
            ffi::SQLITE_OK
        }
        Err(code) => code,
    }
}

unsafe extern "C" fn file_control(
    _file: *mut ffi::sqlite3_file,
    _op: c_int,
    _argument: *mut c_void,
) -> c_int {
    ffi::SQLITE_NOTFOUND
}

unsafe extern "C" fn sector_size(_file: *mut ffi::sqlite3_file) -> c_int {
    SECTOR_SIZE
}

unsafe extern "C" fn device_characteristics(_file: *mut ffi::sqlite3_file) -> c_int {
    ffi::SQLITE_IOCAP_POWERSAFE_OVERWRITE
}

fn code(result: Result<(), c_int>) -> c_int {
    result.err().unwrap_or(ffi::SQLITE_OK)
}
