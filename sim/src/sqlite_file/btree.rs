//! Walks a table's b-tree: interior pages, leaf pages, overflow chains. Every page is visited at most once,
//! so that corrupt pointers cannot make a walk long.

use super::{HEADER_LEN, Image, Malformed};

/// Deepest tree that SQLite itself follows.
const DEPTH_MAX: u32 = 20;
/// Type byte of an interior page of a table.
const INTERIOR: u8 = 5;
/// Type byte of a leaf page of a table.
const LEAF: u8 = 13;

/// Called with the page's number, the rowid and the payload.
type Visit<'v, E> = &'v mut dyn FnMut(u32, i64, &[u8]) -> Result<(), E>;

/// Calls `visit` for each cell of the tree at `root`, in the order of the rowid. `scratch` holds the payloads
/// that overflow.
pub(super) fn for_each_cell<E: From<Malformed>>(
    image: &Image<'_>,
    root: u32,
    scratch: &mut Vec<u8>,
    visit: Visit<'_, E>,
) -> Result<(), E> {
    Walk { image, scratch, visit, pages_left: image.page_count, rowid_last: None }.page(root, 0)
}

struct Walk<'w, 'a, E> {
    image: &'w Image<'a>,
    scratch: &'w mut Vec<u8>,
    visit: Visit<'w, E>,
    pages_left: u32,
    rowid_last: Option<i64>,
}

impl<'a, E: From<Malformed>> Walk<'_, 'a, E> {
    fn page(&mut self, number: u32, depth: u32) -> Result<(), E> {
        if depth > DEPTH_MAX {
            return Err(Malformed::new(number, "the tree's depth", depth.into(), "up to 20").into());
        }
        let page = self.visited(number)?;
        let start = if number == 1 { HEADER_LEN } else { 0 };
        // A page has at least 480 bytes: these are inside.
        let kind = page[start];
        let cells = u16::from_be_bytes([page[start + 3], page[start + 4]]);
        match kind {
            LEAF => self.leaf(number, page, start + 8, cells),
            INTERIOR => self.interior(number, page, start, cells, depth),
            _ => {
                Err(Malformed::new(number, "the page's type", kind.into(), "5 or 13 (a table's page)").into())
            }
        }
    }

    fn interior(
        &mut self,
        number: u32,
        page: &'a [u8],
        start: usize,
        cells: u16,
        depth: u32,
    ) -> Result<(), E> {
        for index in 0..cells {
            let cell = cell_at(number, page, start + 12, index)?;
            let Some(child) = cell.first_chunk() else {
                return Err(cut(number, "an interior cell").into());
            };
            self.page(u32::from_be_bytes(*child), depth + 1)?;
        }
        let Some(right) = page[start + 8..].first_chunk() else {
            return Err(cut(number, "the page's header").into());
        };
        self.page(u32::from_be_bytes(*right), depth + 1)
    }

    fn leaf(&mut self, number: u32, page: &'a [u8], pointers: usize, cells: u16) -> Result<(), E> {
        for index in 0..cells {
            let cell = cell_at(number, page, pointers, index)?;
            let Some((length, rest)) = varint(cell) else {
                return Err(cut(number, "a payload's length").into());
            };
            let Some((rowid, rest)) = varint(rest) else {
                return Err(cut(number, "a rowid").into());
            };
            let rowid = rowid as i64;
            if self.rowid_last.is_some_and(|last| rowid <= last) {
                return Err(
                    Malformed::new(number, "a rowid", rowid as u64, "more than the one before it").into()
                );
            }
            self.rowid_last = Some(rowid);
            let local = self.local_len(length);
            let Some((payload, rest)) = rest.split_at_checked(local) else {
                return Err(cut(number, "a payload").into());
            };
            if local as u64 == length {
                (self.visit)(number, rowid, payload)?;
            } else {
                self.overflow(number, length, payload, rest)?;
                (self.visit)(number, rowid, self.scratch)?;
            }
        }
        Ok(())
    }

    /// How much of a payload of `length` bytes lies on the leaf itself.
    fn local_len(&self, length: u64) -> usize {
        let usable = self.image.usable as u64;
        let local_max = usable - 35;
        if length <= local_max {
            return length as usize;
        }
        let local_min = (usable - 12) * 32 / 255 - 23;
        let fitting = local_min + (length - local_min) % (usable - 4);
        (if fitting <= local_max { fitting } else { local_min }) as usize
    }

    /// Collects a payload that goes on in a chain of pages.
    fn overflow(&mut self, number: u32, length: u64, local: &[u8], rest: &[u8]) -> Result<(), Malformed> {
        if length > self.image.bytes.len() as u64 {
            return Err(Malformed::new(number, "a payload's length", length, "less than the file's length"));
        }
        self.scratch.clear();
        self.scratch.extend_from_slice(local);
        let mut missing = length as usize - local.len();
        let Some(next) = rest.first_chunk() else {
            return Err(cut(number, "an overflow page's number"));
        };
        let mut next = u32::from_be_bytes(*next);
        while missing > 0 {
            let page = self.visited(next)?;
            let (link, content) = page.split_at(4);
            let content = &content[..content.len().min(missing)];
            self.scratch.extend_from_slice(content);
            missing -= content.len();
            next = u32::from_be_bytes([link[0], link[1], link[2], link[3]]);
        }
        Ok(())
    }

    /// The bytes of a page, which counts as visited from now on.
    fn visited(&mut self, number: u32) -> Result<&'a [u8], Malformed> {
        let Some(left) = self.pages_left.checked_sub(1) else {
            let found = u64::from(self.image.page_count) + 1;
            return Err(Malformed::new(number, "the pages of one tree", found, "at most the file's pages"));
        };
        self.pages_left = left;
        self.image.page(number)
    }
}

/// The bytes of a page from the cell of this index on.
fn cell_at(number: u32, page: &[u8], pointers: usize, index: u16) -> Result<&[u8], Malformed> {
    let at = pointers + 2 * usize::from(index);
    let Some(pointer) = page.get(at..).and_then(|rest| rest.first_chunk()) else {
        return Err(cut(number, "the page's cell pointers"));
    };
    let offset = u16::from_be_bytes(*pointer);
    page.get(usize::from(offset)..).ok_or(Malformed::new(
        number,
        "a cell's offset",
        offset.into(),
        "less than the page's length",
    ))
}

/// Reads SQLite's variable-length integer of 1 to 9 bytes; gives the number and what follows it.
pub(super) fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (&first, rest) = bytes.split_first()?;
    if first < 0x80 {
        return Some((first.into(), rest));
    }
    let mut value = u64::from(first & 0x7f);
    for index in 1..8 {
        let byte = *bytes.get(index)?;
        value = value << 7 | u64::from(byte & 0x7f);
        if byte < 0x80 {
            return Some((value, &bytes[index + 1..]));
        }
    }
    let byte = *bytes.get(8)?;
    Some((value << 8 | u64::from(byte), &bytes[9..]))
}

/// Something runs over the end of its page.
pub(super) const fn cut(number: u32, what: &'static str) -> Malformed {
    Malformed::new(number, what, 0, "whole within its page")
}
