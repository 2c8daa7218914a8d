//! One stay of an instance in memory: turns, commits, and what happens between them.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::{BEGINNING_MS, End, Pending, Plan, Rig};
use crate::actor;
use crate::clock::{Clock, Millis};
use crate::engine::{AttemptEnd, Begin, Divergence, Execution, Turn, Workflow};
use crate::storage::key::Arrival;
use crate::storage::record::{Message, Status};
use crate::storage::{InFlight, Namespace};

/// How a stay in memory ended.
pub(super) enum Life {
    Over,
    Rests,
    Lost,
}

impl<W: Workflow> Rig<W> {
    /// One stay of the instance in memory.
    pub(super) fn life(&mut self, id: &str) -> Result<Life, Divergence> {
        self.pending.clear();
        self.lives += 1;
        if let Some(late) = &mut self.late {
            late.clear();
        }
        let namespace = self.namespace(id);
        let Some(mut execution) = self.load(&namespace, false) else {
            return Ok(Life::Over);
        };
        self.died_running = false;
        loop {
            let mut turn = execution.turn(self.clock.now_ms())?;
            let (ended, alarm_at_ms) = (turn.ended, turn.alarm_at_ms);
            let (broadcasts, unawaited) = (
                std::mem::take(&mut turn.broadcasts),
                std::mem::take(&mut turn.unawaited),
            );
            let committed = self.commit(&namespace, turn);
            if !matches!(committed, Committed::Lost) {
                self.broadcasts.extend(broadcasts);
                self.unawaited.extend(unawaited);
            }
            match committed {
                Committed::Lost => return Ok(Life::Lost),
                Committed::Durable if ended => return Ok(Life::Over),
                Committed::Durable if execution.committed() => {
                    self.comes_back(&execution);
                    continue;
                }
                _ => {}
            }
            if self.audited {
                self.audit(&namespace);
            }
            if self.happen(&namespace, &mut execution) {
                continue;
            }
            let next = self.next_at_ms(&namespace, alarm_at_ms);
            let Some(at) = next.filter(|at| *at <= self.until_ms) else {
                return Ok(Life::Rests);
            };
            let before = self.clock.0.fetch_max(at, Ordering::Relaxed);
            if self.plan == Plan::Evict && before < at {
                // What is told at this moment is there when the instance is loaded, or what gives up at this moment
                // would come first.
                self.tell_due(&namespace);
                return Ok(Life::Lost);
            }
            self.happen(&namespace, &mut execution);
        }
    }

    /// Runs the function of an instance through its whole history again, also if it has ended, and writes nothing.
    /// None if it does not come to an end that way.
    pub fn replay(&self, id: &str) -> Result<Option<End<W::Output>>, Divergence> {
        let mut execution = self.load(&self.namespace(id), true).expect("the instance exists");
        let output = |payload| self.store.codecs().unpack(&payload).expect("the output is of its type");
        Ok(execution.advance()?.map(|ended| match ended {
            Ok(payload) => End::Completed(output(payload)),
            Err(error) => End::Failed(error.failure().clone()),
        }))
    }

    fn load(&self, namespace: &Namespace, over: bool) -> Option<Execution> {
        let snapshot = self
            .store
            .snapshot(namespace.shard())
            .expect("a store in memory can be read");
        let mut loaded = actor::load_instance(namespace, &*snapshot).expect("an instance can be read")?;
        if self.charged && self.died_running {
            loaded.crashed = InFlight::all();
        }
        if loaded.state.status.is_terminal() && !over {
            return None;
        }
        Some(Execution::new(
            namespace.clone(),
            loaded,
            &self.definition,
            self.store.codecs().clone(),
            self.definition.bounds(self.bounds),
        ))
    }

    pub(super) fn inbox(&self, namespace: &Namespace) -> VecDeque<(Arrival, Message)> {
        let snapshot = self
            .store
            .snapshot(namespace.shard())
            .expect("a store in memory can be read");
        actor::load_inbox(namespace, &*snapshot).expect("an inbox can be read")
    }

