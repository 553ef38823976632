//! A seeded chooser: each offer strikes with its kind's probability.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use super::{Chooser, Decision, Kind, Offer, Point, stable_hash};

/// Probability per opportunity of each kind, as thresholds of a 32-bit draw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probabilities([u32; Kind::COUNT]);

impl Default for Probabilities {
    fn default() -> Self {
        Self([0; Kind::COUNT])
    }
}

impl Probabilities {
    /// Sets one kind's probability, 0 to 1; values outside are taken as the nearer end.
    #[must_use]
    pub fn with(mut self, kind: Kind, probability: f64) -> Self {
        // 2^32 is exact in f64, and `as` saturates: the same threshold on every machine.
        self.0[kind as usize] = (probability.clamp(0.0, 1.0) * 4_294_967_296.0) as u32;
        self
    }

    /// Switches a kind off.
    pub fn disable(&mut self, kind: Kind) {
        self.0[kind as usize] = 0;
    }

    /// Whether the kind can strike.
    #[must_use]
    pub fn is_enabled(&self, kind: Kind) -> bool {
        self.0[kind as usize] > 0
    }

    fn threshold(&self, kind: Kind) -> u64 {
        u64::from(self.0[kind as usize])
    }
}

/// A ChaCha8 stream of its own for each component, by name: a new draw in one does not shift another.
#[must_use]
pub fn stream(seed: u64, component: u64) -> ChaCha8Rng {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&seed.to_le_bytes());
    key[8..16].copy_from_slice(&component.to_le_bytes());
    ChaCha8Rng::from_seed(key)
}

/// Draws deviations from a scenario's probabilities.
#[derive(Debug)]
pub struct Random {
    seed: u64,
    probabilities: Probabilities,
    streams: Vec<(u64, ChaCha8Rng)>,
}

impl Random {
    /// The chooser of one seed.
    #[must_use]
    pub fn new(seed: u64, probabilities: Probabilities) -> Self {
        Self { seed, probabilities, streams: Vec::new() }
    }

    fn stream(&mut self, component: u64) -> &mut ChaCha8Rng {
        let found = self.streams.iter().position(|(name, _)| *name == component);
        let index = found.unwrap_or_else(|| {
            self.streams.push((component, stream(self.seed, component)));
            self.streams.len() - 1
        });
        &mut self.streams[index].1
    }
}

impl Chooser for Random {
    fn choose(&mut self, point: &Point, offers: &[Offer]) -> Decision {
        let total: u64 = offers.iter().map(|offer| self.probabilities.threshold(offer.kind)).sum();
        if total == 0 {
            return Decision::GO;
        }
        // One stream per process and phase of life outside or inside SQLite.
        let stream = self.stream(point.process_hash ^ stable_hash(&[point.phase as u8]));
        let draw = u64::from(stream.next_u32());
        if draw >= total {
            return Decision::GO;
        }
        let mut below = 0;
        for offer in offers {
            below += self.probabilities.threshold(offer.kind);
            if draw < below {
                let value = quantity(self.stream(point.process_hash), offer.low, offer.high);
                return Decision { kind: offer.kind, value };
            }
        }
        Decision::GO
    }
}

/// Half of the draws are uniform, half favour small magnitudes: both scales matter for delays.
fn quantity(stream: &mut ChaCha8Rng, low: i64, high: i64) -> i64 {
    if low >= high {
        return low;
    }
    let draw = stream.next_u64();
    let width = high.abs_diff(low);
    let width = if draw & 1 == 0 { width } else { width >> (stream.next_u32() % 12) };
    let step = (draw >> 1) % width.saturating_add(1).max(1);
    low.saturating_add_unsigned(step).min(high)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choice::{Phase, Role};

    fn point(process: usize) -> Point {
        let process_hash = stable_hash(&[u8::try_from(process).unwrap()]);
        let (phase, role) = (Phase::Write, Role::DbRead);
        Point { process, process_hash, incarnation: 1, operation: "claim", ordinal: 1, phase, role, count: 1 }
    }

    #[test]
    fn the_share_of_strikes_is_the_probability() {
        let mut chooser =
            Random::new(1, Probabilities::default().with(Kind::Kill, 0.25).with(Kind::IoError, 0.5));
        let offers = [Offer::plain(Kind::Kill), Offer::plain(Kind::IoError), Offer::plain(Kind::Stall)];
        let mut seen = [0_u32; Kind::COUNT];
        for _ in 0..10_000 {
            seen[chooser.choose(&point(0), &offers).kind as usize] += 1;
        }
        assert!((2_300..2_700).contains(&seen[Kind::Kill as usize]), "{seen:?}");
        assert!((4_800..5_200).contains(&seen[Kind::IoError as usize]), "{seen:?}");
        assert_eq!(seen[Kind::Stall as usize], 0);
    }

    #[test]
    fn a_draw_of_one_process_does_not_shift_another() {
        let offers = [Offer { kind: Kind::Stall, low: 1, high: 1_000_000 }];
        let run = |extra: bool| {
            let mut chooser = Random::new(9, Probabilities::default().with(Kind::Stall, 0.5));
            (0..50)
                .map(|_| {
                    if extra {
                        chooser.choose(&point(1), &offers);
                    }
                    chooser.choose(&point(0), &offers)
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(run(false), run(true));
    }

    #[test]
    fn quantities_stay_in_range() {
        let mut stream = stream(3, 4);
        for (low, high) in [(0, 0), (-5, 5), (1, 3_000), (i64::MIN, i64::MAX)] {
            for _ in 0..1_000 {
                assert!((low..=high).contains(&quantity(&mut stream, low, high)));
            }
        }
    }
}
