//! Who waits to be activated, in a fair order.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use crate::ids::InstanceId;
use crate::scheduler::turns::Turns;
use crate::storage::record::Priority;

/// The least room that a lane has, however many there are.
const LANE_LEAST: usize = 16;

/// Ids that wait, one lane for each workflow, served by priority and in turn: a flood of one does not hold up the others.
/// Every lane has room of its own, so that a flood does not take the others' either. What does not fit is not kept: it
/// has a row in the store.
#[derive(Debug)]
pub(crate) struct WakeQueue {
    lanes: HashMap<Arc<str>, Lane>,
    /// Lanes with something in them.
    turns: Turns<Arc<str>>,
    waiting: HashSet<InstanceId>,
    lane_most: usize,
    /// Lanes that had no room for somebody, and have had none since.
    full: BTreeSet<Arc<str>>,
}

#[derive(Debug, Default)]
struct Lane {
    /// By priority.
    ids: [VecDeque<InstanceId>; 3],
    /// How many of the lane are activated, and how many may be.
    active: usize,
    most: Option<usize>,
}

impl Lane {
    fn len(&self) -> usize {
        self.ids.iter().map(VecDeque::len).sum()
    }

    fn may_run(&self) -> bool {
        self.most.is_none_or(|most| self.active < most)
    }
}

/// What became of an id that was offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Offered {
    /// It waits, or waited already.
    Waits,
    /// There is no room.
    Full,
}

/// Somebody whose turn it is.
#[derive(Debug)]
pub(crate) struct Next {
    pub(crate) lane: Arc<str>,
    pub(crate) instance: InstanceId,
    /// Whether the lane has room again for those that it had none for.
    pub(crate) has_room: bool,
}

impl WakeQueue {
    /// A queue of about so many ids with a lane for each of these workflows, and one for all others. With each comes how
    /// many of it may be activated.
    pub(crate) fn new(most: usize, workflows: impl IntoIterator<Item = (Arc<str>, Option<usize>)>) -> Self {
        let lane = |most| Lane {
            most,
            ..Lane::default()
        };
        let mut lanes: HashMap<_, _> = workflows.into_iter().map(|(name, most)| (name, lane(most))).collect();
        lanes.entry(Arc::from("")).or_default();
        let lane_most = (most / lanes.len()).max(LANE_LEAST);
        Self {
            lanes,
            turns: Turns::default(),
            waiting: HashSet::new(),
            lane_most,
            full: BTreeSet::new(),
        }
    }

    /// The lane of a workflow.
    pub(crate) fn lane(&self, workflow: &str) -> Arc<str> {
        let known = self.lanes.get_key_value(workflow);
        known.map_or_else(|| Arc::from(""), |(name, _)| Arc::clone(name))
    }

    /// All lanes.
    pub(crate) fn lanes(&self) -> impl Iterator<Item = &Arc<str>> {
        self.lanes.keys()
    }

    /// Puts an id behind the others of its lane and priority.
    pub(crate) fn offer(&mut self, lane: &Arc<str>, priority: Priority, instance: &InstanceId) -> Offered {
        if self.waiting.contains(instance) {
            return Offered::Waits;
        }
        let Some(waiting) = self.lanes.get_mut(lane) else {
            return Offered::Full;
        };
        if waiting.len() >= self.lane_most {
            self.full.insert(Arc::clone(lane));
            return Offered::Full;
        }
        let ids = &mut waiting.ids[priority as usize];
        if ids.is_empty() {
            self.turns.add(priority, Arc::clone(lane));
        }
        ids.push_back(instance.clone());
        self.waiting.insert(instance.clone());
        Offered::Waits
    }

    /// The next id whose workflow has room. It counts as activated until [`WakeQueue::left`].
    pub(crate) fn next(&mut self) -> Option<Next> {
        let lanes = &self.lanes;
        let (priority, name) = self.turns.take(|_, lane| lanes[lane].may_run())?;
        let lane = self.lanes.get_mut(&name)?;
        let ids = &mut lane.ids[priority as usize];
        let instance = ids.pop_front()?;
        if !ids.is_empty() {
            self.turns.add(priority, Arc::clone(&name));
        }
        lane.active += 1;
        self.waiting.remove(&instance);
        let has_room = self.is_low(&name) && self.full.remove(&name);
        Some(Next {
            lane: name,
            instance,
            has_room,
        })
    }

