//! What a person sees: the demo on a real terminal, its bar, its colours and its end, and what others wrote shown to an
//! operator.
#![cfg(all(feature = "cli", feature = "fjall"))]
#![allow(clippy::unwrap_used, reason = "a test says what it expects by unwrapping it")]

use std::fs::File;
use std::io::Read;
use std::process::{Child, Command, Output, Stdio};

use everstep::{Ctx, Result, Runtime, ok, workflow};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

fn everstep(arguments: &[&str]) -> Command {
    let mut program = Command::new(env!("CARGO_BIN_EXE_everstep"));
    program.args(arguments).env_remove("CARGO").env_remove("NO_COLOR");
    program.env("TERM", "xterm");
    program
}

/// A program on a terminal of its own, of so many columns.
struct Terminal {
    program: Child,
    screen: File,
    columns: u16,
    written: Vec<u8>,
}

impl Terminal {
    fn run(arguments: &[&str], columns: u16) -> Self {
        let screen = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&screen).unwrap();
        unlockpt(&screen).unwrap();
        let size = Winsize {
            ws_row: 24,
            ws_col: columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&screen, size).unwrap();
        let name = ptsname(&screen, Vec::new()).unwrap().into_string().unwrap();
        let side = || Stdio::from(File::options().read(true).write(true).open(&name).unwrap());
        let mut program = everstep(arguments);
        program.stdin(side()).stdout(side()).stderr(side());
        Self {
            program: program.spawn().unwrap(),
            screen: File::from(screen),
            columns,
            written: Vec::new(),
        }
    }

    /// Reads until this was written.
    fn until(&mut self, text: &str) {
        while !String::from_utf8_lossy(&self.written).contains(text) {
            assert!(self.read() > 0, "it ended before `{text}`: {}", self.told());
        }
    }

    /// Reads what comes next. Nothing comes when nobody has the other side any more.
    fn read(&mut self) -> usize {
        let mut bytes = [0; 4_096];
        let read = self.screen.read(&mut bytes).unwrap_or(0);
        self.written.extend(&bytes[..read]);
        read
    }

    /// Reads to the end; gives the exit code.
    fn end(&mut self) -> i32 {
        while self.read() > 0 {}
        self.program.wait().unwrap().code().unwrap()
    }

    fn interrupt(&self) {
        let pid = Pid::from_child(&self.program);
        kill_process(pid, Signal::INT).unwrap();
    }

    fn told(&self) -> String {
        String::from_utf8_lossy(&self.written).into_owned()
    }

    fn screen(&self) -> Screen {
        let mut screen = Screen {
            rows: vec![Vec::new()],
            row: 0,
            column: 0,
            wrapped: 0,
        };
        let text = self.told();
        let mut characters = text.chars();
        while let Some(character) = characters.next() {
            match character {
                '\r' => screen.column = 0,
                '\n' => screen.down(),
                '\x1b' => {
                    assert_eq!(characters.next(), Some('['), "a sequence that this terminal knows");
                    let mut sequence = String::new();
                    while !sequence.ends_with(|last: char| last.is_ascii_alphabetic()) {
                        sequence.extend(characters.next());
                    }
                    match sequence.as_str() {
                        "1A" => screen.row = screen.row.checked_sub(1).expect("there is a row above"),
                        "2K" => screen.rows[screen.row].clear(),
                        colours => assert!(colours.ends_with('m'), "{colours}"),
                    }
                }
                character => screen.put(character, usize::from(self.columns)),
            }
        }
        screen
    }
}

/// What a terminal shows, without an end to how far it scrolls.
struct Screen {
    rows: Vec<Vec<char>>,
    /// Where the cursor stands.
    row: usize,
    column: usize,
    /// How often a line was too long.
    wrapped: usize,
}

impl Screen {
    fn down(&mut self) {
        self.row += 1;
        self.rows.resize(self.rows.len().max(self.row + 1), Vec::new());
    }

