//! Every bound of the system, each with its reason.
//!
//! A bound that can be reached by a user has an error of its own; the comment names its code.

/// Bytes in an instance or message id (`ES0101`). Long enough for two UUIDs and a path of names, short enough that
/// a key stays far below what every engine takes.
pub const ID_BYTES_MAX: usize = 200;

/// Bytes in a workflow's type name or in a name inside a workflow (`ES0102`).
pub const NAME_BYTES_MAX: usize = 200;

/// Tags of an instance (`ES0409`). Every listing row carries them, so they have to stay few.
pub const TAGS_MAX: usize = 32;

/// Bytes in the key or in the value of a tag (`ES0409`).
pub const TAG_BYTES_MAX: usize = 200;

/// Segments in a location (`ES0103`). Deeper nesting is a recursion that should be a child; the bound also keeps
/// key decoding from recursing.
pub const LOCATION_DEPTH_MAX: usize = 64;

/// Bytes in a packed key (`ES0221`). FoundationDB, the strictest engine that the trait has to carry, takes 10,000.
pub const KEY_BYTES_MAX: usize = 8 * 1024;

/// Bytes in one stored value, envelope included (`ES0215`). A value of this size still fits into one commit of
/// every engine, and an instance that needs more should store a reference.
pub const VALUE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Bytes of all operations of one commit (`ES0215`). FoundationDB takes 10 MB for a transaction.
pub const COMMIT_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Commits that may wait for the committer. Past this callers wait, or get `ES0213` if they asked not to: a queue
/// that is longer than two groups only adds latency.
pub const COMMIT_QUEUE_MAX: usize = 8 * 1024;

/// Bytes of the commits that may wait for the committer. Past this callers wait, or get `ES0213`, as for the number of
/// them: a commit may be megabytes, and so many would fill the memory.
pub const COMMIT_QUEUE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Commits in one group. More than this in one batch gains nothing measurable and delays the first.
pub const GROUP_COMMITS_MAX: usize = 4 * 1024;

/// Bytes in one group, so that a flood of large values does not build one giant batch in memory.
pub const GROUP_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Messages that an instance has seen, that one commit forgets when the instance is deleted. There is no limit to how many
/// it sees in its life.
pub const SEEN_AT_ONCE_MAX: usize = 2_048;

/// Rows that one page of a scan holds at most.
pub const PAGE_ROWS_MAX: usize = 1024;

/// Bytes of all rows that one page of a scan holds, and of one row more: a page of the largest rows would be gigabytes.
pub const PAGE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Shards of one store. An embedded store gains nothing from more than a few; a cluster fixes the number when the
/// store is made.
pub const SHARDS_MAX: u16 = 1024;

/// Bytes in one line of an import file (`ES0231`): a value in hexadecimal and a key, with room to spare.
pub const IMPORT_LINE_BYTES_MAX: usize = 2 * (VALUE_BYTES_MAX + KEY_BYTES_MAX) + 4096;

/// Findings that a report of `verify` lists. All are counted; a store with more wrong than this has one cause.
pub const FINDINGS_MAX: usize = 1000;

/// The highest epoch that an imported message may carry (`ES0231`). A store counts its own epochs from there, so this
/// leaves room for as many restarts as anyone will live to see.
pub const ARRIVAL_EPOCH_MAX: u64 = 1 << 48;

/// Alarms that the scheduler keeps in memory. The rest stay on disk until the window has moved on, so the number of
/// sleeping instances does not show in memory.
pub const ALARM_WINDOW_MAX: usize = 1024;

/// The least alarms of one shard that it keeps in memory, however many shards there are.
pub const ALARM_WINDOW_MIN: usize = 16;

/// Alarms that ring before somebody else has a turn.
pub const ALARMS_AT_ONCE_MAX: usize = 64;

/// How long the alarms of a shard are left alone that could not be read.
pub const ALARMS_BACKOFF: std::time::Duration = std::time::Duration::from_secs(1);

/// The longest wait for a time of the wall clock: one that was set forward is noticed after this long at the latest.
pub const CLOCK_WAIT_MAX: std::time::Duration = std::time::Duration::from_secs(10);

/// The longest single timer: those of the executor end after two years, and whatever is longer takes several.
pub const TIMER_MAX: std::time::Duration = std::time::Duration::from_secs(365 * 24 * 60 * 60);

/// Messages whose instances have not said that they saw them, that the committer remembers. Past this it forgets, and
/// some instances are activated once too often at the next start.
pub const UNSEEN_DELIVERIES_MAX: usize = 64 * 1024;

