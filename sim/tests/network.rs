//! The built-in network: streams between simulated processes behave as TCP's do.

mod common;

use std::io::ErrorKind;
use std::rc::Rc;

use ackward::port::{Listener, Network, Stream};
use ackward_sim::choice::{Chooser, Kind, Nothing, Probabilities, Random};
use ackward_sim::computer::{Context, End, ProcessSpec, Simulation, SimulationOptions};
use common::alone;
use common::meet::Seen;
use futures_util::future::{Either, select};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Sends `hello`, ends its direction, and reads to the end.
async fn greet(context: Context, seen: Seen) {
    let result = async {
        let mut stream = context.connect("far:7000").await?;
        stream.write_all(b"hello").await?;
        stream.shutdown().await?;
        let mut text = String::new();
        stream.read_to_string(&mut text).await?;
        Ok::<_, std::io::Error>(text)
    };
    let line = match result.await {
        Ok(text) => text,
        Err(error) => format!("{:?}", error.kind()),
    };
    seen.borrow_mut().push(line);
}

fn meet(chooser: impl Chooser + 'static) -> (End, Vec<String>) {
    let options = SimulationOptions { limit_us: 20_000_000, ..SimulationOptions::default() };
    common::meet::meet(Simulation::new(options, chooser), greet)
}

#[test]
fn what_is_sent_comes_back_and_the_end_of_the_stream_after_it() {
    let _alone = alone();
    let (end, seen) = meet(Nothing);
    assert_eq!(seen, ["hello"]);
    assert_eq!(end.at_us, 4 * 500, "connect and its answer, hello, the echo with the end behind it");
}

#[test]
fn split_segments_lose_and_reorder_nothing() {
    let _alone = alone();
    for seed in 0..100 {
        let chooser =
            Random::new(seed, Probabilities::default().with(Kind::Fragment, 0.5).with(Kind::Slow, 0.2));
        let (_, seen) = meet(chooser);
        assert_eq!(seen, ["hello"], "seed {seed}");
    }
}

#[test]
fn a_reset_is_an_error_and_a_half_open_peer_is_silence() {
    let _alone = alone();
    let (_, seen) = meet(Random::new(1, Probabilities::default().with(Kind::Reset, 1.0)));
    assert_eq!(seen, [format!("{:?}", ErrorKind::ConnectionReset)]);
    let (_, seen) = meet(Random::new(1, Probabilities::default().with(Kind::HalfOpen, 1.0)));
    assert!(seen.is_empty(), "waits for ever: {seen:?}");
    let (_, seen) = meet(Random::new(1, Probabilities::default().with(Kind::ConnectRefused, 1.0)));
    assert_eq!(seen, [format!("{:?}", ErrorKind::ConnectionRefused)]);
    let (_, seen) = meet(Random::new(1, Probabilities::default().with(Kind::ConnectLost, 1.0)));
    assert!(seen.is_empty(), "no answer at all: {seen:?}");
}

#[test]
fn a_partition_delays_what_is_sent_until_it_heals() {
    let _alone = alone();
    let (end, seen) = meet(Random::new(5, Probabilities::default().with(Kind::Partition, 1.0)));
    assert_eq!(seen, ["hello"]);
    assert!(end.at_us > 2_500, "{}", end.at_us);
    assert!(end.struck.effective[Kind::Partition as usize] > 0);
}

/// A server that takes a connection, writes, and is gone: killed, or without power.
fn desert(cut_power: bool, read_first: bool) -> Vec<String> {
    let options = SimulationOptions { limit_us: 5_000_000, ..SimulationOptions::default() };
    let mut simulation = Simulation::new(options, Nothing);
    let (near, far) = (simulation.machine("near"), simulation.machine("far"));
    let seen = Seen::default();
    let told = Rc::clone(&seen);
    simulation.process(ProcessSpec::new("server", far), move |context| async move {
        let mut listener = context.listen("far:1").await.expect("the port is free");
        let (mut stream, _) = listener.accept().await.expect("a connection");
        if read_first {
            let mut bytes = [0; 5];
            stream.read_exact(&mut bytes).await.expect("hello");
        } else {
            context.sleep_us(2_000).await;
        }
        stream.write_all(b"last words").await.expect("room");
        if cut_power {
            context.sleep_us(i64::MAX / 4).await;
        }
        context.world().kill_running();
        std::future::pending::<()>().await;
    });
    simulation.process(ProcessSpec::new("client", near), move |context| {
        let told = Rc::clone(&told);
        async move {
            let mut stream = context.connect("far:1").await.expect("somebody listens");
            stream.write_all(b"hello").await.expect("room");
            let mut bytes = [0; 32];
            loop {
                let line = match stream.read(&mut bytes).await {
                    Ok(len) => String::from_utf8_lossy(&bytes[..len]).into_owned(),
                    Err(error) => format!("{:?}", error.kind()),
                };
                let is_last = line.is_empty() || line.starts_with("Conn");
                told.borrow_mut().push(line);
                if is_last {
                    return;
                }
            }
        }
    });
    if cut_power {
        simulation.set_limit_us(1_700);
        simulation.run_until(|| false);
        simulation.cut_power(far);
        simulation.set_limit_us(5_000_000);
    }
    simulation.run_until(|| false);
    drop(simulation.finish(false));
    seen.take()
}

