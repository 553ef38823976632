//! quick
use ackward_sim::campaign;
use ackward_sim::scenario::Scenario;
use ackward_sim::scene;
use std::rc::Rc;
fn cpu() -> f64 {
    let s = std::fs::read_to_string("/proc/self/schedstat").unwrap();
    s.split(' ').next().unwrap().parse::<f64>().unwrap() / 1e9
}
fn main() {
    for f in std::env::var("F").unwrap_or("two-workers-one-job,storm,two-workers-many-jobs".into()).split(',')
    {
        let s =
            Rc::new(Scenario::load(std::path::Path::new(&format!("/work/main/scenarios/{f}.toml"))).unwrap());
        let n: u64 = std::env::var("N").ok().and_then(|n| n.parse().ok()).unwrap_or(200);
        let _ = campaign::run_seeds::<scene::Real>(&s, 1, 3);
        let t = cpu();
        let tally = campaign::run_seeds::<scene::Real>(&s, 1, n);
        let e = cpu() - t;
        println!(
            "{f}: {:.0}/s cpu distinct {} virt {}s ratio {:.0} failed {} nondet {:?} missing {:?} inert {:?}",
            n as f64 / e,
            tally.hashes.len(),
            tally.virtual_us / 1_000_000,
            tally.virtual_us as f64 / 1e6 / e,
            tally.failed,
            tally.nondeterministic,
            tally.missing(&s),
            tally.inert(&s)
        );
        for f in &tally.failures {
            println!("  {f:?}");
        }
        if let Some(f) = tally.failures.first() {
            let r = scene::run(&s, f.seed, true);
            for e in r.events.iter().rev().take(40).rev() {
                println!("{e}");
            }
            println!("{}", r.final_state);
        }
    }
}
