//! The macros of everstep. Use them through the `everstep` crate.

use proc_macro::TokenStream;
use quote::quote;
use syn::{DeriveInput, parse_macro_input};

/// Makes a type a message that can be sent to an instance; its name is the name of the type.
#[proc_macro_derive(Message)]
pub fn message(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    let name = &input.ident;
    let text = name.to_string();
    let (generics, arguments, bounds) = input.generics.split_for_impl();
    quote! {
        impl #generics ::everstep::Message for #name #arguments #bounds {
            const NAME: &'static str = #text;
        }
    }
    .into()
}
