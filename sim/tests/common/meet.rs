//! Two processes on two machines: one echoes, the other one greets it.

use std::cell::RefCell;
use std::rc::Rc;

use ackward::port::{Listener, Network};
use ackward_sim::computer::{Context, End, ProcessSpec, Simulation};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// What was seen, line by line.
pub type Seen = Rc<RefCell<Vec<String>>>;

/// Runs to its end a simulation in which `greet` meets an echo at `far:7000`; what the greeter has told.
pub fn meet<F>(mut simulation: Simulation, greet: impl Fn(Context, Seen) -> F + 'static) -> (End, Vec<String>)
where
    F: Future<Output = ()> + 'static,
{
    let (near, far) = (simulation.machine("near"), simulation.machine("far"));
    let seen = Seen::default();
    let told = Rc::clone(&seen);
    simulation.process(ProcessSpec::new("echo", far), echo);
    simulation.process(ProcessSpec::new("greeter", near), move |context| greet(context, Rc::clone(&told)));
    let hit_limit = simulation.run_until(|| false);
    let end = simulation.finish(hit_limit);
    let seen = seen.borrow().clone();
    (end, seen)
}

/// Echoes at `far:7000` what each connection says, one connection after the other.
pub async fn echo(context: Context) {
    echo_at("far:7000", context).await;
}

/// As [`echo`], at any address.
pub async fn echo_at(address: &str, context: Context) {
    let mut listener = context.listen(address).await.expect("the port is free");
    loop {
        let Ok((mut stream, _)) = listener.accept().await else { return };
        let mut bytes = [0; 64];
        while let Ok(len @ 1..) = stream.read(&mut bytes).await {
            if stream.write_all(&bytes[..len]).await.is_err() {
                break;
            }
        }
    }
}
