//! The function under an attribute, and the marker that takes its name.
//!
//! `async fn payment` becomes a type `Payment` that stands for it, a function `payment` that gives that type and so can
//! be handed over in its place, and a function of the type that has the body just as it was written, so that errors in
//! it point at the user's own lines. It is a function and not a constant because `let` can shadow a function.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote};
use syn::ext::IdentExt;
use syn::{Attribute, Error, FnArg, GenericArgument, Ident, ItemFn, PatType, PathArguments, PathSegment};
use syn::{Result, ReturnType, Safety, Signature, Type};

/// What a function is to become.
#[derive(Clone, Copy)]
pub(crate) struct Role {
    /// The attribute's name: `workflow`.
    pub(crate) word: &'static str,
    /// With its article: `a workflow`.
    pub(crate) one: &'static str,
}

/// A function that can become what its attribute says.
pub(crate) struct Function {
    pub(crate) role: Role,
    pub(crate) item: ItemFn,
    /// The type that stands for it.
    pub(crate) marker: Ident,
    /// What is in the `Result` that it returns.
    pub(crate) output: Type,
}

impl Function {
    /// Reads a function, and refuses one that can't be stored or called.
    pub(crate) fn parse(role: Role, tokens: TokenStream) -> Result<Self> {
        let item: ItemFn = syn::parse2(tokens).map_err(|error| {
            let message = format!("{}; `#[{}]` belongs on an `async fn`", error, role.word);
            Error::new(error.span(), message)
        })?;
        plain(role, &item.sig)?;
        let marker = marker(role, &item.sig.ident)?;
        let output = output(role, &item.sig)?;
        Ok(Self {
            role,
            item,
            marker,
            output,
        })
    }

    /// The name that it is stored under unless an option says otherwise.
    pub(crate) fn name(&self) -> String {
        self.item.sig.ident.unraw().to_string()
    }

    /// Its arguments.
    pub(crate) fn arguments(&self) -> Result<Vec<&PatType>> {
        let arguments = self.item.sig.inputs.iter().map(|argument| match argument {
            FnArg::Typed(argument) => Ok(argument),
            FnArg::Receiver(receiver) => {
                let message = format!("{} is a function of its own and has no `self`", self.role.one);
                Err(Error::new_spanned(receiver, message))
            }
        });
        arguments.collect()
    }

    /// The type of its input, given what is left of its arguments when those that the runtime hands over are taken
    /// off: nothing, or one.
    pub(crate) fn input(&self, rest: &[&PatType]) -> Result<Type> {
        let (one, ident) = (self.role.one, &self.item.sig.ident);
        let input = match rest {
            [] => return Ok(syn::parse_quote!(())),
            [input] => input,
            [_, second, ..] => {
                let message = format!("{one} has one input; put what belongs together into a struct or a tuple");
                return Err(Error::new_spanned(second, message));
            }
        };
        if matches!(&*input.ty, Type::Reference(_)) {
            let message = format!("the input of {one} is stored, so it has to own what it holds");
            return Err(Error::new_spanned(&input.ty, message));
        }
        if matches!(&*input.ty, Type::ImplTrait(_)) {
            let message = format!("the input of {one} is stored, so it has to be one type");
            return Err(Error::new_spanned(&input.ty, message));
        }
        if matches!(&*input.ty, Type::Path(path) if path.path.is_ident(&self.marker)) {
            let marker = &self.marker;
            let message = format!("`{ident}` itself is known as `{marker}`; rename the function or its input type");
            return Err(Error::new_spanned(&input.ty, message));
        }
        Ok((*input.ty).clone())
    }

    /// The marker, the function that stands for it, and the function itself as `call`.
    pub(crate) fn shell(&self) -> TokenStream {
        let Self { item, marker, .. } = self;
        let (ident, vis, body) = (&item.sig.ident, &item.vis, &item.block);
        let everywhere = self.attributes(goes_everywhere);
        let docs = self.attributes(|attribute| attribute.path().is_ident("doc"));
        let on_stand_in = self.attributes(|attribute| attribute.path().is_ident("deprecated"));
        let on_function = self.attributes(|attribute| {
            !goes_everywhere(attribute) && !["doc", "deprecated"].iter().any(|name| attribute.path().is_ident(name))
        });
        let signature = Signature {
            ident: Ident::new("call", ident.span()),
            ..item.sig.clone()
        };
        let (word, name) = (self.role.word, self.name());
        let about_marker = format!("The type that stands for the {word} [`{name}`](fn@{name}).");
        let about_stand_in = format!("The {word} `{name}`.");
        let about_stand_in = docs.is_empty().then(|| quote!(#[doc = #about_stand_in]));
        let about_call = format!("The function of the {word} itself, as it is written.");
        quote! {
            #[doc = #about_marker]
            #(#everywhere)*
            #[derive(::core::fmt::Debug, ::core::clone::Clone, ::core::marker::Copy)]
            #vis struct #marker;

            #about_stand_in
            #(#docs)*
            #(#everywhere)*
            #(#on_stand_in)*
            #[allow(dead_code)]
            #vis fn #ident() -> #marker {
                #marker
            }

            #(#everywhere)*
            impl #marker {
                #[doc = #about_call]
                #(#on_function)*
                #vis #signature #body
            }
        }
    }