    /// Whether there is somebody whom [`WakeQueue::next`] would give.
    pub(crate) fn is_ready(&self) -> bool {
        self.turns.any(|_, lane| self.lanes[lane].may_run())
    }

    /// An instance of this lane is not activated any more.
    pub(crate) fn left(&mut self, lane: &Arc<str>) {
        if let Some(lane) = self.lanes.get_mut(lane) {
            lane.active = lane.active.saturating_sub(1);
        }
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether at most half of a lane's room is used.
    pub(crate) fn is_low(&self, lane: &Arc<str>) -> bool {
        self.lanes.get(lane).is_none_or(|lane| lane.len() * 2 <= self.lane_most)
    }

    /// Forgets who waits.
    pub(crate) fn clear(&mut self) {
        self.turns.clear();
        self.waiting.clear();
        self.full.clear();
        for lane in self.lanes.values_mut() {
            lane.ids.iter_mut().for_each(VecDeque::clear);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> InstanceId {
        InstanceId::new(text).unwrap()
    }

    fn lane(name: &str) -> Arc<str> {
        name.into()
    }

    fn served(queue: &mut WakeQueue) -> Vec<String> {
        std::iter::from_fn(|| queue.next())
            .map(|next| next.instance.to_string())
            .collect()
    }

    /// FAULTS 67.
    #[test]
    fn one_flood_does_not_starve_the_others() {
        let mut queue = WakeQueue::new(1000, [(lane("flood"), None), (lane("quiet"), None)]);
        let flood = (0..1000).filter(|number| {
            let offered = queue.offer(&lane("flood"), Priority::Normal, &id(&format!("f{number}")));
            offered == Offered::Waits
        });
        assert_eq!(flood.count(), 333, "a third of the room, and no more");
        let offered = queue.offer(&lane("quiet"), Priority::Normal, &id("q"));
        assert_eq!(offered, Offered::Waits, "there is room for the other");
        let served: Vec<_> = served(&mut queue).into_iter().take(3).collect();
        assert!(served.contains(&"q".to_owned()), "{served:?}");
    }

    #[test]
    fn a_workflow_at_its_limit_waits_and_the_others_do_not() {
        let (narrow, wide) = (lane("narrow"), lane("wide"));
        let mut queue = WakeQueue::new(1000, [(Arc::clone(&narrow), Some(1)), (Arc::clone(&wide), None)]);
        for number in 0..3 {
            queue.offer(&narrow, Priority::Normal, &id(&format!("n{number}")));
            queue.offer(&wide, Priority::Normal, &id(&format!("w{number}")));
        }
        assert_eq!(served(&mut queue), ["n0", "w0", "w1", "w2"]);
        assert!(!queue.is_ready());
        queue.left(&narrow);
        assert_eq!(served(&mut queue), ["n1"]);
    }

    #[test]
    fn a_higher_priority_goes_first() {
        let mut queue = WakeQueue::new(1000, []);
        for (priority, name) in [
            (Priority::Low, "low"),
            (Priority::Normal, "normal"),
            (Priority::High, "high"),
        ] {
            queue.offer(&lane(""), priority, &id(name));
        }
        assert_eq!(served(&mut queue), ["high", "normal", "low"]);
    }

    #[test]
    fn what_waits_is_bounded_and_waits_once() {
        let mut queue = WakeQueue::new(20, []);
        let unknown = queue.lane("a workflow that nobody knows");
        for number in (0..20).chain(0..20) {
            let offered = queue.offer(&unknown, Priority::Normal, &id(&format!("i{number}")));
            assert_eq!(offered, Offered::Waits);
        }
        let one_more = queue.offer(&unknown, Priority::Normal, &id("one more"));
        assert_eq!((one_more, queue.len()), (Offered::Full, 20));
        let room: Vec<_> = (0..20).map(|_| queue.next().unwrap().has_room).collect();
        assert_eq!(room.iter().filter(|has_room| **has_room).count(), 1, "it is told once");
        assert!(room[9], "when half of it is free");
    }
}
