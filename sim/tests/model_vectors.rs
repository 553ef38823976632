//! The model against the recorded results of an independent implementation (contract, part X): every queue and
//! consumer operation of `tests/vectors`, with hooks that fail, and every dump of the tables.

use std::fs;
use std::path::Path;

use ackward::rules::{Attempts, Event, Limits, Millis, Name, Outcome, Qty, Ticket, Token};
use ackward::storage::{Enqueued, Finished};
use ackward_sim::model::{
    Applied, ConsumerModel, ConsumerOp, ConsumerResult, QueueModel, QueueOp, QueueResult,
};
use ackward_sim::sqlite_file::{Image, Schema};
use rusqlite::Connection;
use serde_json::{Map, Value, json};

#[test]
fn model_gives_the_recorded_results() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors");
    let mut compared = 0;
    for number in 1..=24 {
        let read =
            |kind: &str| fs::read_to_string(directory.join(format!("{number:03}.{kind}.jsonl"))).unwrap();
        let (ops, want) = (read("ops"), read("want"));
        let mut run = Run::default();
        let ops = ops.lines().filter(|line| !line.trim().is_empty());
        for (at, (op, want)) in ops.zip(want.lines()).enumerate() {
            let want: Value = serde_json::from_str(want).unwrap();
            let found = run.line(op);
            let place = format!("{number:03}, line {}: {op}", at + 1);
            match found {
                Line::Skipped => {}
                Line::Result(found) => {
                    compared += 1;
                    for key in ["ok", "error", "hooks"] {
                        assert_eq!(found.get(key), want.get(key), "{place}");
                    }
                }
            }
            run.check(&place);
        }
        run.check_file();
    }
    assert!(compared > 4_500, "only {compared} lines were compared");
}

/// What a line gives.
enum Line {
    /// The model has no such operation.
    Skipped,
    Result(Value),
}

/// The name of an error, or a value.
type Outcomes = Result<Value, &'static str>;

#[derive(Default)]
struct Run {
    queue: QueueModel,
    queue_before: QueueModel,
    consumer: ConsumerModel,
}

impl Run {
    fn line(&mut self, line: &str) -> Line {
        let Ok(Value::Object(mut args)) = serde_json::from_str(line) else {
            return Line::Result(json!({"error": "ValueError"}));
        };
        let fault = args.remove("fault").map(|fault| fault.as_str().unwrap_or_default().to_owned());
        let mut hooks = fault.as_deref().map(Hooks::new);
        let Some(Value::String(op)) = args.remove("op") else { return Line::Skipped };
        let result = match op.as_str() {
            "enqueue" => self.queue(enqueue(args), &mut None),
            "claim" => self.queue(claim(args), &mut hooks),
            "finish" => self.queue(finish(args), &mut hooks),
            "redrive" => self.queue(redrive(args), &mut hooks),
            "run_once" => self.run_once(args),
            "apply_event" => self.consumer(apply_event(args), &mut hooks),
            "consume_line" => self.consume_line(args, &mut hooks),
            "state" => Ok(json!([self.consumer.state().0, self.consumer.state().1])),
            "dump" => Ok(self.dump()),
            _ => return Line::Skipped,
        };
        let mut result = match result {
            Ok(value) => json!({"ok": value}),
            Err(name) => json!({"error": name}),
        };
        if let Some(hooks) = hooks {
            result["hooks"] = json!(hooks.called);
        }
        Line::Result(result)
    }

    /// Applies an operation; none is one whose arguments are refused.
    fn queue(&mut self, op: Option<QueueOp>, hooks: &mut Option<Hooks>) -> Outcomes {
        let op = op.ok_or("ValueError")?;
        let mut after = self.queue.clone();
        let Applied { result, changed } = after.apply(&op);
        assert_eq!(changed, after != self.queue, "what changed is said: {op:?}");
        let points: &[&str] = match result {
            QueueResult::Claimed(Some(_)) => &["after-claim"],
            QueueResult::Finished(Finished::Now(_)) => &["after-finish"],
            QueueResult::Redriven => &["after-audit", "after-redrive"],
            _ => &[],
        };
        // Q7: an error before COMMIT leaves nothing; Q8: one after it leaves the new state.
        call(hooks, points)?;
        self.queue = after;
        if !points.is_empty() {
            call(hooks, &["after-commit"])?;
        }
        shown(&result)
    }

