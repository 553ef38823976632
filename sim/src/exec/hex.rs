//! Bytes as hex digits.

/// The bytes that `text` spells, two digits each, in either case; none where it holds anything else.
pub(super) fn read(text: &str) -> Option<Vec<u8>> {
    let byte = |pair: &[u8]| match pair {
        [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
        _ => None,
    };
    text.as_bytes().chunks(2).map(byte).collect()
}

fn digit(byte: u8) -> Option<u8> {
    u8::try_from(char::from(byte).to_digit(16)?).ok()
}

/// In lower case.
pub(super) fn write(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x_hex_is_pairs_of_digits_and_nothing_else() {
        assert_eq!(read("").unwrap(), b"");
        assert_eq!(read("00fF7a0A").unwrap(), [0, 255, 0x7a, 10]);
        for bad in ["0", "000", "0g", "+1", "-1", " 0", "0 0", "00 00", "00\n", "0x00", "é", "١٢", "\u{fffd}"]
        {
            assert_eq!(read(bad), None, "{bad:?}");
        }
        assert_eq!(write(&[0, 255, 0x7a, 10]), "00ff7a0a");
    }
}