/// Messages in one inbox (ES0414), unless the configuration says otherwise. Whoever runs an instance has its inbox in
/// memory, and a sender that is faster for so long has to hear of it.
pub const INBOX_MAX: usize = 10_000;

/// Bytes of the messages in one inbox (ES0414), unless the configuration says otherwise. The same reason: all of it is read
/// when the instance is activated, and so many of the largest messages would be gigabytes. As much as a history.
pub const INBOX_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Inboxes whose messages the committer keeps count of. Past this it forgets, and reads each once more.
pub const INBOX_COUNTS_MAX: usize = 64 * 1024;

/// Instances in memory, and attempts that run, at most (`ES0105`). Each costs kilobytes; nobody has use for more.
pub const RESIDENTS_MAX: usize = 1_000_000;

/// Threads that run user code (`ES0105`). More than cores only help code that blocks where it should not.
pub const WORKERS_MAX: usize = 1024;

/// Threads for steps that block, however many attempts may run at once. Each takes memory of its own; whoever waits for
/// one has not begun.
pub const BLOCKING_THREADS_MAX: usize = 4 * 1024;

/// How long the end of a runtime waits for a thread that is blocked, after the grace of its attempts is over. What blocks
/// it holds nothing of the store.
pub const THREADS_END: std::time::Duration = std::time::Duration::from_secs(1);

/// How often, and how long each time, a runtime waits for one of the same process to let go of the store: that one was
/// dropped a moment ago, and the last of its tasks is about to end.
pub const STORE_WAITS: (u32, std::time::Duration) = (100, std::time::Duration::from_millis(10));

/// How long a suspect runs alone. What kills a process does it soon; the others can't wait for as long as a step takes.
pub const PROBATION_TIME: std::time::Duration = std::time::Duration::from_secs(5);

/// Instances that are charged at once for the death of the process before: enough for their commits to share a sync.
pub const CHARGES_MAX: usize = 256;

/// Deaths of the process, without getting anywhere in between, after which an instance runs alone among the suspects.
/// The first death charges everyone who had something running, and most of them are innocent: they go on together.
pub const DEATHS_BEFORE_PROBATION: u32 = 2;

/// Breakdowns of an instance, with nothing good in between, before it is put into quarantine. A breakdown is a defect
/// of the runtime, of a destructor or of a function that panics; what steps come to is handled elsewhere.
pub const PUMP_FAILURES_MAX: u32 = 5;

/// Panics of the function of an instance, one after the other, before it is put into quarantine. What panics the same way
/// three times more is a mistake that only other code mends. Fewer than the breakdowns above: it is kept with its failure.
pub const PANICS_MAX: u32 = 4;

/// How long an instance that broke down waits before it is activated again: at first, and at most.
pub const RESTART_BACKOFF: (std::time::Duration, std::time::Duration) = (
    std::time::Duration::from_millis(100),
    std::time::Duration::from_secs(60),
);

/// Between two such activations, whoever they are for: a storm of failures does not become a storm of restarts.
pub const RESTARTS_APART: std::time::Duration = std::time::Duration::from_millis(10);

/// Breakdowns of one workflow, or for want of a store, within [`BREAKER_WINDOW`], before the next ones are held back. A
/// single instance is put aside long before it has so many.
pub const BREAKER_BREAKDOWNS_MAX: u32 = 100;

/// The time in which so many breakdowns are one too many.
pub const BREAKER_WINDOW: std::time::Duration = std::time::Duration::from_secs(10);

/// Breakdowns, after having been held back, that are enough to be held back again.
pub const BREAKER_TRIES: u32 = 10;

/// How long the next ones are held back: at first, and at most.
pub const BREAKER_BACKOFF: (std::time::Duration, std::time::Duration) =
    (std::time::Duration::from_secs(1), std::time::Duration::from_secs(60));

/// How long a service of the runtime that panicked waits before it begins again.
pub const SERVICE_BACKOFF: std::time::Duration = std::time::Duration::from_secs(1);

/// Between two sweeps of what has been kept for long enough.
pub const SWEEP_EVERY: std::time::Duration = std::time::Duration::from_secs(60);

/// How long it is remembered that an instance was deleted: long enough for whoever still holds its id to hear so, and
/// not for ever, since ids never end.
pub const TOMBSTONE_KEPT: std::time::Duration = std::time::Duration::from_secs(30 * 24 * 60 * 60);

/// Ids that wait to be activated. More stay in the store, as rows, until there is room again.
pub const WAKE_QUEUE_MAX: usize = 2 * 1024;

/// The least room that a lane of those ids has, however many lanes there are.
pub const LANE_ROOM_MIN: usize = 16;