    fn consumer(&mut self, op: Option<ConsumerOp>, hooks: &mut Option<Hooks>) -> Outcomes {
        let op = op.ok_or("ValueError")?;
        let mut after = self.consumer.clone();
        let Applied { result, changed } = after.apply(&op);
        assert_eq!(changed, after != self.consumer);
        if result == ConsumerResult::Applied {
            call(hooks, &["fault"])?;
        }
        self.consumer = after;
        match result {
            ConsumerResult::Applied => Ok(json!(true)),
            ConsumerResult::Repeat => Ok(json!(false)),
            ConsumerResult::Conflict => Err("Conflict"),
            ConsumerResult::Gap => Err("Gap"),
            ConsumerResult::Invalid => Err("ValueError"),
        }
    }

    fn consume_line(&mut self, mut args: Map<String, Value>, hooks: &mut Option<Hooks>) -> Outcomes {
        let line = args.remove("line_hex").as_ref().and_then(Value::as_str).and_then(unhex);
        let event = line.as_deref().and_then(parse_line).filter(|_| args.is_empty()).ok_or("ValueError")?;
        let (seq, delta) = event;
        self.consumer(Some(ConsumerOp::ApplyEvent { seq, delta }), hooks)?;
        let ack = format!("ACK {seq}\n");
        Ok(json!(ack.bytes().map(|byte| format!("{byte:02x}")).collect::<String>()))
    }

    /// Q47 to Q54.
    fn run_once(&mut self, mut args: Map<String, Value>) -> Outcomes {
        let jitter = args.remove("jitter").as_ref().and_then(Value::as_f64);
        let jitter = jitter.filter(|jitter| (0.0..=1.0).contains(jitter)).ok_or("ValueError")?;
        let clock = args.remove("clock").ok_or("ValueError")?;
        let send = args.remove("send").ok_or("ValueError")?;
        args.insert("now_ms".to_owned(), clock[0].clone());
        let ticket = self.queue(claim(args), &mut None)?;
        if ticket.is_null() {
            return Ok(ticket);
        }
        let (outcome, delay_ms) = match &send {
            Value::Bool(true) => ("ok", 0),
            Value::String(word) => match word.as_str() {
                "!Retryable" => ("retry", retry_delay(ticket["attempt"].as_i64().unwrap(), jitter)),
                "!Permanent" => ("permanent", 0),
                "!Crash" => return Err("Crash"),
                "!ValueError" => return Err("ValueError"),
                "!TimeoutError" => return Err("TimeoutError"),
                "!ConnectionResetError" => return Err("ConnectionResetError"),
                _ => return Err("BadAck"),
            },
            _ => return Err("BadAck"),
        };
        let is_later = clock[1].as_i64() >= clock[0].as_i64();
        let args = json!({"ticket": ticket, "outcome": outcome, "now_ms": clock[1], "delay_ms": delay_ms});
        let Value::Object(args) = args else { unreachable!() };
        let status = self.queue(finish(args).filter(|_| is_later), &mut None)?;
        let status = if status == false { json!("stale") } else { status };
        Ok(json!({"id": ticket["id"], "token": ticket["token"], "status": status}))
    }

    fn dump(&self) -> Value {
        let optional = |name: Option<&str>| name.map_or(Value::Null, Value::from);
        let jobs = self.queue.jobs().iter().map(|(seq, job)| {
            json!([
                seq,
                job.id.as_str(),
                job.qty,
                job.status.as_str(),
                job.attempts,
                job.max_attempts,
                job.token,
                job.available_at,
                job.deadline,
                optional(job.owner.as_ref().map(Name::as_str)),
                job.lease_until,
                optional(job.reason.map(|reason| reason.as_str())),
            ])
        });
        let redrives = self.queue.redrives().iter();
        let redrives =
            redrives.map(|row| json!([row.seq, row.id.as_str(), row.token, row.at_ms, row.note.as_str()]));
        let (last, total) = self.consumer.state();
        json!({
            "jobs": jobs.collect::<Vec<_>>(),
            "redrives": redrives.collect::<Vec<_>>(),
            "checkpoint": [[1, last, total]],
            "ledger": self.consumer.ledger().iter().map(|(seq, delta)| json!([seq, delta])).collect::<Vec<_>>(),
        })
    }

