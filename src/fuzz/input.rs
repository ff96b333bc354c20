//! Numbers and texts taken off the front of a fuzzer's bytes; zeros and nothing where they end.

/// The bytes that are left.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    /// All of these.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Whether nothing is left.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next byte.
    pub fn byte(&mut self) -> u8 {
        let [byte] = self.array();
        byte
    }

    /// The next two bytes as a number.
    pub fn short(&mut self) -> u16 {
        u16::from_be_bytes(self.array())
    }

    /// The next eight bytes as a number.
    pub fn long(&mut self) -> u64 {
        u64::from_be_bytes(self.array())
    }

    /// As many bytes as fit in the array.
    pub fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut out = [0; N];
        let taken = self.take(N);
        out[..taken.len()].copy_from_slice(taken);
        out
    }

    /// So many bytes, or as many as there are.
    pub fn take(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// One of these, by the next byte.
    ///
    /// # Panics
    /// If there are none.
    pub fn pick<'t, T>(&mut self, of: &'t [T]) -> &'t T {
        &of[usize::from(self.byte()) % of.len()]
    }

    /// Everything before `end`, which is dropped; all of it if it doesn't come.
    pub fn until(&mut self, end: &[u8]) -> &'a [u8] {
        let at = self.0.windows(end.len()).position(|window| window == end);
        let taken = self.take(at.unwrap_or(self.0.len()));
        self.take(end.len());
        taken
    }

    /// All that is left.
    #[must_use]
    pub const fn rest(self) -> &'a [u8] {
        self.0
    }
}