#[test]
fn a_killed_process_s_last_words_arrive_and_a_power_cut_is_silence() {
    let _alone = alone();
    assert_eq!(desert(false, true), ["last words", ""]);
    let reset = format!("{:?}", ErrorKind::ConnectionReset);
    assert_eq!(desert(false, false).last(), Some(&reset), "it left hello unread");
    assert_eq!(desert(true, true), Vec::<String>::new());
}

#[test]
fn an_abort_resets_the_other_end() {
    let _alone = alone();
    let seen = Seen::default();
    let told = Rc::clone(&seen);
    let mut simulation = Simulation::new(SimulationOptions::default(), Nothing);
    let host = simulation.machine("host");
    simulation.process(ProcessSpec::new("server", host), |context| async move {
        let mut listener = context.listen("host:1").await.expect("the port is free");
        let (stream, _) = listener.accept().await.expect("a connection");
        stream.abort();
    });
    simulation.process(ProcessSpec::new("client", host), move |context| {
        let told = Rc::clone(&told);
        async move {
            let mut stream = context.connect("host:1").await.expect("somebody listens");
            let error = stream.read(&mut [0; 8]).await.expect_err("aborted");
            told.borrow_mut().push(format!("{:?}", error.kind()));
        }
    });
    drop(simulation.run());
    assert_eq!(*seen.borrow(), [format!("{:?}", ErrorKind::ConnectionReset)]);
}

#[test]
fn a_process_can_die_as_it_writes_and_nothing_of_it_is_sent() {
    let _alone = alone();
    for kind in [Kind::Kill, Kind::PowerCut] {
        let (end, seen) = meet(Random::new(1, Probabilities::default().with(kind, 1.0)));
        assert!(seen.is_empty(), "{kind:?}: {seen:?}");
        // Had anything arrived, the other side would have died at its echo.
        assert_eq!(end.struck.effective[kind as usize], 1, "{kind:?}");
    }
}

#[test]
fn a_connect_that_is_given_up_leaves_no_connection_open() {
    let _alone = alone();
    let seen = Seen::default();
    let (told, heard) = (Rc::clone(&seen), Rc::clone(&seen));
    let mut simulation = Simulation::new(SimulationOptions::default(), Nothing);
    let host = simulation.machine("host");
    simulation.process(ProcessSpec::new("server", host), move |context| {
        let heard = Rc::clone(&heard);
        async move {
            let mut listener = context.listen("host:1").await.expect("the port is free");
            let (mut stream, _) = listener.accept().await.expect("a connection");
            let ended = stream.read(&mut [0; 8]).await;
            heard.borrow_mut().push(format!("server reads {ended:?}"));
        }
    });
    simulation.process(ProcessSpec::new("client", host), move |context| {
        let told = Rc::clone(&told);
        async move {
            let open = || context.world().open_connections(context.process);
            // The other side has taken the connection by now, and its answer is on its way.
            let limit = Box::pin(context.sleep_us(750));
            let given_up = select(Box::pin(context.connect("host:1")), limit).await;
            assert!(matches!(given_up, Either::Right(_)));
            told.borrow_mut().push(format!("{} open while it waits", open()));
            drop(given_up);
            told.borrow_mut().push(format!("{} open afterwards", open()));
        }
    });
    simulation.run_until(|| false);
    drop(simulation.finish(false));
    assert_eq!(*seen.borrow(), ["1 open while it waits", "0 open afterwards", "server reads Ok(0)"]);
}