    fn put(&mut self, character: char, columns: usize) {
        if self.column == columns {
            self.down();
            self.column = 0;
            self.wrapped += 1;
        }
        let row = &mut self.rows[self.row];
        row.resize(row.len().max(self.column + 1), ' ');
        row[self.column] = character;
        self.column += 1;
    }

    fn rows(&self) -> Vec<String> {
        self.rows.iter().map(String::from_iter).collect()
    }
}

fn has_bar(row: &str) -> bool {
    row.contains(['█', '░'])
}

/// Found by a user: on a terminal of 80 columns the bar was wrapped, and each line that was told left a dead one behind.
/// It said 0 of 6 when the first order had ended, and never 6 of 6.
#[test]
fn one_bar_stands_below_the_story_and_counts() {
    let directory = tempfile::tempdir().unwrap();
    for columns in [80, 50, 20] {
        let store = directory.path().join(columns.to_string());
        let store = store.to_str().unwrap();
        let mut terminal = Terminal::run(&["demo", "--fast", "--store", store], columns);
        assert_eq!(terminal.end(), 0, "{}", terminal.told());
        let (screen, rows) = (terminal.screen(), terminal.screen().rows());
        assert_eq!((screen.row, screen.column), (rows.len() - 1, 0), "{rows:#?}");
        let bars: Vec<_> = rows.iter().filter(|row| row.contains("of 6 orders")).collect();
        assert_eq!(bars.len(), 1, "{rows:#?}");
        assert!(bars[0].contains("6 of 6") && !bars[0].contains('░'), "{bars:?}");
        assert!(rows.iter().filter(|row| has_bar(row)).count() <= 1, "{rows:#?}");
        let told = terminal.told();
        for ended in 1..=6 {
            assert!(told.contains(&format!(" {ended} of 6 orders")), "{ended}: {told}");
        }
        assert!(told.contains("\x1b[32m✓ "), "in colours: {told}");
    }
    let store = directory.path().join("80");
    let mut again = Terminal::run(&["demo", "--fast", "--store", store.to_str().unwrap()], 80);
    assert_eq!(again.end(), 0);
    assert!(
        again.told().contains("An earlier start left 6 orders"),
        "{}",
        again.told()
    );
}

/// Found by a user: the welcome and the end of an order that was undone were wider than a terminal.
#[test]
fn lines_end_between_words() {
    let mut terminal = Terminal::run(&["demo", "--fast", "--store", "memory:"], 80);
    assert_eq!(terminal.end(), 0);
    let screen = terminal.screen();
    let text = screen.rows().join("\n");
    assert!(
        text.contains("compensated: `ship` failed after 2 attempts: the courier"),
        "{text}"
    );
    assert_eq!(screen.wrapped, 0, "the terminal had to wrap nothing: {text}");
}

/// Found by a user: after Ctrl-C the bar stayed, and the prompt of the shell stood behind it.
#[test]
fn an_interrupted_demo_leaves_a_clean_line() {
    let directory = tempfile::tempdir().unwrap();
    let store = directory.path().join("store");
    let mut terminal = Terminal::run(&["demo", "--store", store.to_str().unwrap()], 80);
    terminal.until("waits for an approval");
    terminal.interrupt();
    assert_eq!(terminal.end(), 130, "{}", terminal.told());
    let (screen, rows) = (terminal.screen(), terminal.screen().rows());
    assert_eq!((screen.row, screen.column), (rows.len() - 1, 0), "{rows:#?}");
    assert_eq!(rows.last().map(String::as_str), Some(""), "{rows:#?}");
    let last = &rows[rows.len() - 2];
    assert_eq!(last, "Start the same command again: it carries on from here.");
    assert!(!rows.iter().any(|row| has_bar(row)), "{rows:#?}");
}

