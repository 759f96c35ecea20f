//! Random numbers that a seed repeats: `SplitMix64`.

/// A sequence of numbers that its seed repeats.
pub struct Random(u64);

impl Random {
    /// From this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From `from` to `to`, without `to`.
    pub fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.next() % (to - from)
    }

    /// Below `len`.
    pub fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(len).unwrap()).unwrap()
    }

    /// True so many times in a hundred.
    pub fn percent(&mut self, times: u64) -> bool {
        self.next() % 100 < times
    }

    /// One of these, each as often as its weight says.
    pub(crate) fn pick<T: Copy>(&mut self, list: &[(u64, T)]) -> T {
        let mut left = self.between(0, list.iter().map(|(weight, _)| weight).sum());
        for (weight, one) in list {
            match left.checked_sub(*weight) {
                Some(rest) => left = rest,
                None => return *one,
            }
        }
        unreachable!("it is below the sum of the weights")
    }
}
