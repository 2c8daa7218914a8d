//! `#[workflow]`: a function becomes an implementation of `Workflow`.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Error, PatType, Result, Type};

use crate::duration::literal;
use crate::function::{Function, Role, first_type, last_segment};
use crate::options::{Known, Options};
use crate::tail;

const ROLE: Role = Role {
    word: "workflow",
    one: "a workflow",
};

static KNOWN: Known = Known {
    attribute: "workflow",
    options: &[
        ("accepts", "accepts(Approval, Refund)"),
        ("name", "name = \"payment\""),
        ("version", "version = 2"),
        ("retries", "retries(limit = 3, delay = \"1s\")"),
        ("strategy", "strategy = \"quarantine\""),
        ("deadline", "deadline = \"30d\""),
        ("queue", "queue = \"mail\""),
        ("bounds", "bounds(history_entries_max = 1000)"),
    ],
};

static RETRIES: Known = Known {
    attribute: "workflow(retries)",
    options: &[("limit", "limit = 3"), ("delay", "delay = \"1s\"")],
};

static BOUNDS: Known = Known {
    attribute: "workflow(bounds)",
    options: &[
        ("payload_bytes_max", "payload_bytes_max = 65536"),
        ("payload_bytes_warn", "payload_bytes_warn = 16384"),
        ("history_entries_max", "history_entries_max = 1000"),
        ("history_entries_warn", "history_entries_warn = 500"),
        ("history_bytes_max", "history_bytes_max = 1048576"),
        ("history_bytes_warn", "history_bytes_warn = 524288"),
        ("scope_entries_max", "scope_entries_max = 100"),
    ],
};

/// What the attribute turns a function into.
pub(crate) fn expand(attribute: TokenStream, item: TokenStream) -> Result<TokenStream> {
    let options = Options::parse(&KNOWN, attribute)?;
    let mut function = Function::parse(ROLE, item)?;
    tail::convert(&mut function.item.block);
    let function = function;
    let arguments = function.arguments()?;
    let input = function.input(behind_context(&function, &arguments)?)?;
    let name = options.name()?.map_or_else(|| function.name(), |name| name.value());
    let version = options
        .number("version", 1)?
        .map(|version| quote!(const VERSION: u32 = #version;));
    let policy = policy(&options)?;
    let (marker, output) = (&function.marker, &function.output);
    let everywhere = function.everywhere();
    let messages = options.types("accepts")?;
    let listed = listed(&messages);
    let accepted = messages.into_iter().map(|message| {
        let span = proc_macro2::Span::call_site().located_at(message.span());
        quote_spanned! {span=>
            #(#everywhere)*
            impl ::everstep::Accepts<#message> for #marker {}
        }
    });
    let (pattern, handed_over) = match arguments.len() {
        1 => (quote!(()), quote!(ctx)),
        _ => (quote!(input), quote!(ctx, input)),
    };
    let shell = function.shell();
    let run = quote_spanned! {function.span()=>
        async fn run(ctx: ::everstep::Ctx<Self>, #pattern: #input) -> ::everstep::Result<#output> {
            ::std::boxed::Box::pin(#marker::call(#handed_over)).await.map_err(::core::convert::Into::into)
        }
    };
    Ok(quote! {
        #shell

        #(#everywhere)*
        impl ::everstep::Workflow for #marker {
            const NAME: &'static str = #name;
            #version
            type Input = #input;
            type Output = #output;

            #policy

            #listed

            #run
        }

        #(#accepted)*
    })
}

/// The messages that can be sent by name; nothing if there are none.
fn listed(messages: &[Type]) -> Option<TokenStream> {
    if messages.is_empty() {
        return None;
    }
    let each = messages.iter().map(|message| {
        let span = proc_macro2::Span::call_site().located_at(message.span());
        quote_spanned!(span=> ::everstep::Accepted::message::<Self, #message>())
    });
    Some(quote! {
        fn accepted() -> ::std::vec::Vec<::everstep::Accepted> {
            ::std::vec![#(#each),*]
        }
    })
}

/// What follows when it fails, and how long it may take; nothing if the options say nothing about it.
fn policy(options: &Options) -> Result<Option<TokenStream>> {
    let mut set = TokenStream::new();
    if let Some(retries) = options.group("retries", &RETRIES)? {
        if let Some(limit) = retries.number("limit", 0)? {
            set.extend(quote!(.retries(#limit)));
        }
        if let Some(delay) = retries.duration("delay")?.map(literal) {
            set.extend(quote!(.delay(#delay)));
        }
    }
    let strategies = ["compensate", "cascade", "ignore", "quarantine"];
    if let Some(strategy) = options.word("strategy", &strategies)? {
        let strategy = match strategy.as_str() {
            "cascade" => quote!(Cascade),
            "ignore" => quote!(Ignore),
            "quarantine" => quote!(Quarantine),
            _ => quote!(Compensate),
        };
        set.extend(quote!(.strategy(::everstep::Strategy::#strategy)));
    }
    if let Some(deadline) = options.duration("deadline")?.map(literal) {
        set.extend(quote!(.deadline(#deadline)));
    }
    if let Some(queue) = options.text("queue")? {
        set.extend(quote!(.queue(#queue)));
    }
    if let Some(bounds) = options.group("bounds", &BOUNDS)? {
        let mut change = TokenStream::new();
        for (name, _) in BOUNDS.options {
            if let Some(number) = bounds.number(name, 1)?.map(proc_macro2::Literal::u32_unsuffixed) {
                let field = proc_macro2::Ident::new(name, proc_macro2::Span::call_site());
                change.extend(quote!(bounds.#field = #number;));
            }
        }
        set.extend(quote!(.bounds(|bounds| { #change })));
    }
    if set.is_empty() {
        return Ok(None);
    }
    Ok(Some(quote! {
        fn policy() -> ::everstep::Policy {
            ::everstep::Policy::new() #set
        }
    }))
}

/// The arguments that come after the context, which has to be the first.
fn behind_context<'a>(function: &Function, arguments: &'a [&'a PatType]) -> Result<&'a [&'a PatType]> {
    let marker = &function.marker;
    let message = format!("the first argument of a workflow is its context: `ctx: Ctx<{marker}>`");
    let Some((first, rest)) = arguments.split_first() else {
        return Err(Error::new(function.item.sig.paren_token.span.join(), message));
    };
    let Some(context) = last_segment(&first.ty).filter(|segment| segment.ident == "Ctx") else {
        return Err(Error::new_spanned(first, message));
    };
    let of = first_type(context).and_then(last_segment);
    if !of.is_some_and(|of| of.ident == *marker || of.ident == "Self") {
        let message = format!("the context of this workflow is `Ctx<{marker}>`");
        return Err(Error::new_spanned(&first.ty, message));
    }
    Ok(rest)
}
