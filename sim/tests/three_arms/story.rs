//! The stories: each a scenario with what happens in it, and the same in terms of real processes and a real proxy.

use ackward_sim::scenario::Scenario;

use super::real::{EventManner, Manner};

/// A story with a known end.
pub struct Story {
    /// What its snapshot is called.
    pub name: &'static str,
    /// The scenario; its deviations are hook kills, and what a proxy can do to a connection.
    pub scenario: &'static str,
    /// The same deviations for real.
    pub deeds: &'static [Deed],
}

/// What happens in the real world where the scenario has a deviation.
#[derive(Debug, Clone, Copy)]
pub enum Deed {
    /// This process stands still at a hook (`POINT:CALLS-BEFORE`), and is killed there.
    Kill(&'static str, &'static str),
    /// What the first connections to the receiver meet, in order.
    Posts(&'static [Manner]),
    /// What the first connections to the publisher meet, in order.
    Events(&'static [EventManner]),
}

impl Story {
    pub fn parsed(&self) -> Scenario {
        Scenario::parse(self.name, self.scenario.as_bytes()).unwrap_or_else(|error| panic!("{error}"))
    }
}

pub const STORIES: &[Story] = &[
    Story {
        name: "two-jobs-and-one-of-them-twice",
        scenario: r#"
about = "Two jobs are delivered; one of them is enqueued twice, and delivered once (Q22)."
duration_ms = 20000
[[job]]
id = "cake"
qty = 3
[[job]]
id = "tea"
[[job]]
id = "cake"
qty = 3
[[worker]]
name = "worker-a"
"#,
        deeds: &[],
    },
    Story {
        name: "worker-killed-inside-its-claim",
        scenario: r#"
about = "A worker is killed inside its claim's transaction: nothing of it remains, and the other worker gets token 1 (Q59)."
duration_ms = 20000
[[job]]
id = "cake"
qty = 3
[[worker]]
name = "worker-a"
restarts = 0
[[worker]]
name = "worker-b"
[[deviation]]
at = "worker-a/1/claim#1/write/hook.after-claim#1"
do = "hook-kill"
"#,
        deeds: &[Deed::Kill("worker-a", "after-claim:0")],
    },
    Story {
        name: "worker-killed-after-its-claim",
        scenario: r#"
about = "A worker is killed right after its claim: the lease runs out, and the other worker gets token 2 (Q59)."
duration_ms = 20000
[[job]]
id = "cake"
qty = 3
[[worker]]
name = "worker-a"
restarts = 0
[[worker]]
name = "worker-b"
[[deviation]]
at = "worker-a/1/claim#1/end/hook.after-commit#1"
do = "hook-kill"
"#,
        deeds: &[Deed::Kill("worker-a", "after-commit:0")],
    },
    Story {
        name: "worker-killed-inside-its-finish",
        scenario: r#"
about = "A worker is killed inside its finish: the effect took place, nobody knows, and the job is sent again without a second effect (Q60)."
duration_ms = 20000
[[job]]
id = "cake"
qty = 3
[[worker]]
name = "worker-a"
restarts = 0
lease_ms = 3000
[[worker]]
name = "worker-b"
[[deviation]]
at = "worker-a/1/finish#1/write/hook.after-finish#1"
do = "hook-kill"
"#,
        deeds: &[Deed::Kill("worker-a", "after-finish:0")],
    },
    Story {
        name: "worker-killed-after-its-finish",
        scenario: r#"
about = "A worker is killed right after its finish: the job is done, and nothing is left to do (Q59)."
duration_ms = 20000
[[job]]
id = "cake"
qty = 3
[[worker]]
name = "worker-a"
restarts = 0
lease_ms = 60000
[[worker]]
name = "worker-b"
[[deviation]]
at = "worker-a/1/finish#1/end/hook.after-commit#1"
do = "hook-kill"
"#,
        deeds: &[Deed::Kill("worker-a", "after-commit:1")],
    },
    Story {
        name: "receiver-killed-before-its-commit",
        scenario: r#"
about = "The receiver is killed inside its transaction, and away at the second and last attempt: no effect, until the job is redriven (W3)."
duration_ms = 20000
[[job]]
id = "cake"
qty = 3
max_attempts = 2
[[worker]]
name = "worker-a"
[[redrive]]
job = "cake"
at_ms = 5000
note = "receiver-is-back"
[[deviation]]
at = "receiver/1/accept#1/write/hook.after-accept#1"
do = "hook-kill"
"#,
        deeds: &[Deed::Kill("receiver", "after-accept:0")],
    },
    Story {
        name: "receiver-killed-after-its-commit",
        scenario: r#"
about = "The receiver is killed between its commit and its answer, and away at the second and last attempt: redriven, the job is a repeat (W3)."
duration_ms = 20000
[[job]]
id = "cake"
qty = 3
max_attempts = 2
[[worker]]
name = "worker-a"
[[redrive]]
job = "cake"
at_ms = 5000
note = "receiver-is-back"
[[deviation]]
at = "receiver/1/accept#1/end/hook.after-commit#1"
do = "hook-kill"
"#,
        deeds: &[Deed::Kill("receiver", "after-commit:0")],
    },
    Story {
        name: "request-cut-off",
        scenario: r#"
about = "The connection breaks as the request goes out: one POST an attempt, and one effect (W1)."
duration_ms = 20000
[[job]]
id = "cake"
qty = 3
[[worker]]
name = "worker-a"
[[deviation]]
at = "worker-a/1/claim#1/message/request#1"
do = "reset"
"#,
        deeds: &[Deed::Posts(&[Manner::CutRequest(40)])],
    },
    Story {
        name: "reply-cut-off",
        scenario: r#"
about = "The connection breaks as the answer goes out: the effect took place, and the next attempt is a repeat (W2)."
duration_ms = 20000
[[job]]
id = "cake"
qty = 3
[[worker]]
name = "worker-a"
[[deviation]]
at = "receiver/1/accept#1/message/reply#1"
do = "reset"
"#,
        deeds: &[Deed::Posts(&[Manner::CutReply(0)])],
    },
    Story {
        name: "reply-lost-twice",
        scenario: r#"
about = "Two answers in a row get lost in silence: each costs the timeout, and the third attempt is a repeat (W2)."
duration_ms = 20000
[[job]]
id = "cake"
qty = 3
[[worker]]
name = "worker-a"
[receiver]
timeout_ms = 2000
[[deviation]]
at = "receiver/1/accept#1/message/reply#1"
do = "reply-lost"
[[deviation]]
at = "receiver/1/accept#2/message/reply#1"
do = "reply-lost"
"#,
        deeds: &[Deed::Posts(&[Manner::StallReply(0), Manner::StallReply(0)])],
    },
    Story {
        name: "request-in-pieces",
        scenario: r#"
about = "The request arrives in pieces, and nothing comes of it."
duration_ms = 20000
[[job]]
id = "cake"
qty = 3
[[worker]]
name = "worker-a"
[[deviation]]
at = "worker-a/1/claim#1/message/request#1"
do = "fragment:7"
"#,
        deeds: &[Deed::Posts(&[Manner::Drip])],
    },
    Story {
        name: "reply-lost-and-redriven",
        scenario: r#"
about = "The only attempt's answer gets lost: the job dies, is redriven, and is delivered without a second effect (Q44, W3)."
duration_ms = 20000
[[job]]
id = "cake"
qty = 3
max_attempts = 1
[[worker]]
name = "worker-a"
[receiver]
timeout_ms = 2000
[[redrive]]
job = "cake"
at_ms = 5000
note = "reply-lost"
[[deviation]]
at = "receiver/1/accept#1/message/reply#1"
do = "reply-lost"
"#,
        deeds: &[Deed::Posts(&[Manner::StallReply(0)])],
    },
    Story {
        name: "events-in-pieces",
        scenario: r#"
about = "Six events, in pieces: all are applied once (R42)."
duration_ms = 20000
[publisher]
events = 6
[[consumer]]
name = "reader"
group = false
[[deviation]]
at = "publisher/1/start#1/message/reply#1"
do = "fragment:4"
"#,
        deeds: &[Deed::Events(&[EventManner { piece: 1, ..EventManner::PLAIN }])],
    },
    Story {
        name: "consumer-killed-before-its-ack",
        scenario: r#"
about = "The consumer is killed between the commit of event 1 and its ACK: the event comes again and counts once (R42)."
duration_ms = 20000
[publisher]
events = 4
[[consumer]]
name = "reader"
group = false
[[deviation]]
at = "reader/1/consume#2/wait/hook.before-ack#1"
do = "hook-kill"
"#,
        deeds: &[Deed::Kill("reader", "before-ack:1")],
    },
    Story {
        name: "consumer-killed-before-its-cursor",
        scenario: r#"
about = "The consumer is killed inside the transaction of event 2: nothing of it remains, and it comes again (R18, R44)."
duration_ms = 20000
[publisher]
events = 4
[[consumer]]
name = "reader"
group = false
[[deviation]]
at = "reader/1/consume#3/write/hook.before-cursor#1"
do = "hook-kill"
"#,
        deeds: &[Deed::Kill("reader", "before-cursor:2")],
    },
    Story {
        name: "events-cut-off",
        scenario: r#"
about = "The publisher's connection breaks in the middle of the events: the consumer resumes where its store stands (R43)."
duration_ms = 20000
[publisher]
events = 6
[[consumer]]
name = "reader"
group = false
[[deviation]]
at = "publisher/1/start#1/message/reply#1"
do = "reset"
"#,
        deeds: &[Deed::Events(&[EventManner::after(23, super::real::EventEnd::Cut)])],
    },
    Story {
        name: "events-fall-silent",
        scenario: r#"
about = "The publisher falls silent in the middle of the events: the consumer gives the connection up and resumes (R43)."
duration_ms = 20000
[publisher]
events = 6
[[consumer]]
name = "reader"
group = false
timeout_ms = 300
[[deviation]]
at = "publisher/1/start#1/message/reply#1"
do = "half-open"
"#,
        deeds: &[Deed::Events(&[EventManner::after(23, super::real::EventEnd::Stall)])],
    },
];
