//! Makes values out of arbitrary bytes. When the bytes run out, the rest is zeros.

/// What is left of an input.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(crate) fn byte(&mut self) -> u8 {
        let first = self.0.first().copied().unwrap_or_default();
        self.take(1);
        first
    }

    /// A number. Its size is drawn first, so that small ones are as likely as large ones.
    pub(crate) fn number(&mut self) -> u64 {
        let size = usize::from(self.byte() % 9);
        self.take(size)
            .iter()
            .fold(0, |number, byte| number << 8 | u64::from(*byte))
    }

    /// Up to 255 bytes, their length first.
    pub(crate) fn bytes(&mut self) -> &'a [u8] {
        let length = usize::from(self.byte());
        self.take(length)
    }

    pub(crate) fn rest(self) -> &'a [u8] {
        self.0
    }

    fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }
}
