//! Somebody who keeps connections of the receiver busy: each begins a request and never gets to its end.

use std::rc::Rc;

use ackward::port::Network;
use futures_util::future::join_all;
use tokio::io::AsyncWriteExt;

use super::Stage;
use super::receiver::ADDRESS;
use crate::computer::Context;

/// The pause between two bytes, and between two connections, in microseconds.
const PAUSE_US: i64 = 100_000;
/// What is sent, byte by byte.
const HEAD: &[u8] =
    b"POST /jobs HTTP/1.1\r\nhost: receiver-host\r\ncontent-type: application/json\r\nx-one-more: ";

/// Keeps the connections of a scenario's receiver busy until its faults are over.
pub(super) async fn dawdle(context: Context, stage: Rc<Stage>) {
    let connections = (0..stage.scenario.receiver.lorises).map(|_| async {
        while context.world().now_us() < stage.scenario.duration_ms * 1_000 {
            let Ok(mut stream) = context.connect(ADDRESS).await else {
                context.sleep_us(PAUSE_US).await;
                continue;
            };
            for byte in HEAD.iter().chain(std::iter::repeat(&b'z')) {
                if stream.write_all(&[*byte]).await.is_err() {
                    break;
                }
                context.sleep_us(PAUSE_US).await;
            }
        }
    });
    join_all(connections).await;
}
