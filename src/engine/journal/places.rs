//! Where operations stand: by their names in their scope, or by their numbers.

use crate::engine::bounds::Exceeded;
use crate::engine::error::Misuse;
use crate::engine::journal::Journal;
use crate::limits::{LOCATION_DEPTH_MAX, NAMES_MAX};
use crate::location::{Location, Segment, TooDeep};

impl Journal {
    /// A context can be used by the function that was called with it, while that is being polled, and the context of
    /// an iteration until the iteration is over.
    pub(super) fn check_use(&self, scope: &Location) -> Result<(), Misuse> {
        if !self.token.is_polled_here() {
            return Err(Misuse::OutsideWorkflow);
        }
        if scope.segments().len() >= LOCATION_DEPTH_MAX {
            return Err(TooDeep.into());
        }
        if self.left.is_empty() {
            return Ok(());
        }
        for (depth, segment) in scope.segments().iter().enumerate() {
            let Segment::Iteration { number, .. } = segment else {
                continue;
            };
            let loop_at = Location::try_from(scope.segments()[..depth].to_vec())?;
            if self.left.get(&loop_at).is_some_and(|over| number < over) {
                return Err(Misuse::OutlivedIteration);
            }
        }
        Ok(())
    }

    /// The location of a named operation in a scope.
    pub(crate) fn locate(&mut self, scope: &Location, name: &str) -> Result<Location, Misuse> {
        self.check_use(scope)?;
        self.check_inside(scope)?;
        let index = self.name(name)?;
        Ok(scope.child(Segment::Name(index))?)
    }

    /// The location of the next operation of its kind in a scope, for operations that may be repeated.
    pub(crate) fn locate_next(&mut self, scope: &Location, name: &str) -> Result<Location, Misuse> {
        self.check_use(scope)?;
        self.check_inside(scope)?;
        let name = self.name(name)?;
        let counter = self.counters.entry(scope.child(Segment::Name(name))?).or_default();
        let number = *counter;
        *counter += 1;
        Ok(scope.child(Segment::Iteration { name, number })?)
    }

    /// The index of a name that the code uses. Too many of them end the function.
    fn name(&mut self, name: &str) -> Result<u32, Misuse> {
        if let Some(known) = self.names.find(name) {
            return Ok(known);
        }
        if self.names.all().len() >= NAMES_MAX {
            self.refuse(Exceeded::Names { max: NAMES_MAX })?;
        }
        self.has_room_at_once(name.len())?;
        Ok(self.names.add(name)?)
    }

    /// How often something was drawn in a scope before: what makes each draw differ from the last.
    pub(crate) fn draw(&mut self, scope: &Location) -> u64 {
        if let Err(misuse) = self.check_inside(scope) {
            self.misused.get_or_insert(misuse.into());
        }
        let drawn = self.drawn.entry(scope.clone()).or_default();
        *drawn += 1;
        *drawn
    }
}
