//! Every bound of the system, each with its reason.
//!
//! A bound that can be reached by a user has an error of its own; the comment names its code.

/// Bytes in an instance or message id (`ES0101`). Long enough for two UUIDs and a path of names, short enough that
/// a key stays far below what every engine takes.
pub const ID_BYTES_MAX: usize = 200;

/// Bytes in a workflow's type name or in a name inside a workflow (`ES0102`).
pub const NAME_BYTES_MAX: usize = 200;

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

/// Commits in one group. More than this in one batch gains nothing measurable and delays the first.
pub const GROUP_COMMITS_MAX: usize = 4 * 1024;

/// Bytes in one group, so that a flood of large values does not build one giant batch in memory.
pub const GROUP_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Rows that one page of a scan holds at most.
pub const PAGE_ROWS_MAX: usize = 1024;

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
pub const ALARM_WINDOW_MAX: usize = 4 * 1024;

/// The longest wait (`ES0104`): a hundred years. Whatever is longer is a mistake, and a wake time beyond it could
/// overflow.
pub const DURATION_MAX: std::time::Duration = std::time::Duration::from_secs(100 * 366 * 24 * 60 * 60);

/// Failed attempts of a step whose details are kept; older ones only count.
pub const ATTEMPTS_KEPT_MAX: usize = 16;
