//! Peers that were not written here: a few lines of Python on each side.

#![expect(clippy::disallowed_methods, reason = "a test on real threads, clocks and sockets")]

use std::process::{Command, Stdio};

/// Whether there is a Python; says so where there is none.
pub fn is_here() -> bool {
    let found = Command::new("python3")
        .args(["-c", "import asyncio"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if !found {
        eprintln!("skipped: there is no python3 here");
    }
    found
}

/// A publisher: argument 1 is the number of events. It prints its port, serves one consumer, prints the
/// `RESUME` and how many ACKs came in order.
pub const PUBLISHER: &str = r#"
import asyncio, sys
async def serve(reader, writer):
    resume = (await reader.readline()).decode().strip()
    last = int(resume.split()[1]); acks = 0; sent = last
    total = int(sys.argv[1])
    while acks + last + 1 < total:
        while sent + 1 < total and sent - (last + acks) < 16:
            sent += 1
            writer.write(f"EVENT {sent} {(sent * 37) % 2001 - 1000}\n".encode())
        await writer.drain()
        line = await reader.readline()
        if line != f"ACK {last + acks + 1}\n".encode():
            print("wrong", line); break
        acks += 1
    writer.close(); await writer.wait_closed()
    print(resume, acks, flush=True); done.set()
async def main():
    global done
    done = asyncio.Event()
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await done.wait()
asyncio.run(main())
"#;

/// A consumer: argument 1 is the port. It applies and acknowledges line by line up to the end of the stream,
/// and prints the last number and the sum.
pub const CONSUMER: &str = r#"
import asyncio, re, sys
async def main():
    reader, writer = await asyncio.open_connection("127.0.0.1", int(sys.argv[1]), limit=64)
    writer.write(b"RESUME -1\n"); last, total = -1, 0
    while line := await reader.readline():
        seq, delta = map(int, re.fullmatch(rb"EVENT (0|[1-9][0-9]*) (0|-?[1-9][0-9]*)\n", line).groups())
        assert seq == last + 1, (seq, last)
        last, total = seq, total + delta
        writer.write(b"ACK %d\n" % seq); await writer.drain()
    writer.close(); print(last, total)
asyncio.run(main())
"#;
