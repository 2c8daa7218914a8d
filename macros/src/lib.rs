//! The macros of everstep. Use them through the `everstep` crate, where they are documented with examples that run.
//!
//! One file for each macro; `function` is what the two attributes share, `options` is what stands in brackets, `tail` is
//! how a function may end, and `duration` reads durations as the runtime does.

mod activity;
mod duration;
mod function;
mod message;
mod messages;
mod options;
mod tail;
mod workflow;

use proc_macro::TokenStream;

/// Makes an `async fn` a workflow.
#[proc_macro_attribute]
pub fn workflow(attribute: TokenStream, item: TokenStream) -> TokenStream {
    or_error(workflow::expand(attribute.into(), item.into()))
}

/// Makes an `async fn` an activity.
#[proc_macro_attribute]
pub fn activity(attribute: TokenStream, item: TokenStream) -> TokenStream {
    or_error(activity::expand(attribute.into(), item.into()))
}

/// Makes a type a message.
#[proc_macro_derive(Message, attributes(message))]
pub fn message(input: TokenStream) -> TokenStream {
    or_error(message::expand(input.into()))
}

/// Makes an enum a choice of messages.
#[proc_macro_derive(Messages)]
pub fn messages(input: TokenStream) -> TokenStream {
    or_error(messages::expand(input.into()))
}

fn or_error(expanded: syn::Result<proc_macro2::TokenStream>) -> TokenStream {
    expanded.unwrap_or_else(|error| error.to_compile_error()).into()
}
