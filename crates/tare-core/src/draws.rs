//! Orders and times determined by a seed.

/// The random draws for a block, or a round, of a run.
pub fn draws(seed: u64, block: u32) -> SplitMix64 {
    SplitMix64(seed ^ u64::from(block).wrapping_mul(0xA24B_AED4_963E_E407))
}

/// SplitMix64 (Steele, Lea & Flood, OOPSLA 2014): good enough to draw an order, and it never changes.
#[derive(Debug)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// The next draw.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Fisher-Yates: every order is equally likely.
    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let pick = (self.draw() % (last as u64 + 1)) as usize;
            items.swap(last, pick);
        }
    }
}
