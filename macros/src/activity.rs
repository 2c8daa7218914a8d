//! `#[activity]`: a function becomes an implementation of `Activity`.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::{Error, PatType, Result};

use crate::duration::literal;
use crate::function::{Function, Role, last_segment};
use crate::options::{Known, Options};

const ROLE: Role = Role {
    word: "activity",
    one: "an activity",
};

static KNOWN: Known = Known {
    attribute: "activity",
    options: &[
        ("name", "name = \"charge\""),
        ("retries", "retries = 5"),
        ("delay", "delay = \"1s\""),
        ("timeout", "timeout = \"30s\""),
        ("heartbeat", "heartbeat = \"10s\""),
        ("retry_on_timeout", "retry_on_timeout"),
        ("queue", "queue = \"mail\""),
    ],
};

/// What the attribute turns a function into.
pub(crate) fn expand(attribute: TokenStream, item: TokenStream) -> Result<TokenStream> {
    let options = Options::parse(&KNOWN, attribute)?;
    let function = Function::parse(ROLE, item)?;
    let arguments = function.arguments()?;
    let takes_attempt = arguments.first().is_some_and(|argument| is_attempt(argument));
    if let Some(late) = arguments.iter().skip(1).find(|argument| is_attempt(argument)) {
        return Err(Error::new_spanned(late, "the attempt comes first, before the input"));
    }
    let inputs = if takes_attempt { &arguments[1..] } else { &arguments[..] };
    let input = function.input(inputs)?;
    let name = options.name()?.map_or_else(|| function.name(), |name| name.value());
    let set = set_options(&options)?;
    let (marker, output) = (&function.marker, &function.output);
    let everywhere = function.everywhere();
    let attempt = if takes_attempt { quote!(attempt) } else { quote!(_) };
    let input_pattern = if inputs.is_empty() { quote!(()) } else { quote!(input) };
    let handed_over = [
        takes_attempt.then(|| quote!(attempt)),
        (!inputs.is_empty()).then(|| quote!(input)),
    ];
    let handed_over = handed_over.into_iter().flatten();
    let shell = function.shell();
    let run = quote_spanned! {function.span()=>
        async fn run(#attempt: ::everstep::Attempt, #input_pattern: #input) -> ::everstep::Result<#output> {
            ::std::boxed::Box::pin(#marker::call(#(#handed_over),*)).await.map_err(::core::convert::Into::into)
        }
    };
    Ok(quote! {
        #shell

        #(#everywhere)*
        impl ::everstep::Activity for #marker {
            const NAME: &'static str = #name;
            type Input = #input;
            type Output = #output;

            fn options(step: ::everstep::Step<#output>) -> ::everstep::Step<#output> {
                step #set
            }

            #run
        }
    })
}

/// The options as calls on the step.
fn set_options(options: &Options) -> Result<TokenStream> {
    let retries = options.number("retries", 0)?.map(|retries| quote!(.retries(#retries)));
    let delay = options
        .duration("delay")?
        .map(literal)
        .map(|delay| quote!(.delay(#delay)));
    let timeout = options.duration("timeout")?.map(literal);
    let timeout = timeout.map(|timeout| quote!(.timeout(#timeout)));
    let heartbeat = options.duration("heartbeat")?.map(literal);
    let heartbeat = heartbeat.map(|heartbeat| quote!(.heartbeat(#heartbeat)));
    let retry_on_timeout = options.flag("retry_on_timeout")?.then(|| quote!(.retry_on_timeout()));
    let queue = options.text("queue")?.map(|queue| quote!(.queue(#queue)));
    Ok(quote!(#retries #delay #timeout #heartbeat #retry_on_timeout #queue))
}

fn is_attempt(argument: &PatType) -> bool {
    last_segment(&argument.ty).is_some_and(|segment| segment.ident == "Attempt")
}