    /// The invariants hold for every state that the contract's operations make.
    fn check(&mut self, place: &str) {
        if self.queue != self.queue_before {
            self.queue.check_rows().unwrap_or_else(|broken| panic!("{place}: {broken}"));
            self.queue.check_step(&self.queue_before).unwrap_or_else(|broken| panic!("{place}: {broken}"));
            self.queue_before = self.queue.clone();
        }
        assert!(self.consumer.agrees(), "{place}");
    }

    /// The same rows written by SQLite match the models, and are read back as them.
    fn check_file(&self) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("t.db");
        let connection = Connection::open(&path).unwrap();
        connection
            .execute_batch(
                "CREATE TABLE jobs (seq INTEGER PRIMARY KEY AUTOINCREMENT, id UNIQUE, qty, status, attempts,
                   max_attempts, token, available_at, deadline, owner, lease_until, reason);
                 CREATE TABLE redrives (seq INTEGER PRIMARY KEY AUTOINCREMENT, id, token, at_ms, note);
                 CREATE TABLE checkpoint(id INTEGER PRIMARY KEY CHECK(id=1), last, total);
                 CREATE TABLE ledger(seq INTEGER PRIMARY KEY, delta);",
            )
            .unwrap();
        let Value::Object(tables) = self.dump() else { unreachable!() };
        for (table, rows) in tables {
            for row in rows.as_array().unwrap() {
                let values: Vec<_> = row.as_array().unwrap().iter().map(sql).collect();
                connection
                    .execute(&format!("INSERT INTO {table} VALUES ({})", values.join(",")), [])
                    .unwrap();
            }
        }
        let bytes = fs::read(path).unwrap();
        let image = Image::new(&bytes).unwrap();
        let schema = Schema::read(&image).unwrap();
        self.queue.matches(&image, &schema).unwrap();
        self.consumer.matches(&image, &schema).unwrap();
        assert_eq!(QueueModel::from_image(&image, &schema).unwrap(), self.queue);
        assert_eq!(ConsumerModel::from_image(&image, &schema).unwrap(), self.consumer);
    }
}

fn sql(value: &Value) -> String {
    match value {
        Value::Null => "NULL".to_owned(),
        Value::String(text) => format!("'{text}'"),
        other => other.to_string(),
    }
}

fn shown(result: &QueueResult) -> Outcomes {
    match result {
        QueueResult::Enqueued(enqueued) => Ok(json!(*enqueued == Enqueued::New)),
        QueueResult::Conflict => Err("Conflict"),
        QueueResult::Claimed(ticket) => Ok(ticket.as_ref().map_or(Value::Null, |ticket| {
            json!({
                "id": ticket.id.as_str(),
                "qty": ticket.qty.get(),
                "owner": ticket.owner.as_str(),
                "token": ticket.token.get(),
                "attempt": ticket.attempt.get(),
                "lease_until": ticket.lease_until_ms(),
            })
        })),
        QueueResult::Finished(Finished::Stale) => Ok(json!(false)),
        QueueResult::Finished(Finished::Now(status)) => Ok(json!(status.as_str())),
        QueueResult::Redriven => Ok(json!(true)),
        QueueResult::NoSuchJob | QueueResult::NotDead(_) | QueueResult::Invalid => Err("ValueError"),
        QueueResult::Renewed(_) | QueueResult::Released(_) | QueueResult::Batch(_) => {
            unreachable!("the vectors have none of them")
        }
    }
}

/// A hook that fails at one point and records what was called.
struct Hooks {
    fails_at: String,
    called: Vec<&'static str>,
}

impl Hooks {
    fn new(fails_at: &str) -> Self {
        Self { fails_at: fails_at.to_owned(), called: Vec::new() }
    }
}

