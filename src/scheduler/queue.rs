//! Who waits to be activated, in a fair order.

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::sync::Arc;

use crate::ids::InstanceId;
use crate::limits::LANE_ROOM_MIN;
use crate::scheduler::turns::Turns;
use crate::storage::record::Priority;

/// Ids that wait, one lane for each workflow, served by priority and in turn: a flood of one does not hold up the others.
/// Every lane has room of its own, so that a flood does not take the others' either. What does not fit is not kept: it
/// has a row in the store.
#[derive(Debug)]
pub(crate) struct WakeQueue {
    /// In an order that is the same in every process: those who are held up are seen to in it.
    lanes: BTreeMap<Arc<str>, Lane>,
    /// Lanes with something in them.
    turns: Turns<Arc<str>>,
    waiting: HashSet<InstanceId>,
    lane_most: usize,
    /// Lanes that somebody waits for: they had no room, or more in them than whoever looked wanted, and have had since.
    full: BTreeSet<Arc<str>>,
    /// Whether nobody is to be activated for now.
    held_back: bool,
    /// Starts on their way that mind how many wait. They are not offered yet, and are counted all the same.
    pub(crate) coming: usize,
}

#[derive(Debug, Default)]
struct Lane {
    /// By priority.
    ids: [VecDeque<InstanceId>; 3],
    /// How many of the lane are activated, and how many may be.
    active: usize,
    most: Option<usize>,
    /// Whether nobody of it is to be activated for now.
    held_back: bool,
}

impl Lane {
    fn len(&self) -> usize {
        self.ids.iter().map(VecDeque::len).sum()
    }

    fn may_run(&self) -> bool {
        !self.held_back && !self.is_at_limit()
    }

    fn is_at_limit(&self) -> bool {
        self.most.is_some_and(|most| self.active >= most)
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
        let mut lanes: BTreeMap<_, _> = workflows.into_iter().map(|(name, most)| (name, lane(most))).collect();
        lanes.entry(Arc::from("")).or_default();
        let lane_most = (most / lanes.len()).max(LANE_ROOM_MIN);
        Self {
            lanes,
            turns: Turns::default(),
            waiting: HashSet::new(),
            lane_most,
            full: BTreeSet::new(),
            held_back: false,
            coming: 0,
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
        if self.held_back {
            return None;
        }
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
        !self.held_back && self.turns.any(|_, lane| self.lanes[lane].may_run())
    }

    /// Lanes in which somebody waits because as many are activated as may be.
    pub(crate) fn held_up(&self) -> Vec<Arc<str>> {
        let held_up = |lane: &Lane| lane.len() > 0 && lane.is_at_limit();
        let lanes = self.lanes.iter().filter(|(_, lane)| held_up(lane));
        lanes.map(|(name, _)| Arc::clone(name)).collect()
    }

    /// Has nobody of a lane, or of all lanes, be activated for now, or lets them go on.
    pub(crate) fn hold_back(&mut self, lane: Option<&Arc<str>>, held_back: bool) {
        match lane {
            None => self.held_back = held_back,
            Some(lane) => {
                if let Some(lane) = self.lanes.get_mut(lane) {
                    lane.held_back = held_back;
                }
            }
        }
    }

    /// Whether anybody is held back.
    pub(crate) fn holds_back(&self) -> bool {
        self.held_back || self.lanes.values().any(|lane| lane.held_back)
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

    /// Whether fewer than so many wait, those on their way included, and a lane is not full.
    pub(crate) fn has_room_for_another(&self, lane: &Arc<str>, fewer_than: usize) -> bool {
        let is_full = |lane: &Lane| lane.len() + self.coming >= self.lane_most;
        self.len() + self.coming < fewer_than && !self.lanes.get(lane).is_some_and(is_full)
    }

    /// Whether at most half of a lane's room is used. If not, [`WakeQueue::next`] tells when it is: whoever asks has
    /// something for the lane and does not ask again before that.
    pub(crate) fn wants_more(&mut self, lane: &Arc<str>) -> bool {
        let low = self.is_low(lane);
        if !low {
            self.full.insert(Arc::clone(lane));
        }
        low
    }

    fn is_low(&self, lane: &Arc<str>) -> bool {
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
    fn who_is_held_back_waits_and_the_others_do_not() {
        let (failing, fine) = (lane("failing"), lane("fine"));
        let mut queue = WakeQueue::new(1000, [(Arc::clone(&failing), None), (Arc::clone(&fine), None)]);
        queue.hold_back(Some(&failing), true);
        for (lane, name) in [(&failing, "failing"), (&fine, "fine")] {
            queue.offer(lane, Priority::Normal, &id(name));
        }
        assert_eq!((served(&mut queue), queue.is_ready()), (vec!["fine".to_owned()], false));
        queue.hold_back(Some(&failing), false);
        queue.hold_back(None, true);
        assert_eq!((served(&mut queue).len(), queue.is_ready()), (0, false));
        queue.hold_back(None, false);
        assert_eq!(served(&mut queue), ["failing"]);
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

    /// Found in review: whoever had more for a lane that was neither low nor full waited to be told that it had room,
    /// and only a lane that had turned somebody away told.
    #[test]
    fn a_lane_tells_whoever_has_more_for_it_when_it_is_low() {
        let mut queue = WakeQueue::new(20, []);
        let only = lane("");
        for number in 0..15 {
            queue.offer(&only, Priority::Normal, &id(&format!("i{number}")));
        }
        assert!(!queue.wants_more(&only));
        let room: Vec<_> = (0..15).map(|_| queue.next().unwrap().has_room).collect();
        assert_eq!(room.iter().position(|has_room| *has_room), Some(4), "ten are left");
        assert!(queue.wants_more(&only));
    }
}
