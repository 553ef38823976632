//! M7: a worker of another make works on the same file at the same time, by the contract alone.

use super::*;

/// Ours and one in Python's sqlite3, each killed now and then and started again: no job is lost, none takes effect
/// twice, and the sums agree.
#[test]
fn m7_a_worker_in_python_works_on_the_same_file() {
    if !Command::new("python3").arg("--version").output().is_ok_and(|output| output.status.success()) {
        return eprintln!("skipped: there is no python3");
    }
    const JOBS: i64 = 1_500;
    let site = Site::new();
    let receiver = Receiver::start(&site, &[]);
    let lines: String =
        (0..JOBS).map(|nth| format!("{{\"id\":\"job-{nth}\",\"qty\":{}}}\n", nth % 9 + 1)).collect();
    let path = site.write("jobs.jsonl", &lines);
    let (code, ..) = run(ackward("enqueue").arg("--queue").arg(site.queue()).arg("--json-lines").arg(path));
    assert_eq!(code, Some(0));
    let script = site.write("interop.py", include_str!("interop.py"));
    let ours = |nth: usize| {
        let mut command = site.worker(&receiver.address);
        command.args(["--owner", &format!("ours-{nth}"), "--lease", "1.5"]);
        command.args(["--batch", if nth.is_multiple_of(4) { "1" } else { "8" }]).env_remove("ACKWARD_SLOTS");
        command
    };
    let theirs = |nth: usize| {
        let mut command = Command::new("python3");
        command.arg(&script).arg(site.queue()).arg(format!("http://{}/jobs", receiver.address));
        command.arg(format!("theirs-{nth}")).arg(site.path("theirs"));
        command
    };
    let start = |command: &mut Command| {
        let mut worker = Process::start(command);
        worker.says("working");
        worker
    };
    let mut workers = [start(&mut ours(0)), start(&mut theirs(0))];
    let mut random = 0x5eed_u64;
    for nth in 1..=8 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        std::thread::sleep(Duration::from_millis(50 + (random >> 33) % 250));
        let which = nth % 2;
        let fresh = if which == 0 { start(&mut ours(nth)) } else { start(&mut theirs(nth)) };
        std::mem::replace(&mut workers[which], fresh).kill();
    }
    site.wait_settled();
    let sum: i64 = (0..JOBS).map(|nth| nth % 9 + 1).sum();
    assert_eq!(number(&site.queue(), "SELECT count(*) FROM jobs WHERE status = 'done'"), JOBS);
    assert_eq!(number(&site.inbox(), "SELECT count(*) FROM effects"), JOBS);
    assert_eq!(strings(&site.inbox(), "SELECT count || ' ' || qty FROM totals"), [format!("{JOBS} {sum}")]);
    let [ours, theirs] = workers;
    let (code, out) = ours.stop();
    assert_eq!(code, Some(0), "{out}");
    theirs.kill();
    let finished = std::fs::read_to_string(site.path("theirs")).unwrap().lines().count();
    assert!(finished > 50 && out.contains("\"done\":"), "both had their share: {finished}, {out}");
    let doctor = run(ackward("doctor").arg("--queue").arg(site.queue()));
    assert_eq!(doctor.0, Some(0), "{doctor:?}");
}
