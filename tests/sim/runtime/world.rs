//! One case: lives of a machine, one after the other, until everything has come to its end.

use std::time::Duration;

use everstep::clock::Clock;
use everstep::storage::record::Status;
use everstep::{Config, Runtime};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

use super::case::{Case, Ends, Life, Limits};
use super::chore::Chore;
use super::client::{self, Client};
use super::finish;
use super::inspect::inspect;
use super::interpreter::{Interpreter, News, Riddle};
use super::ledger::{self, InstanceSeen};
use super::machine::{Machine, Platter};
use super::mutation::Mutation;
use super::program::{Doom, Node, Program};
use super::trial;
use crate::chance::Chance;

/// The number of the caller who brings everything to its end.
const FINISHER: &str = "99";

/// How often the finisher looks, once a day, before something that has not ended is said to hang. Loops in loops that sleep
/// for two days each time take weeks.
const PATIENCE: u64 = 400;

/// How many of those who gather events may hear nothing.
const PATIENT_GATHERERS: usize = 20;

pub(crate) struct World<'a> {
    case: &'a Case,
    disk: Platter,
    now_ms: u64,
    clients: Vec<Client>,
    mutation: Option<Mutation>,
    /// Whether the store is asked what it thinks of itself, beside what the ledger thinks of it.
    verifies: bool,
}

impl<'a> World<'a> {
    pub(crate) fn new(case: &'a Case, mutation: Option<Mutation>) -> Self {
        ledger::open(Chance::new(case.seed));
        let client = |(number, acts): (usize, &Vec<_>)| Client::new(number as u64 + 1, acts.clone());
        Self {
            case,
            disk: Platter::default(),
            now_ms: Machine::beginning(),
            clients: case.clients.iter().enumerate().map(client).collect(),
            mutation,
            verifies: true,
        }
    }

    /// The same, judged by the ledger alone.
    pub(crate) fn unverified(mut self) -> Self {
        self.verifies = false;
        self
    }

    /// The same, in which so many commits are too many.
    pub(crate) fn commits_max(self, commits_max: u64) -> Self {
        ledger::with(|ledger| ledger.commits_max = commits_max);
        self
    }

    /// Runs to the end, and gives the trace, or what was seen that must not be.
    pub(crate) fn run(mut self) -> Result<Vec<String>, String> {
        for life in &self.case.lives {
            self.life(life);
            ledger::with(|ledger| ledger.verdict())?;
        }
        Ok(ledger::with(|ledger| std::mem::take(&mut ledger.trace)))
    }

    /// One life of the machine.
    fn life(&mut self, life: &Life) {
        let executor = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .event_interval(1)
            .build()
            .unwrap();
        ledger::with(|ledger| {
            ledger.note(format!("a life begins: {life:?}"));
            ledger.calm = life.ends == Ends::Finished;
            ledger.latest += 1;
            ledger.settles();
            if life.off_ms > 0 {
                ledger.was_off(self.now_ms + life.off_ms);
            }
        });
        let verifies = self.verifies;
        let config = config(&life.limits).shards(self.case.shards);
        let (clients, chance) = (&mut self.clients, &mut Chance::new(life.seed));
        self.now_ms += life.off_ms;
        let _turns = Machine::turns(chance, life.odds);
        self.now_ms = executor.block_on(async {
            let machine = Machine::new(&self.disk, self.now_ms, chance, life.odds, self.mutation);
            let living = async {
                let opening =
                    trial::registered(Runtime::builder().workflow(Interpreter).workflow(Chore)).config(config);
                let runtime = match opening.open_simulated(machine.simulated()).await {
                    Ok(runtime) => runtime,
                    Err(error) => return ledger::with(|ledger| ledger.note(format!("it could not begin: {error}"))),
                };
                // Nothing has run yet: this is what the life before left.
                inspect(runtime.store(), verifies);
                runtime.lose_nudges(Machine::loses(chance, life.odds));
                let length = Duration::from_millis(life.length_ms);
                match life.ends {
                    // In the last life nobody calls: what has to go on does so by itself.
                    Ends::Finished => finish(&runtime, verifies, life.limits.is_crowded()).await,
                    Ends::Killed => serve(&runtime, &machine, clients, length).await,
                    Ends::Stopped => {
                        serve(&runtime, &machine, clients, length).await;
                        runtime.stop().await;
                        inspect(runtime.store(), verifies);
                    }
                }
            };
            tokio::select! {
                biased;
                () = machine.power.gone() => {}
                () = living => {}
            }
            ledger::with(|ledger| ledger.note("the life ends"));
            machine.clock.now_ms()
        });
    }
}

fn config(limits: &Limits) -> Config {
    Config::default()
        .idle(Duration::from_millis(limits.idle_ms))
        .residents_max(limits.residents)
        .attempts_max(limits.attempts)
        .inbox_max(limits.inbox)
        // Here the machine dies whatever an instance does: none is to blame.
        .crash_limit(1_000)
}