/// Found by a user: after `kill -9` the shell said `Killed` behind the bar, over the edge of the terminal.
#[test]
fn a_killed_demo_leaves_a_clean_line() {
    let directory = tempfile::tempdir().unwrap();
    let store = directory.path().join("store");
    let mut terminal = Terminal::run(&["demo", "--store", store.to_str().unwrap()], 80);
    terminal.until("waits for an approval");
    kill_process(Pid::from_child(&terminal.program), Signal::KILL).unwrap();
    while terminal.read() > 0 {}
    terminal.program.wait().unwrap();
    let (screen, rows) = (terminal.screen(), terminal.screen().rows());
    assert_eq!((screen.row, screen.column), (rows.len() - 1, 0), "{rows:#?}");
    assert!(
        has_bar(&rows[rows.len() - 2]),
        "the last of the story stands: {rows:#?}"
    );
}

const HOSTILE: &str = "\x1b[2J\x1b]0;owned\x07\x1b[31mred\r\nforged  row\u{9b}5m\u{7f}\u{202e}turned";

#[workflow]
async fn hostile(ctx: Ctx<Hostile>, text: String) -> Result<String> {
    ctx.set("said", &text)?;
    ctx.step("greet", || async { ok(HOSTILE.to_owned()) }).await?;
    ctx.step(HOSTILE, || async { ok(1) }).await?;
    Err(std::io::Error::other(text).into())
}

#[workflow(name = "\x1b[2Jquiet")]
async fn quiet(ctx: Ctx<Quiet>) -> Result<()> {
    let fails = || async { Err::<(), _>(std::io::Error::other(HOSTILE)) };
    ok(ctx.step("fails", fails).retries(1).delay("1ms").await?)
}

fn forced(arguments: &[&str]) -> Output {
    let mut program = everstep(arguments);
    program.env("CLICOLOR_FORCE", "1").output().unwrap()
}

/// Found by a user: escape sequences in tags, in the names of steps and in the messages of failures reached the terminal of
/// whoever looked at the store, and a line break in one of them forged a row of the listing.
#[test]
fn what_others_wrote_moves_no_cursor() {
    let directory = tempfile::tempdir().unwrap();
    let store = directory.path().join("store");
    let store = store.to_str().unwrap();
    let mut executor = tokio::runtime::Builder::new_multi_thread();
    executor.enable_all().build().unwrap().block_on(async {
        let runtime = Runtime::builder().workflow(hostile).workflow(quiet);
        let runtime = runtime.open(store).await.unwrap();
        let hostile = runtime
            .start(hostile, HOSTILE.to_owned())
            .id("hostile")
            .tag("tag", HOSTILE);
        hostile.await.unwrap().result().await.unwrap_err();
        let quiet = runtime.start(quiet, ()).id("quiet").await.unwrap();
        quiet.result().await.unwrap_err();
        runtime.stop().await;
    });
    for arguments in [
        &["list", store][..],
        &["list", store, "--json"],
        &["show", store, "hostile"],
        &["show", store, "hostile", "--json"],
        &["show", store, "quiet"],
        &["history", store, "hostile"],
        &["history", store, "hostile", "--json"],
        &["history", store, "quiet"],
        &["verify", store],
        &["list", "\x1b[2J"],
        &["--json", "list", "\u{9b}2J"],
    ] {
        let output = forced(arguments);
        for told in [&output.stdout, &output.stderr] {
            let told = String::from_utf8(told.clone()).unwrap();
            assert!(
                !told.lines().any(|line| line.trim_start().starts_with("forged")),
                "{arguments:?}: {told}"
            );
            // What is left when our own colours are taken out.
            let mut rest = told.clone();
            for colour in ["0", "1", "2", "31", "32", "33", "36"] {
                rest = rest.replace(&format!("\x1b[{colour}m"), "");
            }
            let obeyed = rest.chars().find(|found| found.is_control() && *found != '\n');
            assert_eq!(obeyed, None, "{arguments:?}: {told:?}");
            assert!(!rest.contains('\u{202e}'), "{arguments:?}: {told:?}");
        }
    }
    let shown = String::from_utf8(forced(&["show", store, "hostile"]).stdout).unwrap();
    assert!(shown.contains("owned"), "it is shown all the same: {shown}");
}