    /// The attributes that have to stand on everything that is made of the function.
    pub(crate) fn everywhere(&self) -> Vec<&Attribute> {
        self.attributes(goes_everywhere)
    }

    /// Where generated code claims to stand: at the function's name.
    pub(crate) fn span(&self) -> Span {
        Span::call_site().located_at(self.item.sig.ident.span())
    }

    fn attributes(&self, wanted: impl Fn(&Attribute) -> bool) -> Vec<&Attribute> {
        self.item.attrs.iter().filter(|attribute| wanted(attribute)).collect()
    }
}

/// Conditions and lint levels hold for all that a function turns into.
fn goes_everywhere(attribute: &Attribute) -> bool {
    ["cfg", "allow", "warn", "deny"]
        .iter()
        .any(|name| attribute.path().is_ident(name))
}

/// The last segment of a type that is a plain path: `Ctx<Payment>` of `everstep::Ctx<Payment>`.
pub(crate) fn last_segment(of: &Type) -> Option<&PathSegment> {
    match of {
        Type::Path(path) if path.qself.is_none() => path.path.segments.last(),
        _ => None,
    }
}

/// The first type between the angle brackets of a segment.
pub(crate) fn first_type(segment: &PathSegment) -> Option<&Type> {
    let PathArguments::AngleBracketed(arguments) = &segment.arguments else {
        return None;
    };
    arguments.args.iter().find_map(|argument| match argument {
        GenericArgument::Type(argument) => Some(argument),
        _ => None,
    })
}

/// Refuses whatever an ordinary `async fn` does not have.
fn plain(role: Role, signature: &Signature) -> Result<()> {
    let one = role.one;
    if signature.asyncness.is_none() {
        let message = format!("{one} is an `async fn`");
        return Err(Error::new_spanned(signature.fn_token, message));
    }
    let (generics, where_clause) = (&signature.generics, &signature.generics.where_clause);
    if !generics.params.is_empty() || where_clause.is_some() {
        let message = format!("{one} is stored by its name, which stands for one function: it can't be generic");
        return Err(match where_clause {
            Some(where_clause) => Error::new_spanned(where_clause, message),
            None => Error::new_spanned(generics, message),
        });
    }
    let ordinary = format!("{one} is an ordinary `async fn`");
    if let Some(constness) = &signature.constness {
        return Err(Error::new_spanned(constness, ordinary));
    }
    if let Safety::Unsafe(word) = &signature.safety {
        return Err(Error::new_spanned(word, ordinary));
    }
    if let Some(abi) = &signature.abi {
        return Err(Error::new_spanned(abi, ordinary));
    }
    match &signature.variadic {
        Some(variadic) => Err(Error::new_spanned(variadic, ordinary)),
        None => Ok(()),
    }
}

/// `Payment` for `payment`, `SendMail` for `send_mail`.
fn marker(role: Role, ident: &Ident) -> Result<Ident> {
    let name = ident.unraw().to_string();
    let mut marker = String::new();
    for word in name.split('_') {
        let mut letters = word.chars();
        marker.extend(letters.next().into_iter().flat_map(char::to_uppercase));
        marker.push_str(letters.as_str());
    }
    let begins = marker.chars().next().is_some_and(char::is_alphabetic);
    if !begins || marker == name || marker == "Self" {
        let message = format!(
            "the name of {} is written in snake_case and begins with a letter",
            role.one
        );
        return Err(Error::new_spanned(ident, message));
    }
    Ok(format_ident!("{marker}", span = ident.span()))
}

/// What is in the `Result` that a function returns.
fn output(role: Role, signature: &Signature) -> Result<Type> {
    let one = role.one;
    let ReturnType::Type(_, returned) = &signature.output else {
        let message = format!("{one} returns a `Result`: add `-> Result<()>`");
        return Err(Error::new_spanned(&signature.ident, message));
    };
    let segment = last_segment(returned).filter(|segment| segment.ident == "Result");
    match segment.and_then(first_type) {
        Some(output) => Ok(output.clone()),
        None => {
            let message = format!("{one} returns a `Result`, written as `Result<T>` or `Result<T, E>`");
            Err(Error::new_spanned(returned, message))
        }
    }
}
