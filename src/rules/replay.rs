//! Which events of a history a consumer is sent next (R20 to R24).

use super::invalid::in_range;
use super::{Cursor, Invalid, Limit, Resync, StreamEvent};

/// Longest history that [`replay`] takes, in events (R20).
pub const REPLAY_EVENTS_MAX: usize = 128;

/// Why there is nothing to replay.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// The history or the position is refused (R20, R21): a mistake of the caller's.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The event after `last` is no longer held (R23): the consumer needs a new start.
    #[error("event {} is no longer held, only {held}", last.get() + 1)]
    ResyncRequired {
        /// Where the consumer stands.
        last: Cursor,
        /// What is held.
        held: Resync,
    },
}

/// The events after `last`, in order, at most `limit` of them (R24). Empty where `last` is the final one.
///
/// # Errors
/// [`ReplayError::Invalid`] unless `events` are 1 to 128 events without a gap (R20) that reach at least up to
/// `last` (R21); else [`ReplayError::ResyncRequired`] where they start after `last` + 1 (R23).
pub fn replay(events: &[StreamEvent], last: Cursor, limit: Limit) -> Result<Vec<StreamEvent>, ReplayError> {
    let (first, final_seq) = ends(events)?;
    in_range("last", last.get(), Cursor::START.get(), final_seq.seq.get())?;
    if last < first.seq.before() {
        let held = Resync::new(first.seq, final_seq.seq.into())?;
        return Err(ReplayError::ResyncRequired { last, held });
    }
    let wanted = events.iter().filter(|event| !last.covers(event.seq));
    Ok(wanted.take(usize::try_from(limit.get()).unwrap_or(usize::MAX)).copied().collect())
}

/// The first and the last event of a history without gaps.
fn ends(events: &[StreamEvent]) -> Result<(StreamEvent, StreamEvent), Invalid> {
    let (Some(first), Some(last), true) = (events.first(), events.last(), events.len() <= REPLAY_EVENTS_MAX)
    else {
        return Err(Invalid::new("events", format_args!("{} long", events.len()), "1 to 128 events"));
    };
    for pair in events.windows(2) {
        if pair[1].seq.before() != pair[0].seq.into() {
            let found = format_args!("event {} after event {}", pair[1].seq, pair[0].seq).to_string();
            return Err(Invalid::new("events", found, "each seq one more than the one before"));
        }
    }
    Ok((*first, *last))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(seqs: impl IntoIterator<Item = i64>) -> Vec<StreamEvent> {
        seqs.into_iter().map(|seq| StreamEvent::new(seq, seq % 1000).unwrap()).collect()
    }

    fn seqs(events: &[StreamEvent], last: i64, limit: i64) -> Result<Vec<i64>, &'static str> {
        match replay(events, Cursor::new(last).unwrap(), Limit::new(limit).unwrap()) {
            Ok(events) => Ok(events.iter().map(|event| event.seq.get()).collect()),
            Err(ReplayError::Invalid(_)) => Err("invalid"),
            Err(ReplayError::ResyncRequired { .. }) => Err("resync"),
        }
    }

    /// R24.
    #[test]
    fn what_follows_comes_in_order_up_to_the_limit() {
        let held = events(10..20);
        assert_eq!(seqs(&held, 12, 3), Ok(vec![13, 14, 15]));
        assert_eq!(seqs(&held, 17, 16), Ok(vec![18, 19]));
        assert_eq!(seqs(&held, 9, 1), Ok(vec![10]));
        let found = replay(&held, Cursor::new(18).unwrap(), Limit::MAX).unwrap();
        assert_eq!(found, [StreamEvent::new(19, 19).unwrap()]);
    }

    /// R20: 1 to 128 events; a gap, a repeat and a descent are refused, wherever they are.
    #[test]
    fn a_history_is_checked_whole() {
        assert_eq!(seqs(&[], -1, 1), Err("invalid"));
        assert_eq!(seqs(&events(0..129), -1, 1), Err("invalid"));
        assert_eq!(seqs(&events(0..128), 126, 1), Ok(vec![127]));
        assert_eq!(seqs(&events([5]), 4, 1), Ok(vec![5]));
        for bad in [vec![0, 1, 3], vec![0, 1, 1], vec![0, 2, 1], vec![1, 0]] {
            assert_eq!(seqs(&events(bad), -1, 1), Err("invalid"));
        }
    }

    /// R21: `last` may be the final event and no more.
    #[test]
    fn last_reaches_at_most_to_the_final_event() {
        assert_eq!(seqs(&events(0..3), 2, 16), Ok(vec![]));
        assert_eq!(seqs(&events(0..3), 3, 16), Err("invalid"));
    }

    /// R22: a bad history wins over the need to resync.
    #[test]
    fn invalid_wins_over_resync() {
        assert_eq!(seqs(&events([10, 12]), 3, 1), Err("invalid"));
    }

    /// R23.
    #[test]
    fn a_missing_next_event_needs_a_resync() {
        assert_eq!(seqs(&events(10..12), 9, 1), Ok(vec![10]));
        assert_eq!(seqs(&events(10..12), 8, 1), Err("resync"));
        assert_eq!(seqs(&events(0..2), -1, 1), Ok(vec![0]));
        assert_eq!(seqs(&events(1..2), -1, 1), Err("resync"));
        let error = replay(&events(10..12), Cursor::START, Limit::MAX).unwrap_err();
        assert_eq!(error.to_string(), "event 0 is no longer held, only 10 to 11");
    }
}
