//! quick
use std::rc::Rc;
use ackward_sim::scenario::Scenario;
use ackward_sim::scene;
use ackward_sim::campaign;
#[test]
fn quick() {
    for f in ["two-workers-one-job", "storm", "two-workers-many-jobs"] {
        let s = Rc::new(Scenario::load(std::path::Path::new(&format!("../scenarios/{f}.toml"))).unwrap());
        let n: u64 = std::env::var("N").ok().and_then(|n| n.parse().ok()).unwrap_or(200);
        let t = std::time::Instant::now();
        let tally = campaign::run_seeds::<scene::Real>(&s, 1, n);
        let e = t.elapsed();
        println!("{f}: {:.0}/s distinct {} virt {}s ratio {:.0} failed {} nondet {:?} missing {:?} inert {:?}", n as f64 / e.as_secs_f64(), tally.hashes.len(), tally.virtual_us/1_000_000, tally.virtual_us as f64 / 1e6 / e.as_secs_f64(), tally.failed, tally.nondeterministic, tally.missing(&s), tally.inert(&s));
        for f in &tally.failures { println!("  {f:?}"); }
        if let Some(f) = tally.failures.first() {
            let r = scene::run(&s, f.seed, true);
            for e in r.events.iter().rev().take(40).rev() { println!("{e}"); }
            println!("{}", r.final_state);
        }
    }
}
