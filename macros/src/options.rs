//! What stands in the brackets of an attribute: `name = "payment"`, `accepts(Approval)`, `retry_on_timeout`.
//!
//! An option that is not known is an error, never ignored: one that is silently without effect is found in production.

use std::collections::HashSet;
use std::time::Duration;

use proc_macro2::TokenStream;
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::{Error, Expr, ExprLit, Lit, LitStr, Meta, Result, Token, Type};

use crate::duration;

/// The longest name that an entry can have, as in the runtime's limits.
const NAME_BYTES_MAX: usize = 200;

/// An attribute, and the options that it has: each with its name, and as people write it.
pub(crate) struct Known {
    pub(crate) attribute: &'static str,
    pub(crate) options: &'static [(&'static str, &'static str)],
}

/// The options that were given, each of them known and given once.
pub(crate) struct Options {
    known: &'static Known,
    given: Vec<Meta>,
}

impl Options {
    /// Begins without any.
    pub(crate) fn none(known: &'static Known) -> Self {
        let given = Vec::new();
        Self { known, given }
    }

    /// Reads the options between the brackets.
    pub(crate) fn parse(known: &'static Known, tokens: TokenStream) -> Result<Self> {
        let mut options = Self::none(known);
        options.add(Punctuated::<Meta, Token![,]>::parse_terminated.parse2(tokens)?)?;
        Ok(options)
    }

    /// Adds options to those that were given before.
    pub(crate) fn add(&mut self, given: impl IntoIterator<Item = Meta>) -> Result<()> {
        for option in given {
            let name = name_of(&option);
            if !self.known.options.iter().any(|(known, _)| *known == name) {
                return Err(Error::new_spanned(option.path(), self.known.refusal(&name)));
            }
            if self.find(&name).is_some() {
                let twice = format!("`{name}` is given twice");
                return Err(Error::new_spanned(&option, twice));
            }
            self.given.push(option);
        }
        Ok(())
    }

    /// A name, which is not empty.
    pub(crate) fn name(&self) -> Result<Option<LitStr>> {
        let Some(text) = self.text("name")? else {
            return Ok(None);
        };
        let bytes = text.value().len();
        if bytes == 0 || bytes > NAME_BYTES_MAX {
            let message = format!("a name has 1 to {NAME_BYTES_MAX} bytes, this one has {bytes}");
            return Err(Error::new_spanned(text, message));
        }
        if text.value().starts_with("__") {
            let message = "names that begin with `__` are the runtime's own";
            return Err(Error::new_spanned(text, message));
        }
        Ok(Some(text))
    }

    /// A whole number of at least `least`.
    pub(crate) fn number(&self, name: &str, least: u32) -> Result<Option<u32>> {
        let Some(option) = self.find(name) else {
            return Ok(None);
        };
        let Some(Lit::Int(number)) = literal(option) else {
            return Err(self.wrong_shape(option));
        };
        if !number.suffix().is_empty() {
            return Err(self.wrong_shape(option));
        }
        match number.base10_parse() {
            Ok(value) if value >= least => Ok(Some(value)),
            _ => {
                let message = format!("`{name}` is a number from {least} to {}", u32::MAX);
                Err(Error::new_spanned(number, message))
            }
        }
    }

    /// A duration, as the runtime reads it.
    pub(crate) fn duration(&self, name: &str) -> Result<Option<Duration>> {
        let Some(text) = self.text(name)? else {
            return Ok(None);
        };
        let value = text.value();
        let parsed = duration::parse(&value).map_err(|reason| {
            let message = format!("`{value}` is not a duration: {reason}; write `30s`, `1m30s`, `24 hours` or `7d`");
            Error::new_spanned(&text, message)
        });
        parsed.map(Some)
    }

    /// Whether something is asked for by its mere name.
    pub(crate) fn flag(&self, name: &str) -> Result<bool> {
        match self.find(name) {
            None => Ok(false),
            Some(Meta::Path(_)) => Ok(true),
            Some(other) => Err(self.wrong_shape(other)),
        }
    }

    /// A list of types, each of them once.
    pub(crate) fn types(&self, name: &str) -> Result<Vec<Type>> {
        let Some(option) = self.find(name) else {
            return Ok(Vec::new());
        };
        let Meta::List(list) = option else {
            return Err(self.wrong_shape(option));
        };
        let types = list.parse_args_with(Punctuated::<Type, Token![,]>::parse_terminated)?;
        if types.is_empty() {
            return Err(self.wrong_shape(option));
        }
        let types: Vec<Type> = types.into_iter().collect();
        let mut seen = HashSet::new();
        for listed in &types {
            let text = quote::quote!(#listed).to_string();
            let message = format!("`{text}` is listed twice");
            if !seen.insert(text) {
                return Err(Error::new_spanned(listed, message));
            }
        }
        Ok(types)
    }

    /// Options of an option: `retries(limit = 3)`.
    pub(crate) fn group(&self, name: &str, known: &'static Known) -> Result<Option<Self>> {
        match self.find(name) {
            None => Ok(None),
            Some(Meta::List(list)) if !list.tokens.is_empty() => Self::parse(known, list.tokens.clone()).map(Some),
            Some(other) => Err(self.wrong_shape(other)),
        }
    }

    /// One of a few words.
    pub(crate) fn word(&self, name: &str, words: &[&str]) -> Result<Option<String>> {
        let Some(text) = self.text(name)? else {
            return Ok(None);
        };
        if words.contains(&text.value().as_str()) {
            return Ok(Some(text.value()));
        }
        let words: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
        let message = format!("`{name}` is one of {}", words.join(", "));
        Err(Error::new_spanned(text, message))
    }

    /// A text.
    pub(crate) fn text(&self, name: &str) -> Result<Option<LitStr>> {
        match self.find(name) {
            None => Ok(None),
            Some(option) => match literal(option) {
                Some(Lit::Str(text)) => Ok(Some(text.clone())),
                _ => Err(self.wrong_shape(option)),
            },
        }
    }

    fn find(&self, name: &str) -> Option<&Meta> {
        self.given.iter().find(|option| option.path().is_ident(name))
    }

    fn wrong_shape(&self, option: &Meta) -> Error {
        let name = name_of(option);
        let usages = self.known.options.iter().filter(|(known, _)| *known == name);
        let usage: String = usages.map(|(_, usage)| *usage).collect();
        Error::new_spanned(option, format!("write it as `{usage}`"))
    }
}

impl Known {
    fn refusal(&self, name: &str) -> String {
        let known: Vec<String> = self.options.iter().map(|(known, _)| format!("`{known}`")).collect();
        let (attribute, known) = (self.attribute, known.join(", "));
        let are = if self.options.len() == 1 {
            "option is"
        } else {
            "options are"
        };
        format!("`#[{attribute}]` has no option `{name}`; its {are} {known}")
    }
}

fn name_of(option: &Meta) -> String {
    let path = option.path();
    quote::quote!(#path).to_string()
}

fn literal(option: &Meta) -> Option<&Lit> {
    match option {
        Meta::NameValue(pair) => match &pair.value {
            Expr::Lit(ExprLit { lit, .. }) => Some(lit),
            _ => None,
        },
        _ => None,
    }
}
