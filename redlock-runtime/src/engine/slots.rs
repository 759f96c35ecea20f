//! The slots of a Cluster: the slot of a name, and short hash tags that put other names into the
//! same slot.

use std::collections::VecDeque;
use std::sync::LazyLock;

const COUNT: u16 = 16_384;

/// A slot of a Cluster; its keys move from node to node together.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Slot(u16);

impl Slot {
    /// The slot of a key or a sharded channel.
    pub(super) fn of(name: &str) -> Self {
        Self(crc16(hash_tag(name).unwrap_or(name).as_bytes()) % COUNT)
    }

    pub(super) fn new(number: u16) -> Option<Self> {
        (number < COUNT).then_some(Self(number))
    }

    /// From here to `last`, both included.
    pub(super) fn to(self, last: Self) -> impl Iterator<Item = Self> {
        (self.0..=last.0).map(Self)
    }

    pub(super) fn index(self) -> usize {
        usize::from(self.0)
    }

    /// The smallest number that is a hash tag of this slot. All processes must compute the same
    /// one: it is part of the names that they share.
    pub(super) fn tag(self) -> u32 {
        static TAGS: LazyLock<Vec<u32>> = LazyLock::new(|| {
            let mut tags = vec![None; usize::from(COUNT)];
            let mut missing = tags.len();
            // Numbers in ascending order, each from the checksum of its prefix: quick, because a
            // call waits for it.
            let mut prefixes = VecDeque::from([(0, 0)]);
            while missing > 0
                && let Some((prefix, checksum)) = prefixes.pop_front()
            {
                for (number, digit) in (10 * prefix..).zip(b'0'..=b'9') {
                    let checksum = crc16_after(checksum, digit);
                    let tag = &mut tags[Slot(checksum % COUNT).index()];
                    if tag.is_none() {
                        *tag = Some(number);
                        missing -= 1;
                    }
                    // No number but zero begins with a zero.
                    if number > 0 {
                        prefixes.push_back((number, checksum));
                    }
                }
            }
            tags.into_iter().flatten().collect()
        });
        TAGS[self.index()]
    }
}

/// The text in the first braces of a name, which alone decides its slot.
pub(crate) fn hash_tag(name: &str) -> Option<&str> {
    let (_, rest) = name.split_once('{')?;
    let (tag, _) = rest.split_once('}')?;
    (!tag.is_empty()).then_some(tag)
}

/// CRC-16/XMODEM.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| crc16_after(crc, *byte))
}

/// Appends a byte to a checksum.
fn crc16_after(crc: u16, byte: u8) -> u16 {
    const TABLE: [u16; 256] = {
        let mut table = [0; 256];
        let mut byte: u16 = 0;
        while byte < 256 {
            let mut crc = byte << 8;
            let mut bit = 0;
            while bit < 8 {
                crc = if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
                bit += 1;
            }
            table[byte as usize] = crc;
            byte += 1;
        }
        table
    };
    let [high, low] = crc.to_be_bytes();
    u16::from_be_bytes([low, 0]) ^ TABLE[usize::from(high ^ byte)]
}

/// A set of slots.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Slots(Vec<bool>);

impl Slots {
    pub(super) fn none() -> Self {
        Self(vec![false; usize::from(COUNT)])
    }

    pub(super) fn insert(&mut self, slot: Slot) {
        self.0[slot.index()] = true;
    }

    pub(super) fn contains(&self, slot: Slot) -> bool {
        self.0[slot.index()]
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.0.contains(&true)
    }
}

/// A value for each slot.
pub(super) struct BySlot<T>(Vec<T>);

impl<T: Clone> BySlot<T> {
    pub(super) fn filled(value: &T) -> Self {
        Self(vec![value.clone(); usize::from(COUNT)])
    }
}

impl<T> BySlot<T> {
    pub(super) fn get(&self, slot: Slot) -> &T {
        &self.0[slot.index()]
    }

    pub(super) fn get_mut(&mut self, slot: Slot) -> &mut T {
        &mut self.0[slot.index()]
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Slot, &T)> {
        (0..COUNT).map(Slot).zip(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_the_one_that_servers_compute() {
        // The check value of CRC-16/XMODEM.
        assert_eq!(crc16(b"123456789"), 0x31C3);
        for (name, slot) in [("foo", 12_182), ("bar{zz}", 14_415), ("", 0), ("foo{}{bar}", 8_363)] {
            assert_eq!(Slot::of(name), Slot(slot), "{name}");
        }
        assert_eq!(Slot::of("{user1000}.following"), Slot::of("{user1000}.followers"));
        assert_eq!(Slot::of("foo{{bar}}zap"), Slot::of("{bar"));
        assert_eq!(Slot::of("foo{bar}{zap}"), Slot::of("bar"));
    }

    #[test]
    fn every_slot_has_a_tag_that_lives_there() {
        for number in 0..COUNT {
            assert_eq!(Slot::of(&format!("lock:{{{}}}%clock", Slot(number).tag())), Slot(number));
        }
        // Processes of other versions know them.
        assert_eq!([Slot(0).tag(), Slot(1).tag(), Slot(16_383).tag()], [3_560, 22_179, 39_296]);
    }
}
