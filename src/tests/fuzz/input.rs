//! Inputs: random bytes, and patchworks of valid pieces, since random bytes alone never get past a first line.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// Longest drawn input, in bytes.
const LEN_MAX: u32 = 96;

/// Makes a fuzz target of a closure over `&[u8]`: its corpus, drawn inputs, and whatever bolero is told to try.
macro_rules! fuzz {
    ($count:expr, $run:expr) => {{
        let run = std::panic::AssertUnwindSafe($run);
        $crate::input::drawn($count).for_each(|bytes| run(&bytes));
        bolero::check!().with_iterations(0).for_each(|bytes: &[u8]| {
            let run = &*run;
            run(bytes)
        });
    }};
}
pub(crate) use fuzz;

/// `count` inputs, the same everywhere.
pub fn drawn(count: usize) -> impl Iterator<Item = Vec<u8>> {
    let mut random = ChaCha8Rng::seed_from_u64(1);
    (0..count).map(move |_| {
        let mut bytes = vec![0; (random.next_u32() % LEN_MAX) as usize];
        random.fill_bytes(&mut bytes);
        bytes
    })
}

/// Puts `pieces` together as the bytes say, one for each piece: mostly as it is, now and then left out, doubled,
/// replaced by another one or cut short, with raw bytes in between. Bytes that are left over are appended.
pub fn patchwork(pieces: &[&str], recipe: &[u8]) -> Vec<u8> {
    let mut made = Vec::new();
    let mut recipe = recipe.iter().copied();
    for piece in pieces {
        let piece = piece.as_bytes();
        match recipe.next().unwrap_or(0) {
            step @ 0..200 => {
                made.extend_from_slice(piece);
                made.extend((step == 199).then_some(b' '));
            }
            200..212 => {}
            212..224 => made.extend([piece, piece].concat()),
            224..236 => {
                let other = usize::from(recipe.next().unwrap_or(0)) % pieces.len();
                made.extend_from_slice(pieces[other].as_bytes());
            }
            236..246 => {
                let kept = usize::from(recipe.next().unwrap_or(0)) % piece.len().max(1);
                made.extend_from_slice(&piece[..kept]);
            }
            _ => made.push(recipe.next().unwrap_or(0)),
        }
    }
    made.extend(recipe.take_while(|byte| *byte > 127));
    made
}
