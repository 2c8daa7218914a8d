//! `#[workflow]`: a function becomes an implementation of `Workflow`.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Error, PatType, Result};

use crate::function::{Function, Role, first_type, last_segment};
use crate::options::{Known, Options};

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
    ],
};

/// What the attribute turns a function into.
pub(crate) fn expand(attribute: TokenStream, item: TokenStream) -> Result<TokenStream> {
    let options = Options::parse(&KNOWN, attribute)?;
    let function = Function::parse(ROLE, item)?;
    let arguments = function.arguments()?;
    let input = function.input(behind_context(&function, &arguments)?)?;
    let name = options.name()?.map_or_else(|| function.name(), |name| name.value());
    let version = options
        .number("version", 1)?
        .map(|version| quote!(const VERSION: u32 = #version;));
    let (marker, output) = (&function.marker, &function.output);
    let everywhere = function.everywhere();
    let accepted = options.types("accepts")?.into_iter().map(|message| {
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
            #marker::call(#handed_over).await.map_err(::core::convert::Into::into)
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

            #run
        }

        #(#accepted)*
    })
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
