//! `#[derive(Messages)]`: an enum of which each variant is a message that can come.

use proc_macro2::{Span, TokenStream};
use quote::quote_spanned;
use syn::ext::IdentExt;
use syn::{Data, DeriveInput, Error, Fields, Result, Type};

/// What the derive adds to an enum.
pub(crate) fn expand(tokens: TokenStream) -> Result<TokenStream> {
    let input: DeriveInput = syn::parse2(tokens)?;
    let Data::Enum(data) = &input.data else {
        let message =
            "messages of several types are the variants of an enum: `enum Decision { Approved(Approval), .. }`";
        return Err(Error::new_spanned(&input.ident, message));
    };
    if !input.generics.params.is_empty() {
        let message = "each variant stands for one message, which is found by its name: the enum can't be generic";
        return Err(Error::new_spanned(&input.generics, message));
    }
    if data.variants.is_empty() {
        let message = "name the messages to wait for: one in each variant";
        return Err(Error::new_spanned(&input.ident, message));
    }
    let mut variants = Vec::new();
    let mut types: Vec<&Type> = Vec::new();
    for variant in &data.variants {
        let held = match &variant.fields {
            Fields::Unnamed(fields) if fields.unnamed.len() == 1 => &fields.unnamed[0].ty,
            _ => {
                let message = "a variant holds the message that it stands for, and nothing else: `Approved(Approval)`";
                return Err(Error::new_spanned(variant, message));
            }
        };
        if types.contains(&held) {
            return Err(Error::new_spanned(held, "two variants stand for the same message"));
        }
        types.push(held);
        variants.push(&variant.ident);
    }
    let ident = &input.ident;
    let name = ident.unraw().to_string();
    let span = Span::call_site().located_at(ident.span());
    Ok(quote_spanned! {span=>
        impl<W> ::everstep::Messages<W> for #ident
        where
            #(W: ::everstep::Accepts<#types>,)*
        {
            const NAME: &'static str = #name;
            const NAMES: &'static [&'static str] = &[#(<#types as ::everstep::Message>::NAME),*];

            fn decode(
                name: &str,
                decoder: &mut ::everstep::__Decoder<'_>,
            ) -> ::core::option::Option<::core::result::Result<Self, ::everstep::storage::record::Failure>> {
                #(
                    if name == <#types as ::everstep::Message>::NAME {
                        return ::core::option::Option::Some(decoder.message().map(Self::#variants));
                    }
                )*
                ::core::option::Option::None
            }
        }
    })
}
