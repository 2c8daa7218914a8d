//! The limit: what a store could reach if it kept nothing but a log.
//!
//! The same tasks, a bounded channel, one thread that takes what waits, puts it into one buffer, writes and syncs it
//! once, and answers each. The file is what fjall's journal is: sparse, of a given length, and replaced when full.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use everstep::limits::{COMMIT_QUEUE_MAX, GROUP_COMMITS_MAX};
use tokio::sync::{mpsc, oneshot};

use super::commits::COMMIT_BYTES;
use super::round::{self, Writer};

const FILE_BYTES: u64 = 64 * 1024 * 1024;

/// The bare log and its writers. Its thread ends when the writers are gone.
pub(crate) struct Limit {
    pub(crate) writers: Vec<LimitWriter>,
}

pub(crate) struct LimitWriter {
    commit: Vec<u8>,
    queue: mpsc::Sender<Request>,
}

#[derive(Debug)]
struct Request {
    commit: Vec<u8>,
    reply: oneshot::Sender<u64>,
}

impl Limit {
    #[expect(clippy::disallowed_methods, reason = "the bench has one thread of its own")]
    pub(crate) fn start(directory: &Path, writers: usize) -> io::Result<Self> {
        let (queue, requests) = mpsc::channel(COMMIT_QUEUE_MAX);
        let mut log = Log::create(directory.join("limit"))?;
        std::thread::spawn(move || log.run(requests));
        let writer = |number: usize| LimitWriter {
            commit: vec![number as u8; COMMIT_BYTES],
            queue: queue.clone(),
        };
        Ok(Self {
            writers: (0..writers).map(writer).collect(),
        })
    }
}

impl Writer for LimitWriter {
    async fn commit(&mut self) -> Duration {
        let commit = self.commit.clone();
        let start = round::now();
        let (reply, answer) = oneshot::channel();
        let sent = self.queue.send(Request { commit, reply }).await;
        sent.expect("the log runs as long as there are writers");
        answer.await.expect("every commit is answered");
        round::now() - start
    }
}

struct Log {
    path: PathBuf,
    file: File,
    written: u64,
    sequence: u64,
}

impl Log {
    fn create(path: PathBuf) -> io::Result<Self> {
        let file = File::create(&path)?;
        file.set_len(FILE_BYTES)?;
        file.sync_all()?;
        Ok(Self {
            path,
            file,
            written: 0,
            sequence: 0,
        })
    }

    fn run(&mut self, mut requests: mpsc::Receiver<Request>) {
        let mut buffer = Vec::new();
        let mut replies = Vec::new();
        while let Some(first) = requests.blocking_recv() {
            let mut next = Some(first);
            while let Some(request) = next.take() {
                buffer.extend_from_slice(&request.commit);
                replies.push(request.reply);
                if replies.len() < GROUP_COMMITS_MAX {
                    next = requests.try_recv().ok();
                }
            }
            self.append(&buffer).expect("the disk takes the log");
            buffer.clear();
            for reply in replies.drain(..) {
                self.sequence += 1;
                // A writer that is gone does not want to know.
                let _ = reply.send(self.sequence);
            }
        }
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.written >= FILE_BYTES {
            std::fs::remove_file(&self.path)?;
            *self = Self {
                sequence: self.sequence,
                ..Self::create(self.path.clone())?
            };
        }
        self.file.write_all(bytes)?;
        self.file.sync_data()?;
        self.written += bytes.len() as u64;
        Ok(())
    }
}
