//! Where the user's crate finds `redlocked`.
//!
//! rustc loads this crate into its own process, and the arguments of that process name each
//! dependency: `--extern lock=/…/libredlocked-4f1c.rmeta`. A renamed dependency is found there,
//! without a parser of `Cargo.toml`. Where the arguments are another program's, as in
//! rust-analyzer, the name is taken to be `redlocked`.

use std::path::Path;
use std::{env, fs};

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens as _, quote_spanned};
use syn::{Error, Result};

const FACADE: &str = "redlocked";

/// The path in `crate = …`, or else the name of the dependency.
pub(crate) fn path(given: Option<&syn::Path>) -> Result<TokenStream> {
    if let Some(given) = given {
        return Ok(given.to_token_stream());
    }
    let args = env::args_os().filter_map(|arg| arg.into_string().ok()).collect();
    let Some(name) = name(&dependencies(args)) else {
        return Err(Error::new(
            Span::call_site(),
            "this crate does not depend on `redlocked`: add it to `Cargo.toml`, or write where it is re-exported, as in \
             `crate = some_crate::redlocked`",
        ));
    };
    let name = Ident::new(&name, Span::mixed_site());
    Ok(quote_spanned!(Span::mixed_site()=> ::#name))
}

/// The name of each dependency and the crate that it stands for, from the arguments of the
/// compiler.
fn dependencies(args: Vec<String>) -> Vec<(String, String)> {
    // rustdoc and Bazel pass the arguments in a file, one on each line.
    let args = args.into_iter().flat_map(|arg| match arg.strip_prefix('@').map(fs::read_to_string) {
        Some(Ok(file)) => file.lines().map(str::to_owned).collect(),
        _ => vec![arg],
    });
    let mut dependencies = Vec::new();
    let mut is_next = false;
    for arg in args {
        let dependency = if is_next { Some(arg.as_str()) } else { arg.strip_prefix("--extern=") };
        dependencies.extend(dependency.and_then(dependency_of));
        is_next = !is_next && arg == "--extern";
    }
    dependencies
}

/// `lock` and `redlocked` of `priv:lock=/…/libredlocked-4f1c.rmeta`.
fn dependency_of(value: &str) -> Option<(String, String)> {
    let (name, file) = value.split_once('=')?;
    let name = name.rsplit(':').next()?;
    let file = Path::new(file).file_name()?.to_str()?;
    let file = file.strip_prefix("lib").unwrap_or(file);
    Some((name.to_owned(), file.split(['-', '.']).next()?.to_owned()))
}

/// The name of the facade, or `None` if it is certainly no dependency.
fn name(dependencies: &[(String, String)]) -> Option<String> {
    if dependencies.is_empty() || dependencies.iter().any(|(name, _)| name == FACADE) {
        return Some(FACADE.to_owned());
    }
    dependencies.iter().find(|(_, file)| file == FACADE).map(|(name, _)| name.clone())
}

#[cfg(test)]
mod tests {
    use std::{env, fs, process};

    use super::{dependencies, name};

    fn found(args: &[&str]) -> Option<String> {
        name(&dependencies(args.iter().map(|arg| (*arg).to_owned()).collect()))
    }

    #[test]
    fn the_compiler_knows_what_the_dependency_is_called() {
        let other = "--extern=tokio=/deps/libtokio-1a.rlib";
        for (args, expected) in [
            (vec!["--extern", "redlocked=/deps/libredlocked-4f1c.rmeta", other], Some("redlocked")),
            (vec![other, "--extern", "lock=/deps/libredlocked-4f1c.rmeta"], Some("lock")),
            (vec![other, "--extern=lock=redlocked.rlib"], Some("lock")),
            (vec!["--extern", "priv,noprelude:lock=/deps/libredlocked-4f.rlib"], Some("lock")),
            (
                vec![
                    "--extern",
                    "lock=a/libredlocked-4f.rlib",
                    "--extern",
                    "redlocked=b/libredlocked-5a.rlib",
                ],
                Some("redlocked"),
            ),
            (vec![other], None),
            (vec![other, "--extern", "redlocked_client=/deps/libredlocked_client-4f.rlib"], None),
            // Not the compiler.
            (vec!["proc-macro-srv"], Some("redlocked")),
            (vec!["--extern", "proc_macro"], Some("redlocked")),
            (vec!["--extern"], Some("redlocked")),
            (vec!["@/no/such/file"], Some("redlocked")),
        ] {
            assert_eq!(found(&args).as_deref(), expected, "{args:?}");
        }
    }

    #[test]
    fn the_arguments_may_be_in_a_file() {
        let path = env::temp_dir().join(format!("redlock-macros-{}", process::id()));
        assert!(fs::write(&path, "--cfg\ntest\n--extern\nlock=/deps/libredlocked-4f1c.rmeta\n").is_ok());
        let name = found(&[&format!("@{}", path.display())]);
        assert!(fs::remove_file(&path).is_ok());
        assert_eq!(name.as_deref(), Some("lock"));
    }
}