/// How long to wait before reading again who has to run, when that could not be read: at first, and at most.
pub const FEED_BACKOFF: (std::time::Duration, std::time::Duration) = (
    std::time::Duration::from_millis(100),
    std::time::Duration::from_secs(30),
);

/// Instances with one key that may run at once (`ES0431`). Whoever leaves reads the places of all that run, so for more
/// than this the limit of a workflow or of a queue is the better one.
pub const GATE_LIMIT_MAX: u32 = 1024;

/// Attempts of one queue that a rate may let begin in its time (`ES0105`): each is a timer for that long.
pub const QUEUE_RATE_MAX: usize = 100_000;

/// How many a start may find waiting before it is refused or waits itself: they are counted each time.
pub const CROWD_MAX: usize = 10_000;

/// The longest wait (`ES0104`): a hundred years. Whatever is longer is a mistake, and a wake time beyond it could
/// overflow.
pub const DURATION_MAX: std::time::Duration = std::time::Duration::from_secs(100 * 366 * 24 * 60 * 60);

/// Failed attempts of a step whose details are kept; older ones only count.
pub const ATTEMPTS_KEPT_MAX: usize = 16;

/// Bytes of what one commit of an instance takes out of its inbox, the first always taken. Several large ones in one
/// commit would be more than a commit may hold; the rest is taken by the next one.
pub const TAKEN_BYTES_MAX: usize = 1024 * 1024;

/// Bytes in what one instance sends to another: a message, an event, the input of a child (`Limit`). Half of a commit
/// is left for everything else that the same decision writes.
pub const MESSAGE_BYTES_MAX: usize = 2 * 1024 * 1024;

/// What one commit of an instance may send to others. More goes with the commits after it, so a parent of a thousand
/// children never builds a commit that no engine takes.
pub const OUTGOING_MAX: usize = 256;

/// Bytes of what one commit of an instance may send to others.
pub const OUTGOING_BYTES_MAX: usize = 2 * 1024 * 1024;

/// Children of one instance that have not ended and were not let go (`Limit`). Telling all of them to end takes their
/// ids and no more, so with the longest ids it still fits into the commit that ends the instance: that is one decision
/// however many there are.
pub const CHILDREN_OPEN_MAX: usize = 16 * 1024;

/// Children that one row of the outbox tells to end: as many as the courier delivers in one commit.
pub const CLOSING_MAX: usize = 256;

/// Children that one commit of an instance that goes on tells to end. Each is also recorded as closed, which takes its
/// whole entry; the rest goes with the commits after it.
pub const CLOSED_AT_ONCE_MAX: usize = 2 * 1024;

/// Senders whose outboxes the courier empties at once: enough for their commits to share a sync.
pub const COURIER_SENDERS_MAX: usize = 64;

/// Children that the courier ends at once: enough for their commits to share a sync. One that runs and never awaits keeps a
/// place for as long, and nothing else that is carried.
pub const COURIER_ENDINGS_MAX: usize = 1024;

/// Senders that the courier remembers it could not carry everything for. Past this it forgets, and tries theirs again
/// whenever anybody has something to carry.
pub const COURIER_HELD_MAX: usize = 4 * 1024;

/// Targets that the courier remembers of one sender that could not be delivered to. Past this everything of it waits.
pub const COURIER_HELD_TARGETS_MAX: usize = 1024;

/// Rows that can't be read, that the courier tells of by name. A store with more has one cause, and `verify` lists them.
pub const COURIER_UNREADABLE_MAX: usize = 1024;

/// How long the courier waits before it tries again for the first time.
pub const COURIER_BACKOFF_MIN: std::time::Duration = std::time::Duration::from_millis(50);

/// How long the courier waits at most before it tries again what could not be delivered for now.
pub const COURIER_BACKOFF_MAX: std::time::Duration = std::time::Duration::from_secs(30);

/// What the code comes to by itself (what it says, loops, compensations) and that has gathered for one commit: with more,
/// nothing is delivered to it before that is stored. What it may do at one place comes on top.
pub const GATHERED_BYTES_MAX: usize = COMMIT_BYTES_MAX / 8;

/// Events that an instance may wait for at a time. When it drops all of these waits at once, one commit tells their topics.
pub const EVENT_WAITS_MAX: usize = 4 * 1024;

/// Bytes of one thing that the code says to the outside: an item, a published value, an answer (`ES0107`). What is
/// larger belongs where files are kept; say where it is.
pub const SAID_ITEM_BYTES_MAX: usize = 256 * 1024;

