//! `#[derive(Message)]`: a type gets the name under which it waits in an inbox.

use proc_macro2::{Span, TokenStream};
use quote::quote_spanned;
use syn::ext::IdentExt;
use syn::punctuated::Punctuated;
use syn::{Data, DeriveInput, Error, Meta, Result, Token};

use crate::options::{Known, Options};

static KNOWN: Known = Known {
    attribute: "message",
    options: &[("name", "name = \"approval\""), ("reply", "reply(Answer)")],
};

/// What the derive adds to a type.
pub(crate) fn expand(tokens: TokenStream) -> Result<TokenStream> {
    let input: DeriveInput = syn::parse2(tokens)?;
    if let Data::Union(union) = &input.data {
        let message = "a message is a struct or an enum: which field of a union to send can't be known";
        return Err(Error::new_spanned(union.union_token, message));
    }
    if !input.generics.params.is_empty() {
        let message = "a message is found by its name, which stands for one type that owns what it holds: \
            it can't be generic";
        return Err(Error::new_spanned(&input.generics, message));
    }
    let mut options = Options::none(&KNOWN);
    for attribute in input
        .attrs
        .iter()
        .filter(|attribute| attribute.path().is_ident("message"))
    {
        options.add(attribute.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated)?)?;
    }
    let ident = &input.ident;
    let name = options
        .name()?
        .map_or_else(|| ident.unraw().to_string(), |name| name.value());
    let span = Span::call_site().located_at(ident.span());
    let replies = options.types("reply")?;
    if let [_, second, ..] = replies.as_slice() {
        return Err(Error::new_spanned(
            second,
            "a question has one answer, which has one type",
        ));
    }
    let question = replies.first().map(|reply| {
        quote_spanned! {span=>
            impl ::everstep::Question for #ident {
                type Reply = #reply;
            }
        }
    });
    Ok(quote_spanned! {span=>
        impl ::everstep::Message for #ident {
            const NAME: &'static str = #name;
        }

        #question
    })
}
