//! The last expression of a workflow function.
//!
//! An operation gives the failure of that operation, and a function returns the error of a workflow. Between two lines
//! `?` turns the one into the other. At the end of a function nobody writes one, so `ctx.run(charge, hold).await` would
//! have to be written as `Ok(ctx.run(charge, hold).await?)`.

use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::{Block, Expr, Stmt, parse_quote_spanned};

/// Converts the error of every expression that a block may end with, if it is an operation that is awaited.
pub(crate) fn convert(block: &mut Block) {
    if let Some(Stmt::Expr(last, None)) = block.stmts.last_mut() {
        expression(last);
    }
}

fn expression(expr: &mut Expr) {
    match expr {
        // Of a method call the error type is known. Of a block it may have been left to be inferred from here.
        Expr::Await(awaited) if matches!(*awaited.base, Expr::MethodCall(_)) => {
            let span = Span::call_site().located_at(awaited.span());
            *expr = parse_quote_spanned! {span=>
                ::core::result::Result::map_err(#awaited, ::core::convert::Into::into)
            };
        }
        Expr::Block(inner) => convert(&mut inner.block),
        Expr::If(choice) => {
            convert(&mut choice.then_branch);
            if let Some((_, otherwise)) = &mut choice.else_branch {
                expression(otherwise);
            }
        }
        Expr::Match(choice) => choice.arms.iter_mut().for_each(|arm| expression(&mut arm.body)),
        _ => {}
    }
}
