//! Load with processes killed at random: every job settled, every effect once, the sums agree, the files intact.
//!
//! The short form runs always. `ACKWARD_LOAD=long` makes it 50,000 jobs, 4 workers, 20 kills of the receiver and 50
//! of workers.

use ackward::rules::{Attempts, Event, Limits, Millis, Name, Qty};
use ackward::storage::{Durability, LeaseQueue, OpenOptions, Queue};

use super::*;

struct Size {
    jobs: usize,
    workers: usize,
    receiver_kills: usize,
    worker_kills: usize,
    limit: Duration,
}

const SHORT: Size =
    Size { jobs: 500, workers: 2, receiver_kills: 3, worker_kills: 5, limit: Duration::from_secs(90) };
const LONG: Size = Size {
    jobs: 50_000,
    workers: 4,
    receiver_kills: 20,
    worker_kills: 50,
    limit: Duration::from_secs(4 * 3_600),
};

#[test]
fn under_load_and_kills_every_effect_happens_once() {
    let long = std::env::var("ACKWARD_LOAD").is_ok_and(|value| value == "long");
    let size = if long { LONG } else { SHORT };
    let site = Site::new();
    fill(&site, size.jobs);
    let mut receiver = Some(Receiver::start(&site, &[]));
    let proxy = Proxy::start(&receiver.as_ref().unwrap().address, []);
    let start = |nth: usize| {
        let mut command = site.worker(&proxy.address);
        command.args(["--slots", "4", "--lease", "2", "--owner", &format!("worker-{nth}")]);
        let mut worker = Process::start(&mut command);
        worker.says("working");
        worker
    };
    let mut workers: Vec<_> = (0..size.workers).map(start).collect();

    let kills = size.receiver_kills + size.worker_kills;
    let started = Instant::now();
    let mut random = 0x5eed_u64;
    let mut killed = 0;
    loop {
        let settled = number(&site.queue(), "SELECT count(*) FROM jobs WHERE status IN ('done', 'dead')");
        let settled = usize::try_from(settled).unwrap();
        if settled == size.jobs {
            break;
        }
        assert!(
            started.elapsed() < size.limit,
            "{settled} of {} jobs after {:?}",
            size.jobs,
            started.elapsed()
        );
        // Kills are spread over the work.
        if killed < kills && settled * (kills + 1) >= killed * size.jobs {
            // A linear congruential generator will do.
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            std::thread::sleep(Duration::from_millis(random >> 58));
            if killed * size.receiver_kills / kills < (killed + 1) * size.receiver_kills / kills {
                receiver.take().unwrap().process.kill();
                let next = Receiver::start(&site, &[]);
                proxy.to(&next.address);
                receiver = Some(next);
            } else {
                let nth = usize::try_from(random >> 33).unwrap() % workers.len();
                std::mem::replace(&mut workers[nth], start(nth)).kill();
            }
            killed += 1;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(killed, kills, "too quick for its kills");
    for worker in workers {
        assert_eq!(worker.stop().0, Some(0));
    }
    assert_eq!(receiver.unwrap().process.stop().0, Some(0));
    check(&site, size.jobs);
    println!(
        "{} jobs, {kills} kills, {} connections in {:?}",
        size.jobs,
        proxy.connections(),
        started.elapsed()
    );
}

/// Enqueues quickly: one transaction is enough before anybody works.
fn fill(site: &Site, jobs: usize) {
    let mut queue = Queue::open(&site.queue(), &OpenOptions::new(Durability::Full)).unwrap();
    queue.connection().execute_batch("PRAGMA synchronous = OFF").unwrap();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
    let now = Millis::new(i64::try_from(now).unwrap()).unwrap();
    let (ttl, attempts) = (Limits::WIDE.ttl(86_400_000).unwrap(), Attempts::new(10).unwrap());
    for nth in 0..jobs {
        let qty = Qty::new(i64::try_from(nth % 1000).unwrap() + 1).unwrap();
        let event = Event { id: Name::new("id", &format!("job-{nth}")).unwrap(), qty };
        queue.enqueue(&event, now, ttl, attempts).unwrap();
    }
}

fn check(site: &Site, jobs: usize) {
    let jobs = i64::try_from(jobs).unwrap();
    let inbox = open(&site.inbox());
    let attach = format!("ATTACH '{}' AS queue", site.queue().display());
    inbox.execute_batch(&attach).unwrap();
    let count = |sql: &str| inbox.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!(
        count(
            "SELECT count(*) FROM jobs WHERE status = 'done' OR (status = 'dead' AND attempts = max_attempts)"
        ),
        jobs
    );
    assert_eq!(count("SELECT count(*) FROM jobs WHERE attempts > max_attempts OR token < attempts"), 0);
    let lost = "SELECT count(*) FROM jobs LEFT JOIN effects USING (id) WHERE status = 'done' AND effects.qty IS NOT jobs.qty";
    assert_eq!(count(lost), 0, "done without its effect");
    assert_eq!(count("SELECT count(*) FROM (SELECT id FROM effects GROUP BY id HAVING count(*) > 1)"), 0);
    assert_eq!(
        count("SELECT count(*) FROM effects LEFT JOIN jobs USING (id) WHERE jobs.qty IS NOT effects.qty"),
        0
    );
    assert_eq!(count("SELECT count(*) FROM inbox"), count("SELECT count(*) FROM effects"));
    assert_eq!(count("SELECT count FROM totals"), count("SELECT count(*) FROM effects"));
    assert_eq!(count("SELECT qty FROM totals"), count("SELECT sum(qty) FROM effects"));
    for database in ["main", "queue"] {
        let sql = format!("PRAGMA {database}.integrity_check");
        assert_eq!(inbox.query_row(&sql, [], |row| row.get::<_, String>(0)).unwrap(), "ok");
    }
}