/// Lets the clients do what they have to do, for so long. When they are done, the instances go on alone.
async fn serve(runtime: &Runtime, machine: &Machine, clients: &mut [Client], length: Duration) {
    let serving = async {
        let running = clients.iter_mut().map(|client| client.run(runtime, &machine.clock));
        let mut running: FuturesUnordered<_> = running.collect();
        while running.next().await.is_some() {}
        std::future::pending::<()>().await;
    };
    let _ = tokio::time::timeout(length, serving).await;
}

/// Looks after everyone, children included, until all have ended.
async fn finish(runtime: &Runtime, verifies: bool, crowded: bool) {
    let mut left = everyone();
    finish::the_rest(runtime, crowded).await;
    for round in 1..=PATIENCE {
        let mut waiting = finish::trials(runtime).await;
        // Who has the place in memory that a chore waits for may keep it for days.
        waiting.extend(ledger::with(|ledger| ledger.chores_to_begin()));
        for id in everyone() {
            if !client::look(runtime, &id).await.unwrap() {
                help(runtime, &id, round).await;
                waiting.push(id);
            }
        }
        tokio::time::sleep(Duration::from_secs(24 * 3_600)).await;
        // Somebody may have had a child only now.
        let ended = |seen: &InstanceSeen| !(seen.started || seen.expected) || seen.ended.is_some();
        left = waiting;
        if left.is_empty() && ledger::with(|ledger| ledger.instances.values().all(ended)) {
            break;
        }
    }
    for id in left {
        ledger::with(|ledger| ledger.violation(format!("{id} does not end")));
    }
    for id in everyone() {
        if ledger::with(|ledger| ledger.instance(&id).ended.is_some()) {
            client::result(runtime, &id).await.unwrap();
            client::follow(runtime, &id).await.unwrap();
        }
    }
    inspect(runtime.store(), verifies);
    ask_again(runtime).await;
    gather_events(runtime).await;
}

/// Whoever did not hear the answer to a question asks again, and hears it.
async fn ask_again(runtime: &Runtime) {
    for (id, sender, number) in ledger::with(|ledger| ledger.answered()) {
        let to = id.clone();
        let riddle = Riddle { to, sender, number };
        let question = riddle.id();
        if !client::ask(&client::handle(runtime, &id).unwrap(), riddle, "1s")
            .await
            .unwrap()
        {
            ledger::with(|ledger| ledger.violation(format!("{question} to {id} was answered and has no answer")));
        }
    }
}

/// Everyone who was started, or whose parent was told that it will be.
fn everyone() -> Vec<String> {
    let started = |(id, seen): (&String, &InstanceSeen)| (seen.started || seen.expected).then(|| id.clone());
    ledger::with(|ledger| ledger.instances.iter().filter_map(started).collect())
}

/// Gives an instance what it can't go on without. Anything more would wake whoever was forgotten.
async fn help(runtime: &Runtime, id: &str, round: u64) {
    let handle = client::handle(runtime, id).unwrap();
    let Ok(described) = handle.status().await else { return };
    if described.paused {
        ledger::with(|ledger| ledger.is_held(id, false));
        handle.resume().await.unwrap();
        return;
    }
    if described.status != Status::Waiting {
        return;
    }
    let (to, sender, number) = (id.to_owned(), FINISHER.to_owned(), round);
    let news = News { to, sender, number };
    client::send(&handle, news).await.unwrap();
    let (to, sender) = (id.to_owned(), FINISHER.to_owned());
    let riddle = Riddle { to, sender, number };
    client::ask(&handle, riddle, "1ms").await.unwrap();
    for token in ledger::with(|ledger| ledger.tokens_of(id)) {
        let decision = format!("at last {round}");
        client::decide(runtime, &token, &decision, true).await.unwrap();
    }
    let event = format!("event {round} for {id}");
    client::publish(runtime, &event, false, 0).await.unwrap();
}

/// Everything that is over, somebody now waits for events: each one that is kept for one comes to them. Each of them hears
/// one event, which may also be one for all that nobody heard, and some hear none: what was with somebody who went away
/// comes back only after a while.
async fn gather_events(runtime: &Runtime) {
    let events = ledger::with(|ledger| ledger.published_events());
    for gatherer in 0..events + PATIENT_GATHERERS {
        if ledger::with(|ledger| ledger.unheard()).is_empty() {
            return;
        }
        let id = format!("gatherer {gatherer}");
        let program = Program {
            variant: 1,
            again: 0,
            doom: Doom::No,
            born: None,
            closable: false,
            node: Node::Hear(Some(1_000)),
        };
        ledger::with(|ledger| ledger.instance(&id).offered = true);
        let gathering = runtime.start(Interpreter, program).id(&id).await.unwrap();
        gathering.result().await.unwrap();
    }
    ledger::with(|ledger| match ledger.unheard() {
        left if left.is_empty() => {}
        left => ledger.violation(format!("nobody heard {left:?}")),
    });
}
