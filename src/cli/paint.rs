//! Colours, by what they say. They are written as escape codes and taken out where the output is not a terminal. What
//! is painted brings none of its own.

use anstyle::{AnsiColor, Style};
use everstep::storage::record::Status;

use super::text;

fn painted(style: Style, text: &str) -> String {
    format!("{style}{}{style:#}", text::plain(text))
}

/// Something ended well.
pub(crate) fn good(text: &str) -> String {
    painted(AnsiColor::Green.on_default(), text)
}

/// Something went wrong.
pub(crate) fn bad(text: &str) -> String {
    painted(AnsiColor::Red.on_default().bold(), text)
}

/// Something goes backwards, or needs a look.
pub(crate) fn odd(text: &str) -> String {
    painted(AnsiColor::Yellow.on_default(), text)
}

/// Something is under way.
pub(crate) fn busy(text: &str) -> String {
    painted(AnsiColor::Cyan.on_default(), text)
}

/// What stands in the background.
pub(crate) fn faint(text: &str) -> String {
    painted(Style::new().dimmed(), text)
}

/// What the eye should find first.
pub(crate) fn strong(text: &str) -> String {
    painted(Style::new().bold(), text)
}

/// A status in its colour, at least so wide.
pub(crate) fn status(status: Status, width: usize) -> String {
    let text = format!("{:width$}", status.to_string());
    match status {
        Status::Completed => good(&text),
        Status::Failed | Status::Terminated | Status::Stuck | Status::Quarantined => bad(&text),
        Status::Compensating | Status::Compensated | Status::Cancelled | Status::Parked | Status::Paused => odd(&text),
        _ => busy(&text),
    }
}