/// Bytes of all that the code says between two operations (`ES0107`): it becomes one commit.
pub const SAID_BYTES_MAX: usize = 1024 * 1024;

/// Bytes that each thing that the code says counts for, beside itself and its name: its row has a key, too.
pub const SAID_ROW_BYTES: usize = 256;

/// Names under which the code of an instance may publish values (`ES0306`). All of them go in one commit when another run
/// begins; many values belong into one.
pub const PUBLISHED_NAMES_MAX: usize = 1024;

/// Questions that the code of an instance may have taken and not answered (`ES0307`). All of them are answered in the
/// commit that ends it.
pub const QUESTIONS_OPEN_MAX: usize = 4 * 1024;

/// Unread questions that the last commit of an instance answers. Whoever asked one of the others finds that the instance
/// has ended, which comes to the same.
pub const UNREAD_ANSWERED_MAX: usize = 4 * 1024;

/// Different names that the operations of an instance may have (`ES0305`). They are kept for as long as the instance is,
/// also through loops and new runs, and all of them are in memory.
pub const NAMES_MAX: usize = 1_000_000;

/// Bytes of new names, and of the rows of what is begun, that the code may ask for between two commits (`ES0305`): half of
/// a commit, so that what else belongs to the same decision fits as well.
pub const ASKED_BYTES_MAX: usize = COMMIT_BYTES_MAX / 2;

/// How often in a row a function that waits for none of its operations is polled again, because it may have yielded to the
/// executor. One that is still not ready then waits for something else, which is a misuse.
pub const YIELDS_MAX: usize = 1000;

/// Emitted items that are kept of an instance; older ones go. Who follows an instance is seldom this far behind, and a
/// loop that emits for ever stays flat on disk.
pub const EMITTED_KEPT_MAX: u64 = 10_000;

/// Items that a listener may be behind what an instance broadcasts. Past this it misses the oldest: what is not stored
/// must not pile up in memory either.
pub const BROADCASTS_BEHIND_MAX: usize = 256;

/// Bytes in one stored value of a user: a result, a state, an output (`ES0301`). With the rest of its record it has to
/// fit into [`VALUE_BYTES_MAX`].
pub const PAYLOAD_BYTES_MAX: usize = 2 * 1024 * 1024;

/// From here on a stored value is worth a warning: it is read back whole whenever the instance is activated.
pub const PAYLOAD_BYTES_WARN: usize = 512 * 1024;

/// Entries in the history of an instance (`ES0302`). Activating an instance of this size takes half a second; one that
/// needs more has a loop in it that should be a `repeat`.
pub const HISTORY_ENTRIES_MAX: u64 = 100_000;

/// From here on the number of entries is worth a warning.
pub const HISTORY_ENTRIES_WARN: u64 = 20_000;

/// Entries that the history of an instance may be allowed to have (`ES0105`). All of them are read and replayed whenever
/// the instance is activated: past this that takes many seconds.
pub const HISTORY_ENTRIES_CEILING: u64 = 1_000_000;

/// Bytes in the history of an instance (`ES0303`). All of it is in memory while the instance is resident.
pub const HISTORY_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Bytes that the history of an instance may be allowed to have (`ES0105`).
pub const HISTORY_BYTES_CEILING: u64 = 1024 * 1024 * 1024;

/// From here on the size of a history is worth a warning.
pub const HISTORY_BYTES_WARN: u64 = 16 * 1024 * 1024;

/// Operations, branches or items in one scope (`ES0304`). A join of so many branches with the longest names still fits
/// into one value.
pub const SCOPE_ENTRIES_MAX: u64 = 20_000;

/// Bytes of completions that one commit of an instance gathers. What ends together and is more goes into the next ones,
/// in order; half of a commit is left for everything else that the same decision writes.
pub const COMPLETION_BYTES_MAX: usize = COMMIT_BYTES_MAX / 4;

/// Commits that a test waits for before it says that something never comes: a loop that sleeps for ever makes them in
/// no time, and the test would never end.
pub const TEST_COMMITS_MAX: u64 = 10_000;

/// Virtual time that a test waits before it says that something never comes. Longer than anything that a workflow waits
/// for; when nothing is left to happen, it passes at once.
pub const TEST_PATIENCE: std::time::Duration = std::time::Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// Bytes of the text of a failure that are kept.
pub const FAILURE_TEXT_BYTES_MAX: usize = 4 * 1024;

/// Causes of a failure that are kept.
pub const FAILURE_PARTS_MAX: usize = 32;

