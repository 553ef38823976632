//! Decodes a record: a header of serial types, then the values.

use super::Malformed;
use super::btree::{cut, varint};

/// Most columns that a table may have; ours have at most 12.
pub const COLUMNS_MAX: usize = 32;

/// A value of a row, borrowed from the file's bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ValueRef<'r> {
    /// NULL.
    Null,
    /// A whole number.
    Int(i64),
    /// A floating-point number, never NaN.
    Real(f64),
    /// Text.
    Text(&'r str),
    /// Bytes.
    Blob(&'r [u8]),
}

/// A value of a row, on its own.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// NULL.
    Null,
    /// A whole number.
    Int(i64),
    /// A floating-point number, never NaN.
    Real(f64),
    /// Text.
    Text(String),
    /// Bytes.
    Blob(Vec<u8>),
}

impl From<ValueRef<'_>> for Value {
    fn from(value: ValueRef<'_>) -> Self {
        match value {
            ValueRef::Null => Self::Null,
            ValueRef::Int(number) => Self::Int(number),
            ValueRef::Real(number) => Self::Real(number),
            ValueRef::Text(text) => Self::Text(text.to_owned()),
            ValueRef::Blob(bytes) => Self::Blob(bytes.to_owned()),
        }
    }
}

impl std::fmt::Display for ValueRef<'_> {
    /// As SQL writes it, so that `'1'`, `1` and NULL cannot be taken for each other.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Null => f.write_str("NULL"),
            Self::Int(number) => write!(f, "{number}"),
            Self::Real(number) => write!(f, "{number:?}"),
            Self::Text(text) => write!(f, "'{}'", text.escape_debug()),
            Self::Blob(bytes) => write!(f, "a blob of {} bytes", bytes.len()),
        }
    }
}

/// Decodes `payload` into `values` and gives the number of columns. `page` is for the error.
pub(super) fn decode<'r>(
    page: u32,
    payload: &'r [u8],
    values: &mut [ValueRef<'r>; COLUMNS_MAX],
) -> Result<usize, Malformed> {
    let Some((header_len, rest)) = varint(payload) else {
        return Err(cut(page, "a record's header"));
    };
    // The header's length counts its own varint.
    let own_len = payload.len() - rest.len();
    let parts = usize::try_from(header_len)
        .ok()
        .and_then(|header_len| header_len.checked_sub(own_len))
        .and_then(|types_len| rest.split_at_checked(types_len));
    let Some((mut types, mut body)) = parts else {
        return Err(Malformed::new(page, "a record header's length", header_len, "within the record"));
    };
    let mut count = 0;
    while !types.is_empty() {
        let Some((serial_type, types_rest)) = varint(types) else {
            return Err(cut(page, "a serial type"));
        };
        let Some(slot) = values.get_mut(count) else {
            return Err(Malformed::new(page, "a record's columns", count as u64 + 1, "up to 32"));
        };
        let (value, body_rest) = value(page, serial_type, body)?;
        *slot = value;
        (types, body) = (types_rest, body_rest);
        count += 1;
    }
    Ok(count)
}

/// Decodes one value from the start of `body`; gives it and what follows.
#[inline]
fn value(page: u32, serial_type: u64, body: &[u8]) -> Result<(ValueRef<'_>, &[u8]), Malformed> {
    let len = match serial_type {
        0 | 8 | 9 => 0,
        1..=4 => serial_type,
        5 => 6,
        6 | 7 => 8,
        10 | 11 => return Err(Malformed::new(page, "a serial type", serial_type, "0 to 9, or 12 and more")),
        _ => (serial_type - 12) / 2,
    };
    let parts = usize::try_from(len).ok().and_then(|len| body.split_at_checked(len));
    let Some((bytes, rest)) = parts else {
        return Err(Malformed::new(page, "a value's length", len, "within its record"));
    };
    let value = match serial_type {
        0 => ValueRef::Null,
        1..=6 => ValueRef::Int(signed(bytes)),
        7 => real(bytes),
        8 => ValueRef::Int(0),
        9 => ValueRef::Int(1),
        _ if serial_type.is_multiple_of(2) => ValueRef::Blob(bytes),
        _ => match std::str::from_utf8(bytes) {
            Ok(text) => ValueRef::Text(text),
            Err(error) => {
                return Err(Malformed::new(
                    page,
                    "a text's UTF-8 prefix",
                    error.valid_up_to() as u64,
                    "all of it",
                ));
            }
        },
    };
    Ok((value, rest))
}

/// A big-endian number of 1 to 8 bytes in two's complement.
fn signed(bytes: &[u8]) -> i64 {
    let negative = bytes.first().is_some_and(|first| first & 0x80 != 0);
    bytes.iter().fold(if negative { -1 } else { 0 }, |value, byte| value << 8 | i64::from(*byte))
}

/// A big-endian double; SQLite reads NaN as NULL.
fn real(bytes: &[u8]) -> ValueRef<'static> {
    let number = f64::from_bits(signed(bytes) as u64);
    if number.is_nan() { ValueRef::Null } else { ValueRef::Real(number) }
}