fn call(hooks: &mut Option<Hooks>, points: &[&'static str]) -> Result<(), &'static str> {
    let Some(hooks) = hooks else { return Ok(()) };
    for point in points {
        hooks.called.push(point);
        if *point == hooks.fails_at {
            return Err("Fault");
        }
    }
    Ok(())
}

fn enqueue(mut args: Map<String, Value>) -> Option<QueueOp> {
    let mut event = match args.remove("event") {
        Some(Value::Object(event)) => event,
        Some(_) => return None,
        None => ["id", "qty"].iter().filter_map(|key| args.remove_entry(*key)).collect(),
    };
    let event_id = name(&mut event, "id")?;
    let qty = Qty::new(int(&mut event, "qty")?).ok()?;
    let ttl = Limits::CONTRACT.ttl(int(&mut args, "ttl_ms")?).ok()?;
    let max_attempts = Attempts::new(int_or(&mut args, "max_attempts", 3)?).ok()?;
    let op = QueueOp::Enqueue { event: Event { id: event_id, qty }, now: now(&mut args)?, ttl, max_attempts };
    (args.is_empty() && event.is_empty()).then_some(op)
}

fn claim(mut args: Map<String, Value>) -> Option<QueueOp> {
    let lease = Limits::CONTRACT.lease(int_or(&mut args, "lease_ms", 1000)?).ok()?;
    let op = QueueOp::Claim { owner: name(&mut args, "owner")?, now: now(&mut args)?, lease };
    args.is_empty().then_some(op)
}

fn finish(mut args: Map<String, Value>) -> Option<QueueOp> {
    let Value::Object(mut ticket) = args.remove("ticket")? else { return None };
    let event = Event { id: name(&mut ticket, "id")?, qty: Qty::new(int(&mut ticket, "qty")?).ok()? };
    let owner = name(&mut ticket, "owner")?;
    let token = Token::new(int(&mut ticket, "token")?).ok()?;
    let attempt = ackward::rules::Attempt::new(int(&mut ticket, "attempt")?).ok()?;
    let lease_until_ms = int(&mut ticket, "lease_until")?;
    let whole = ticket.is_empty();
    let ticket = Ticket::new(event, owner, token, attempt, lease_until_ms).ok()?;
    let outcome = Outcome::parse(args.remove("outcome")?.as_str()?).ok()?;
    let delay = Limits::CONTRACT.delay(int_or(&mut args, "delay_ms", 0)?).ok()?;
    let op = QueueOp::Finish { ticket, outcome, now: now(&mut args)?, delay };
    (whole && args.is_empty()).then_some(op)
}

fn redrive(mut args: Map<String, Value>) -> Option<QueueOp> {
    let ttl = Limits::CONTRACT.ttl(int(&mut args, "ttl_ms")?).ok()?;
    let (id, note) = (name(&mut args, "id")?, name(&mut args, "note")?);
    let op = QueueOp::Redrive { id, now: now(&mut args)?, ttl, note };
    args.is_empty().then_some(op)
}

fn apply_event(mut args: Map<String, Value>) -> Option<ConsumerOp> {
    let op = ConsumerOp::ApplyEvent { seq: int(&mut args, "seq")?, delta: int(&mut args, "delta")? };
    args.is_empty().then_some(op)
}

fn int(args: &mut Map<String, Value>, key: &str) -> Option<i64> {
    args.remove(key)?.as_i64()
}

fn int_or(args: &mut Map<String, Value>, key: &str, default: i64) -> Option<i64> {
    if args.contains_key(key) { int(args, key) } else { Some(default) }
}

fn name(args: &mut Map<String, Value>, key: &'static str) -> Option<Name> {
    Name::new(key, args.remove(key)?.as_str()?).ok()
}

fn now(args: &mut Map<String, Value>) -> Option<Millis> {
    Millis::new(int(args, "now_ms")?).ok()
}

fn retry_delay(attempt: i64, jitter: f64) -> i64 {
    let delay_ms = 1000.min(100 << (attempt - 1));
    (f64::from(delay_ms) * jitter).floor() as i64
}

/// R2, R3; the ranges are the model's.
fn parse_line(line: &[u8]) -> Option<(i64, i64)> {
    let text = std::str::from_utf8(line).ok()?.strip_prefix("EVENT ")?.strip_suffix('\n')?;
    let (seq, delta) = text.split_once(' ')?;
    let number = |text: &str| text.parse::<i64>().ok().filter(|number| number.to_string() == text);
    Some((number(seq)?, number(delta)?))
}

fn unhex(hex: &str) -> Option<Vec<u8>> {
    let pairs = hex.as_bytes().chunks(2);
    pairs
        .map(|pair| {
            u8::from_str_radix(std::str::from_utf8(pair).ok().filter(|pair| pair.len() == 2)?, 16).ok()
        })
        .collect()
}
