//! A command that has several parts is a list of stages. They run in order,
//! each under a header, and stop at the first failure; a table at the end says
//! how each one went and how long it took.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};

/// One part of a command.
pub(crate) struct Stage {
    name: &'static str,
    about: &'static str,
    work: Box<dyn Fn() -> Result>,
}

impl Stage {
    pub(crate) fn new(name: &'static str, about: &'static str, work: impl Fn() -> Result + 'static) -> Self {
        Self {
            name,
            about,
            work: Box::new(work),
        }
    }
}

#[derive(Clone, Copy)]
enum Fate {
    Passed(Duration),
    Failed(Duration),
    NotRun,
}

/// Runs the stages up to the first that fails, and prints the table either way.
pub(crate) fn run(stages: &[Stage]) -> Result {
    let mut fates = vec![Fate::NotRun; stages.len()];
    let mut outcome = Ok(());
    for (stage, fate) in stages.iter().zip(&mut fates) {
        println!("\n== {}: {}", stage.name, stage.about);
        let began = now();
        let result = (stage.work)();
        let took = now().duration_since(began);
        match result {
            Ok(()) => *fate = Fate::Passed(took),
            Err(source) => {
                *fate = Fate::Failed(took);
                outcome = Err(Error::Stage {
                    stage: stage.name,
                    source: Box::new(source),
                });
                break;
            }
        }
    }
    print!("\n{}", table(stages, &fates));
    outcome
}

fn table(stages: &[Stage], fates: &[Fate]) -> String {
    let width = stages
        .iter()
        .map(|stage| stage.name.len())
        .max()
        .unwrap_or(0)
        .max("stage".len());
    let mut table = format!("{:width$}  result   seconds\n", "stage");
    for (stage, fate) in stages.iter().zip(fates) {
        let (result, seconds) = match fate {
            Fate::Passed(took) => ("passed", format!("{:.1}", took.as_secs_f64())),
            Fate::Failed(took) => ("FAILED", format!("{:.1}", took.as_secs_f64())),
            Fate::NotRun => ("not run", String::from("-")),
        };
        let _ = writeln!(table, "{:width$}  {result:7}  {seconds:>7}", stage.name);
    }
    table
}

#[expect(
    clippy::disallowed_methods,
    reason = "a report about real time, outside of the runtime"
)]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::process::Command;
    use std::rc::Rc;

    use super::*;
    use crate::shell;

    #[test]
    fn the_first_failure_stops_the_list_and_is_named() {
        let reached = Rc::new(Cell::new(0));
        let counting = |fails: bool| {
            let reached = Rc::clone(&reached);
            move || {
                reached.set(reached.get() + 1);
                shell::run(&mut Command::new(if fails { "false" } else { "true" }))
            }
        };
        let error = run(&[
            Stage::new("one", "passes", counting(false)),
            Stage::new("two", "fails", counting(true)),
            Stage::new("three", "is never reached", counting(false)),
        ])
        .unwrap_err();
        assert!(
            error.to_string().starts_with("stage `two` failed: `false` failed"),
            "{error}"
        );
        assert_eq!(reached.get(), 2);
    }

    #[test]
    fn the_table_tells_what_happened_to_each() {
        let stage = |name| Stage::new(name, "", || Ok(()));
        let table = table(
            &[stage("format"), stage("docs"), stage("tidy")],
            &[
                Fate::Passed(Duration::from_millis(1_250)),
                Fate::Failed(Duration::from_secs(61)),
                Fate::NotRun,
            ],
        );
        assert_eq!(
            table,
            "stage   result   seconds\n\
             format  passed       1.2\n\
             docs    FAILED      61.0\n\
             tidy    not run        -\n"
        );
    }
}
