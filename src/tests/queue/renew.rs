//! renew and release: M10.

use super::*;

const HELD: &str = "'a', 5, 'leased', 2, 3, 7, 3, 500, 'w', 110, NULL";

fn held() -> Ticket {
    ticket("a", 5, "w", 7, 2, 110)
}

#[test]
fn m10_renew_keeps_token_and_attempt_and_makes_the_old_ticket_stale() {
    let mut bed = Bed::with(&[HELD]);
    let mut hook = Hook::none();
    let renewed = bed.renew_with(&held(), 109, 50, &mut hook).unwrap();
    let new = ticket("a", 5, "w", 7, 2, 159);
    assert_eq!(renewed, Renewed::Until(new.clone()));
    assert_eq!(hook.called, ["after-renew", "after-commit"]);
    bed.assert_job("a", "leased 2/3 7 3 500 w 159 -");
    assert_eq!(bed.finish(&held(), Outcome::Ok, 109, 0), Finished::Stale);
    assert_eq!(bed.claim(158, 10), None);
    assert_eq!(bed.finish(&new, Outcome::Ok, 158, 0), Finished::Now(ackward::rules::Status::Done));
}

#[test]
fn m10_renew_ends_at_the_deadline_at_the_latest() {
    let mut bed = Bed::with(&[HELD]);
    let renewed = bed.renew_with(&held(), 100, 60_000, &mut Hook::none()).unwrap();
    assert_eq!(renewed, Renewed::Until(ticket("a", 5, "w", 7, 2, 500)));
}

#[test]
fn m10_a_ticket_that_no_longer_holds_can_neither_be_renewed_nor_released() {
    let cases = [
        (held(), 110),
        (ticket("a", 5, "v", 7, 2, 110), 100),
        (ticket("a", 5, "w", 6, 2, 110), 100),
        (ticket("a", 4, "w", 7, 2, 110), 100),
        (ticket("a", 5, "w", 7, 1, 110), 100),
        (ticket("a", 5, "w", 7, 2, 111), 100),
        (ticket("b", 5, "w", 7, 2, 110), 100),
    ];
    for (ticket, now) in cases {
        let mut bed = Bed::with(&[HELD]);
        let before = bed.everything();
        let mut hook = Hook::none();
        assert_eq!(bed.renew_with(&ticket, now, 50, &mut hook).unwrap(), Renewed::Stale, "{ticket:?}");
        assert_eq!(bed.release_with(&ticket, now, &mut hook).unwrap(), Released::Stale, "{ticket:?}");
        assert_eq!(hook.called, [""; 0]);
        assert_eq!(bed.everything(), before, "{ticket:?}");
    }
}

#[test]
fn m10_the_time_of_a_renewal_is_read_under_the_write_lock() {
    let mut bed = Bed::with(&[HELD]);
    let (path, lease) = (bed.path(), Limits::CONTRACT.lease(10).unwrap());
    let mut locked = false;
    let mut now = || {
        let peer = Connection::open(&path).unwrap();
        peer.busy_timeout(std::time::Duration::ZERO).unwrap();
        locked = peer.execute_batch("BEGIN IMMEDIATE").is_err();
        Millis::named("clock", -1)
    };
    let result = bed.queue.renew(&held(), &mut now, lease, &mut Hook::none());
    assert!(matches!(result, Err(ClaimError::Clock(_))), "{result:?}");
    assert!(locked);
    bed.assert_job("a", "leased 2/3 7 3 500 w 110 -");
}

#[test]
fn m10_release_gives_the_attempt_back_but_not_the_token() {
    let mut bed = Bed::new();
    bed.enqueue("a", 5, 0, 500).unwrap();
    let claimed = bed.claim(10, 100).unwrap();
    let mut hook = Hook::none();
    assert_eq!(bed.release_with(&claimed, 20, &mut hook).unwrap(), Released::Pending);
    assert_eq!(hook.called, ["after-release", "after-commit"]);
    bed.assert_job("a", "pending 0/3 1 20 500 - - -");
    assert_eq!(bed.finish(&claimed, Outcome::Ok, 20, 0), Finished::Stale);
    assert_eq!(bed.claim(20, 100).unwrap(), ticket("a", 5, "w", 2, 1, 120));
}