    /// Does what a turn asks for.
    fn commit(&mut self, namespace: &Namespace, turn: Turn) -> Committed {
        for location in turn.cancel {
            let cancelled: Vec<_> = self
                .pending
                .extract_if(.., |pending| pending.location == location)
                .collect();
            self.cancelled_attempts += cancelled.len() as u64;
            if let Some(late) = &mut self.late {
                late.extend(cancelled.into_iter().map(|pending| (pending.location, pending.id)));
            }
        }
        turn.begin.into_iter().for_each(|begin| self.attempt(begin));
        self.warnings.extend(turn.warnings.iter().map(ToString::to_string));
        let Some(commit) = turn.commit else {
            return Committed::Nothing;
        };
        self.commits += 1;
        if self.plan == Plan::CrashBefore(self.commits) {
            self.at_crash = self.history(namespace.instance().as_str());
            self.died_running = !self.pending.is_empty();
            return Committed::Lost;
        }
        self.write(commit).expect("the commit of an instance is accepted");
        self.incidents.extend(turn.incidents);
        self.died_running = !self.pending.is_empty();
        if self.plan == Plan::CrashAfter(self.commits) {
            self.at_crash = self.history(namespace.instance().as_str());
            return Committed::Lost;
        }
        Committed::Durable
    }

    /// What has something left to do at once has to be found by the next process, or nobody would ever do it.
    fn comes_back(&self, execution: &Execution) {
        let status = execution.stands();
        assert!(
            matches!(
                status,
                Status::Running | Status::Compensating | Status::Paused | Status::BackingOff
            ),
            "it has more to do and would not be activated as {status:?}; seed {}",
            self.seed
        );
    }

    /// A replay that changes nothing writes nothing.
    fn audit(&self, namespace: &Namespace) {
        let mut again = self.load(namespace, false).expect("the instance has not ended");
        let turn = again.turn(self.clock.now_ms());
        let turn = turn.unwrap_or_else(|divergence| panic!("loaded again, seed {}: {divergence}", self.seed));
        assert!(
            turn.commit.is_none(),
            "loaded again at rest it wrote something; seed {}",
            self.seed
        );
    }

    /// What is due happens. Tells whether there was anything.
    fn happen(&mut self, namespace: &Namespace, execution: &mut Execution) -> bool {
        let told = self.tell_due(namespace);
        if told {
            execution.refresh_inbox(self.inbox(namespace));
        }
        let now = self.clock.now_ms();
        for (location, id) in self.late.iter().flatten() {
            let result = self.store.codecs().pack(&"late").expect("a text can be stored");
            execution.attempt_ended(location, *id, AttemptEnd::Returned(Ok(result)), now);
        }
        let mut ended = 0;
        while let Some(pending) = self.next_pending(now) {
            let Pending { location, id, end, .. } = pending;
            if let Some(late) = &mut self.late {
                late.push((location.clone(), id));
            }
            execution.attempt_ended(&location, id, end, now);
            ended += 1;
            if self.spread.is_none() {
                break;
            }
        }
        told || ended > 0
    }

    fn next_at_ms(&self, namespace: &Namespace, alarm_at_ms: Option<Millis>) -> Option<Millis> {
        let attempts = self.pending.iter().map(|pending| pending.ends_at_ms);
        let planned = self
            .planned
            .iter()
            .filter(|(_, (instance, _))| instance == namespace.instance());
        let planned = planned.map(|((at, _), _)| *at);
        attempts.chain(planned).chain(alarm_at_ms).min()
    }

    /// Runs an attempt to its end. It has had its effect, whatever becomes of its result.
    fn attempt(&mut self, begin: Begin) {
        let (location, id, number, path) = (begin.location.clone(), begin.id, begin.number, begin.path());
        self.begun.push((self.lives, path.clone(), number));
        let end = self.runtime.block_on(actor::run_attempt(begin, (), || (), || ()));
        let Some(end) = end else {
            return;
        };
        let now = self.clock.now_ms();
        let ends_at_ms = self.spread.map_or(now, |(points, apart)| {
            let point = self.luck(&path, number) % points;
            let after = point * u64::try_from(apart.as_millis()).unwrap_or(u64::MAX);
            now.max(BEGINNING_MS.saturating_add(after))
        });
        self.pending.push(Pending {
            ends_at_ms,
            luck: self.luck(&path, number),
            location,
            id,
            end,
        });
    }

    /// The same whenever it is asked about the same attempt.
    fn luck(&self, path: &str, number: u32) -> u64 {
        xxh3_64_with_seed(format!("{path} {number}").as_bytes(), self.seed)
    }

    /// Which of the attempts that have ended by now is looked at first.
    fn next_pending(&mut self, now: Millis) -> Option<Pending> {
        let due = self
            .pending
            .iter()
            .enumerate()
            .filter(|(_, pending)| pending.ends_at_ms <= now);
        let chosen = due.min_by_key(|(_, pending)| (pending.ends_at_ms, pending.luck));
        let at = chosen.map(|(at, _)| at)?;
        Some(self.pending.remove(at))
    }
}

/// What became of the commit of a turn.
enum Committed {
    Nothing,
    Durable,
    Lost,
}