/// Bytes of a failure that are kept, with its causes and the branches that it is made of: a few hundred branches that
/// failed alike. The attempts at a step are one value, and each may have failed like this.
pub const FAILURE_BYTES_MAX: usize = 64 * 1024;

/// Names of steps that were made and never awaited that one run tells the log of. A loop may make any number of them, and
/// they have one cause.
pub const UNAWAITED_TOLD_MAX: usize = 32;

/// Failures inside each other that are read. What is kept has fewer; a file that has more was made to overflow the stack.
pub const FAILURE_DEPTH_MAX: usize = 256;

/// How often at most the progress that heartbeats tell is stored.
pub const PROGRESS_EVERY: std::time::Duration = std::time::Duration::from_secs(1);

/// How long an attempt that was cancelled and asked to hear of it may go on.
pub const CANCELLED_GRACE: std::time::Duration = std::time::Duration::from_secs(10);

/// The stack of a thread that runs user code. Until it has its place on the heap a future is copied along the stack,
/// several times where nothing is optimised, and a stack that overflows ends the process. Memory that is never touched
/// costs nothing but addresses; the main thread of a process has as much.
pub const WORKER_STACK_BYTES: usize = 8 * 1024 * 1024;

/// Changes that wait for whoever watches all instances. A watcher that is further behind is told how many it missed:
/// keeping them would let a slow reader fill the memory.
pub const WATCH_CHANGES_MAX: usize = 1024;

/// Notes that a topic takes in one commit, so that what it hands out fits into one.
pub const TOPIC_NOTES_MAX: usize = OUTGOING_MAX;

/// Bytes of one event (`Limit`, `ES0215`). An event says that something happened; what is larger belongs where files are
/// kept, and the event says where.
pub const EVENT_BYTES_MAX: usize = 256 * 1024;

/// Events that a topic keeps for whoever comes to wait for them; the oldest is forgotten for one more. A topic is no
/// queue for work: that has instances of its own.
pub const TOPIC_EVENTS_MAX: usize = 1024;

/// Bytes of the events that a topic keeps: with those who wait they are one value of the store.
pub const TOPIC_EVENT_BYTES_KEPT: usize = 512 * 1024;

/// Bytes of the events for one that are handed out and not taken yet. Past this an event waits among those that are kept,
/// for [`TOPIC_LENT_MIN`] at most.
pub const TOPIC_EVENT_BYTES_LENT: usize = 512 * 1024;

/// For so long at least an event for one is kept aside for others, once it was handed out. After that, if there is no room
/// to keep another one aside, it counts as taken: whoever has it may be paused for months, and others wait.
pub const TOPIC_LENT_MIN: std::time::Duration = std::time::Duration::from_secs(60);

/// Instances that may wait for one event (`Limit`).
pub const TOPIC_WAITERS_MAX: usize = 16 * 1024;

/// Bytes of the names of those who wait for one event (`Limit`): room for ten thousand of them, if their ids are not
/// longer than seventy bytes.
pub const TOPIC_WAITER_BYTES_MAX: usize = 1024 * 1024;

/// Bytes of everything that a topic remembers: what is kept, handed out, waits, and the events for all that came with the
/// last notes. One value of the store, so it is below [`VALUE_BYTES_MAX`].
pub const TOPIC_BOARD_BYTES_MAX: usize = VALUE_BYTES_MAX - 256 * 1024;

/// The shortest interval of a schedule (`ES0121`). What has to happen more often than this is a loop with a sleep in
/// it, which starts no instance each time.
pub const SCHEDULE_INTERVAL_MIN: std::time::Duration = std::time::Duration::from_secs(1);

/// How late a slot of a schedule may begin and still be on time. Past this there was a downtime, and the schedule's
/// policy for catching up decides; a busy moment must not look like one.
pub const SCHEDULE_LATE_MAX: std::time::Duration = std::time::Duration::from_secs(60);

/// Slots that a schedule catches up with after a downtime, at most, and slots that may wait in its queue. They are part
/// of its state, which is written with every slot.
pub const SCHEDULE_WAITING_MAX: usize = 1000;

/// Slots that a schedule begins in one commit. The rest goes with the ones after it.
pub const SCHEDULE_STARTS_MAX: usize = 64;

/// Instances that a batch writes down before it operates on them: as much as is done again after a crash.
pub const BATCH_PAGE_MAX: usize = 100;

/// Instances that a batch operates on at once: enough for their commits to share a sync.
pub const BATCH_AT_ONCE_MAX: usize = 16;

/// Failures that a batch tells of. All are counted; with more than this there is one cause.
pub const BATCH_FAILURES_KEPT_MAX: usize = 32;
