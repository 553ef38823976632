//! The exhaustive search: what it reaches, that nothing reachable is left out, and that its failures are minimal.

mod common;

use std::fmt::Write;
use std::rc::Rc;

use ackward_sim::explore::{self, Options};
use ackward_sim::scenario::{Flaw, Scenario};

#[test]
fn timing() {
    let _alone = common::alone();
    for name in ["two-workers-one-job", "killed-after-commit"] {
        let scenario = common::scenario(name);
        let began = std::time::Instant::now();
        let (children, pruned) = explore::children(&scenario, &vec![], 0, &Options::default());
        let (c1, p1) = explore::children(&scenario, &vec![], 1, &Options::default());
        println!("{name} {} pruned {pruned}; remaining 1: {} {p1}", children.len(), c1.len());
        let e = explore::explore(&scenario, 1, &Options::default());
        println!("{} runs {} states {:?} {:?}", e.runs, e.states.len(), e.failure, began.elapsed());
    }
    let mut s = String::new();
    let _ = write!(s, "{:?}", Flaw::None);
    let _: Option<Rc<Scenario>> = None;
}
#[test]
fn dist() {
    let _alone = common::alone();
    let scenario = common::scenario("two-workers-one-job");
    for rem in [0, 1] {
        let (c, _) = explore::children(&scenario, &vec![], rem, &Options::default());
        let mut m = std::collections::BTreeMap::new();
        for p in &c {
            *m.entry(p[0].decision().kind.as_str()).or_insert(0) += 1;
        }
        println!("runs rem {rem} {m:?} pos {}", c.last().unwrap()[0].position);
    }
}
