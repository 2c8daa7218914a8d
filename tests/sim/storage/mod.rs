//! The storage room: random commits, made one group by force, against a model of rows.
//!
//! The real store and committer over the memory engine behind the faulty one. Each round hands over a handful of
//! commits that are made one group by force, lets the engine do well, fail, lose its answer or crash, and compares
//! every answer and every row with the model.

mod decision;
mod model;
mod world;

use crate::seeds;
use world::World;

const SEEDS: u64 = 200;

#[test]
fn every_answer_and_every_row_is_as_the_model_says() {
    seeds::run(SEEDS, |seed| seeds::caught(|| World::new(seed).run()), |_, said| said);
}
