//! The README and the pages below `docs/`: their code compiles, their links lead somewhere, and the messages that they quote are
//! those that a user gets.

/// Makes the code of each page a doctest; the README is the front page of the crate.
macro_rules! pages {
    ($($(#[$when:meta])* $page:ident: $path:literal),* $(,)?) => {
        $(
            $(#[$when])*
            #[cfg(doctest)]
            #[doc = include_str!(concat!("../", $path))]
            mod $page {}
        )*

        #[cfg(test)]
        const PAGES: &[(&str, &str)] = &[
            ("README.md", include_str!("../README.md")),
            $(($path, include_str!(concat!("../", $path)))),*
        ];
    };
}

pages! {
    access_rules: "docs/access-rules.md",
    #[cfg(feature = "tls")]
    addresses: "docs/addresses.md",
    command_line: "docs/command-line.md",
    comparison: "docs/comparison.md",
    design: "docs/design.md",
    errors: "docs/errors.md",
    limits: "docs/limits.md",
    manager: "docs/manager.md",
    operating: "docs/operating.md",
    migrating: "docs/migrating.md",
    options: "docs/options.md",
    recipes: "docs/recipes.md",
    servers: "docs/servers.md",
    #[cfg(feature = "testing")]
    testing: "docs/testing.md",
    topologies: "docs/topologies.md",
    tuning: "docs/tuning.md",
    // `examples/web` compiles it: it has the frameworks.
    #[cfg(false)]
    web: "docs/web.md",
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::{fs, io};

    use std::time::Duration;

    use super::PAGES;
    use crate::{LockError, LockManager};

    const REPOSITORY: &str = concat!(env!("CARGO_PKG_REPOSITORY"), "/blob/main/");

    /// Where the links of a page lead, those in code left out.
    fn links(page: &str) -> impl Iterator<Item = &str> {
        let prose = page.split("```").step_by(2);
        let lines = prose.flat_map(str::lines);
        lines.flat_map(|line| {
            let inline = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
            let definition = line.strip_prefix('[').and_then(|rest| rest.split_once("]: "));
            inline.chain(definition.map(|(_, target)| target))
        })
    }

    /// As GitHub calls the heading of a section.
    fn anchor(heading: &str) -> String {
        let kept = heading.chars().filter(|char| char.is_alphanumeric() || " -_".contains(*char));
        kept.map(|char| if char == ' ' { '-' } else { char.to_ascii_lowercase() }).collect()
    }

    /// Why a link leads nowhere.
    fn broken_link(root: &Path, from: &str, link: &str) -> Option<String> {
        let (target, section) =
            link.split_once('#').map_or((link, None), |(target, section)| (target, Some(section)));
        let place = match target.strip_prefix(REPOSITORY) {
            Some(path) => root.join(path),
            None if target.contains("://") => return None,
            None if target.is_empty() => root.join(from),
            None => root.join(from).parent()?.join(target),
        };
        if !place.exists() {
            return Some(format!("there is no {}", place.display()));
        }
        let (section, text) = (section?, fs::read_to_string(&place).unwrap_or_default());
        let mut headings = text.lines().filter(|line| line.starts_with('#'));
        let is_there = headings.any(|line| anchor(line.trim_start_matches('#').trim()) == section);
        (!is_there).then(|| format!("{} has no section `{section}`", place.display()))
    }

    /// The papers of the repository that are no pages of the docs.
    const PAPERS: [&str; 7] = [
        "BENCHMARKS.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "redlock-cli/README.md",
        "redlock-macros/README.md",
        "redlock-runtime/README.md",
    ];

    #[test]
    fn every_link_leads_somewhere() -> io::Result<()> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut texts: Vec<_> =
            PAGES.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
        for path in PAPERS {
            texts.push((path.to_owned(), fs::read_to_string(root.join(path))?));
        }
        let mut broken = Vec::new();
        for (from, text) in &texts {
            broken.extend(links(text).filter_map(|link| Some((from, link, broken_link(root, from, link)?))));
        }
        assert!(broken.is_empty(), "{broken:#?}");
        Ok(())
    }

    /// Rustdoc checks what a link names, but no address.
    #[test]
    fn every_link_of_the_sources_into_the_repository_leads_somewhere() -> io::Result<()> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut folders: Vec<_> =
            ["src", "redlock-macros/src", "redlock-runtime/src"].map(|path| root.join(path)).into();
        let mut found = Vec::new();
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder)? {
                let path = entry?.path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    let text = fs::read_to_string(path)?;
                    let targets =
                        text.split(REPOSITORY).skip(1).filter_map(|rest| rest.split([')', '"', '\n']).next());
                    found.extend(targets.map(|target| format!("{REPOSITORY}{target}")));
                }
            }
        }
        let broken: Vec<_> = found.iter().filter_map(|link| broken_link(root, "src", link)).collect();
        assert!(broken.is_empty() && !found.is_empty(), "{broken:#?}");
        Ok(())
    }

    #[test]
    fn every_page_is_compiled_and_linked_from_the_readme() {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
        let files = fs::read_dir(docs).into_iter().flatten().flatten();
        let names = files.map(|file| file.file_name().display().to_string());
        let pages = names.filter(|name| name.strip_suffix(".md").is_some());
        let (_, readme) = PAGES[0];
        for page in pages.map(|name| format!("docs/{name}")) {
            assert!(PAGES.iter().any(|(path, _)| *path == page), "{page} is not compiled");
            assert!(readme.contains(&format!("({REPOSITORY}{page})")), "{page} is not linked");
        }
    }

    /// True when the pieces between each `…` are in the message, in order.
    fn quotes(quoted: &str, message: &str) -> bool {
        let mut rest = Some(message);
        for piece in quoted.split('…') {
            rest = rest.and_then(|rest| rest.split_once(piece)).map(|(_, behind)| behind);
        }
        rest.is_some()
    }

    #[test]
    fn the_page_of_errors_quotes_the_messages() -> Result<(), LockError> {
        let page = include_str!("../docs/errors.md");
        let quoted = |error: &str| {
            let row = page.lines().find_map(|line| line.strip_prefix(&format!("| `{error}` | ")))?;
            let cell = row.split(" | ").next()?;
            let code = cell.strip_prefix("`` ").and_then(|cell| cell.strip_suffix(" ``"));
            code.or_else(|| cell.strip_prefix('`')?.strip_suffix('`'))
        };

        let locks = LockManager::builder("memory://errors").max_waiters(0).connect_blocking()?;
        let lock = || locks.lock("stock:42");
        let short = Duration::from_millis(10);
        let held = lock().acquire_blocking()?;
        let mut errors = vec![
            ("Busy", lock().acquire_blocking().err()),
            ("QueueFull", lock().wait(short).acquire_blocking().err()),
            ("InvalidKey", locks.lock("").acquire_blocking().err()),
            ("InvalidRequest", lock().ttl(Duration::ZERO).acquire_blocking().err()),
            ("InvalidUrl", LockManager::connect_blocking("ftp://host").err()),
            ("NotConfigured", Some(LockError::NotConfigured)),
        ];
        let others = LockManager::connect_blocking("memory://errors")?;
        errors.push(("TimedOut", others.lock("stock:42").wait(short).acquire_blocking().err()));
        // A waiter whose cancellation is still under way would be handed the lock.
        while others.inspect_blocking("stock:42")?.is_some_and(|lock| lock.waiters() > 0) {}
        locks.force_release_blocking("stock:42")?;
        errors.push(("Lost", held.extend_blocking(short).err()));
        errors.push(("Deadlock", lock().run_blocking(|_| lock().acquire_blocking().err())?));
        let held = lock().acquire_blocking()?;
        errors.push(("ShutdownIncomplete", locks.shutdown_blocking(Duration::ZERO).err()));
        errors.push(("ManagerClosed", lock().acquire_blocking().err()));
        drop(held);
        let down = LockManager::builder("redis://127.0.0.1:1/").start()?;
        errors.push(("Unavailable", down.lock("stock:42").acquire_blocking().err()));

        for (name, error) in errors {
            let message = error.map(|error| error.to_string()).unwrap_or_default();
            let quoted = quoted(name);
            assert!(quoted.is_some_and(|quoted| quotes(quoted, &message)), "{name}: {quoted:?}: {message}");
        }
        Ok(())
    }

    #[test]
    fn the_readme_is_short() {
        let (_, readme) = PAGES[0];
        assert!(readme.lines().count() <= 200);
    }
}
