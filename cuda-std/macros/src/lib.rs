//! The `#[kernel]` attribute of `cuda_std`, which re-exports it.

use proc_macro::TokenStream;
use quote::{ToTokens, quote};
use syn::{Error, ItemFn, ReturnType, parse_macro_input, spanned::Spanned};

/// Makes a function a GPU entry point, named as the function is.
///
/// On `nvptx64` the function gets the kernel calling convention and its plain name in the PTX; on every other
/// target it stays an ordinary `unsafe fn`. The crate needs `#![cfg_attr(target_arch = "nvptx64", no_std, feature(abi_ptx))]`.
///
/// A kernel must be `unsafe` (its launch trusts every pointer in its arguments), must return nothing, and takes at
/// most plain `Copy` data: an argument struct should be `#[repr(C)]`, so that host and device agree on its layout.
#[proc_macro_attribute]
pub fn kernel(options: TokenStream, item: TokenStream) -> TokenStream {
    let mut function = parse_macro_input!(item as ItemFn);
    if let Err(error) = check(&options.into(), &function) {
        return error.into_compile_error().into();
    }
    let for_host = function.clone();
    function.sig.abi = Some(syn::parse_quote!(extern "ptx-kernel"));
    quote! {
        #[cfg(target_arch = "nvptx64")]
        #[unsafe(no_mangle)]
        #function
        #[cfg(not(target_arch = "nvptx64"))]
        #for_host
    }
    .into_token_stream()
    .into()
}

fn check(options: &proc_macro2::TokenStream, function: &ItemFn) -> Result<(), Error> {
    let signature = &function.sig;
    if !options.is_empty() {
        return Err(Error::new(options.span(), "#[kernel] takes no options"));
    }
    if signature.unsafety.is_none() {
        return Err(Error::new(signature.span(), "a kernel must be an `unsafe fn`"));
    }
    if !matches!(signature.output, ReturnType::Default) {
        return Err(Error::new(signature.output.span(), "a kernel returns nothing"));
    }
    if !signature.generics.params.is_empty() {
        let message = "a kernel cannot be generic: call a generic function from one entry point per type";
        return Err(Error::new(signature.generics.span(), message));
    }
    Ok(())
}

/// The directory of this crate's sources, as a string literal.
#[proc_macro]
pub fn source_dir(_: TokenStream) -> TokenStream {
    concat!(env!("CARGO_MANIFEST_DIR"), "/src").to_token_stream().into()
}
