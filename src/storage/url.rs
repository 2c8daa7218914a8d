//! Which store a text names.
//!
//! `./data` and `fjall:./data` are fjall, `sled:./data` is sled, `memory:` lives as long as the process.

#[cfg(any(feature = "fjall", feature = "sled"))]
use std::path::PathBuf;
use std::str::FromStr;

use crate::storage::error::{Error, Result};

/// The kinds of store that this build has, as they are written in front of the colon.
pub(crate) const SCHEMES: &[&str] = &[
    #[cfg(feature = "fjall")]
    "fjall",
    #[cfg(feature = "sled")]
    "sled",
    "memory",
];

/// A parsed store URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Url {
    /// A fjall store in this directory.
    #[cfg(feature = "fjall")]
    Fjall(PathBuf),
    /// A sled store in this directory.
    #[cfg(feature = "sled")]
    Sled(PathBuf),
    /// A store in memory.
    Memory,
}

impl FromStr for Url {
    type Err = Error;

    fn from_str(url: &str) -> Result<Self> {
        let invalid = |reason| {
            Err(Error::InvalidUrl {
                url: url.to_owned(),
                reason,
            })
        };
        let (scheme, path) = split(url);
        match (scheme, path) {
            ("memory", "") => Ok(Self::Memory),
            ("memory", _) => invalid("a store in memory has no path"),
            (_, "") if SCHEMES.contains(&scheme) => invalid("the path is missing"),
            #[cfg(feature = "fjall")]
            ("fjall", path) => Ok(Self::Fjall(PathBuf::from(path))),
            #[cfg(feature = "sled")]
            ("sled", path) => Ok(Self::Sled(PathBuf::from(path))),
            (scheme, _) => {
                let known: Vec<_> = SCHEMES.iter().map(|scheme| format!("`{scheme}:`")).collect();
                Err(Error::UnknownScheme {
                    scheme: scheme.to_owned(),
                    known: known.join(", "),
                })
            }
        }
    }
}

/// A scheme is a word in front of a colon; everything else is a path, and a path means fjall.
fn split(url: &str) -> (&str, &str) {
    match url.split_once(':') {
        Some((scheme, path)) if is_scheme(scheme) => (scheme, path),
        _ => ("fjall", url),
    }
}

/// One letter is a drive and not a scheme; a scheme has no separators in it.
fn is_scheme(text: &str) -> bool {
    text.len() > 1 && text.starts_with(|first: char| first.is_ascii_alphabetic()) && {
        text.chars()
            .all(|character| character.is_ascii_alphanumeric() || "+-.".contains(character))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(all(feature = "fjall", feature = "sled"))]
    fn urls_name_stores() {
        let parse = |url: &str| url.parse::<Url>().unwrap();
        assert_eq!(parse("./data"), Url::Fjall("./data".into()));
        assert_eq!(parse("data"), Url::Fjall("data".into()));
        assert_eq!(parse("/var/lib/a:b"), Url::Fjall("/var/lib/a:b".into()));
        assert_eq!(parse("fjall:./data"), Url::Fjall("./data".into()));
        assert_eq!(parse("sled:./data"), Url::Sled("./data".into()));
        assert_eq!(parse("memory:"), Url::Memory);
    }

    #[test]
    fn an_unknown_scheme_lists_the_known_ones() {
        let error = "rocks:./data".parse::<Url>().unwrap_err();
        assert_eq!(error.code(), "ES0202");
        for scheme in SCHEMES {
            assert!(error.to_string().contains(scheme), "{error}");
        }
    }

    #[test]
    fn what_is_missing_or_too_much_is_said() {
        for bad in ["", "memory:./data", "fjall:", "sled:"] {
            let error = bad.parse::<Url>().unwrap_err();
            assert!(["ES0201", "ES0202"].contains(&error.code()), "{bad}: {error}");
        }
    }
}
