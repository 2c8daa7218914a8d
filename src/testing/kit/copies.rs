//! Values that are given more than once.

use std::marker::PhantomData;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::storage::payload::{Codecs, Payload};

/// A value that can be had again and again: what is sent once more is what was sent.
pub(super) struct Copies<T>(Payload, PhantomData<fn() -> T>);

impl<T: Serialize + DeserializeOwned> Copies<T> {
    #[expect(clippy::needless_pass_by_value, reason = "whoever sends something has it no more")]
    pub(super) fn of(value: T) -> Self {
        let packed = Codecs::plain().pack(&value);
        Self(packed.expect("what is given to a workflow can be stored"), PhantomData)
    }

    pub(super) fn copy(&self) -> T {
        let copy = Codecs::plain().unpack(&self.0);
        copy.expect("what was stored can be read as what it was")
    }
}
