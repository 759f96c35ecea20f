//! The README and the pages below `docs/`: their links lead somewhere, here and in the rustdoc, and
//! the messages that they quote are those that a user gets.

use std::path::Path;
use std::time::Duration;
use std::{fs, io};

use crate::{Fence, LockError, LockManager};

const README: &str = include_str!("../README.md");

/// Where a label of a page leads to in the rustdoc.
const LINKS: &str = include_str!("links.md");

/// The modules of the pages.
const MODULES: &str = include_str!("docs.rs");

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// The papers of the repository that are no pages of the docs.
const PAPERS: [&str; 9] = [
    "BENCHMARKS.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "redlock-cli/README.md",
    "redlock-macros/README.md",
    "redlock-runtime/README.md",
    "redlocked-dashboard/README.md",
    "redlocked-sqlx/README.md",
];

/// The README and the pages, by their paths.
fn pages() -> io::Result<Vec<(String, String)>> {
    let mut pages = vec![("README.md".to_owned(), README.to_owned())];
    for file in fs::read_dir(Path::new(ROOT).join("docs"))? {
        let name = file?.file_name().display().to_string();
        if name.strip_suffix(".md").is_some() {
            let text = fs::read_to_string(Path::new(ROOT).join("docs").join(&name))?;
            pages.push((format!("docs/{name}"), text));
        }
    }
    Ok(pages)
}

/// The sources of the published crates.
fn sources() -> io::Result<Vec<String>> {
    let folders = [
        "src",
        "redlock-cli/src",
        "redlock-macros/src",
        "redlock-runtime/src",
        "redlocked-dashboard/src",
        "redlocked-sqlx/src",
    ];
    let mut folders: Vec<_> = folders.map(|path| Path::new(ROOT).join(path)).into();
    let mut sources = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() { folders.push(path) } else { sources.push(fs::read_to_string(path)?) }
        }
    }
    Ok(sources)
}

/// The lines of a page, those of its code left out.
fn prose(page: &str) -> impl Iterator<Item = &str> {
    page.split("```").step_by(2).flat_map(str::lines)
}

/// `[words](target)`: the targets.
fn inline_links(page: &str) -> impl Iterator<Item = &str> {
    prose(page).flat_map(|line| line.split("](").skip(1).filter_map(|rest| rest.split(')').next()))
}

/// `[label]: target`: both.
fn definitions(page: &str) -> impl Iterator<Item = (&str, &str)> {
    prose(page).filter_map(|line| line.strip_prefix('[')?.split_once("]: "))
}

/// As GitHub calls the heading of a section.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|char| char.is_alphanumeric() || " -_".contains(*char));
    kept.map(|char| if char == ' ' { '-' } else { char.to_ascii_lowercase() }).collect()
}

/// Why a link leads nowhere.
fn broken_link(from: &str, link: &str) -> Option<String> {
    let (target, section) =
        link.split_once('#').map_or((link, None), |(target, section)| (target, Some(section)));
    let place = match target {
        "" => Path::new(ROOT).join(from),
        _ if target.contains("://") => return None,
        _ => Path::new(ROOT).join(from).parent()?.join(target),
    };
    if !place.exists() {
        return Some(format!("there is no {}", place.display()));
    }
    let (section, text) = (section?, fs::read_to_string(&place).unwrap_or_default());
    let mut headings = text.lines().filter(|line| line.starts_with('#'));
    let is_there = headings.any(|line| anchor(line.trim_start_matches('#').trim()) == section);
    (!is_there).then(|| format!("{} has no section `{section}`", place.display()))
}

#[test]
fn every_link_leads_somewhere() -> io::Result<()> {
    let mut texts = pages()?;
    for path in PAPERS {
        texts.push((path.to_owned(), fs::read_to_string(Path::new(ROOT).join(path))?));
    }
    let mut broken = Vec::new();
    for (from, text) in &texts {
        let links = inline_links(text).chain(definitions(text).map(|(_, target)| target));
        broken.extend(links.filter_map(|link| Some((from, link, broken_link(from, link)?))));
    }
    assert!(broken.is_empty(), "{broken:#?}");
    Ok(())
}

/// A file of the repository has another name there: so a page names it by a label, which `links.md`
/// defines for the rustdoc.
#[test]
fn every_link_between_pages_leads_to_the_same_place_in_the_rustdoc() -> io::Result<()> {
    let mut wrong = Vec::new();
    for (from, text) in &pages()? {
        let files = inline_links(text).filter(|link| !link.starts_with('#') && !link.contains("://"));
        wrong.extend(
            files.map(|link| format!("{from}: `{link}` is no label: [words][options#ttl-wait-and-max_hold]")),
        );
        for (label, target) in definitions(text) {
            let there = definitions(LINKS)
                .chain(definitions(PICTURES))
                .find(|(other, _)| *other == label)
                .map(|(_, there)| there);
            let (file, section) =
                target.split_once('#').map_or((target, ""), |(file, section)| (file, section));
            let section = if section.is_empty() { String::new() } else { format!("#{section}") };
            let page = file.strip_prefix("docs/").unwrap_or(file).strip_suffix(".md").unwrap_or_default();
            let expected = match file {
                "docs/hand-off.svg" => Some(format!("data:image/svg+xml,{}", percent_encoded(HAND_OFF))),
                _ if Path::new(file).extension().is_some_and(|kind| kind == "png") => Some(as_data(file)?),
                _ if file.ends_with("distributed_lock.md") => {
                    Some(format!("macro@crate::distributed_lock{section}"))
                }
                "../README.md" => Some(format!("crate{section}")),
                _ if label == format!("{page}{section}") => {
                    Some(format!("crate::docs::{}{section}", page.replace('-', "_")))
                }
                _ => None,
            };
            if there.map(str::to_owned) != expected || there.is_none() {
                wrong.push(format!(
                    "{from}: `[{label}]: {target}` is `{there:?}` in src/links.md, not `{expected:?}`"
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    Ok(())
}

/// The labels of the pictures that are no text.
const PICTURES: &str = include_str!("pictures.md");

/// A picture below `docs/`, in Base64.
fn as_data(file: &str) -> io::Result<String> {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bytes = fs::read(Path::new(ROOT).join("docs").join(file))?;
    let mut text = "data:image/png;base64,".to_owned();
    for three in bytes.chunks(3) {
        let bits = three.iter().chain(&[0, 0]).take(3).fold(0, |bits, byte| bits << 8 | usize::from(*byte));
        let digits = (0..4).map(|at| char::from(DIGITS[bits >> (18 - 6 * at) & 63]));
        text.extend(digits.take(three.len() + 1));
        text.extend(std::iter::repeat_n('=', 3 - three.len()));
    }
    Ok(text)
}

const HAND_OFF: &str = include_str!("../docs/hand-off.svg");

fn percent_encoded(text: &str) -> String {
    let kept = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    text.bytes()
        .map(|byte| if kept(byte) { char::from(byte).into() } else { format!("%{byte:02X}") })
        .collect()
}

/// Rustdoc checks what a link names, but no address. What is documented behind the facade names its
/// pages by their place beside it.
#[test]
fn every_link_of_the_sources_to_a_page_leads_somewhere() -> io::Result<()> {
    let (place, mut found, mut broken) = (concat!("(../redlocked", "/docs/"), 0, Vec::new());
    for source in sources()? {
        for link in source.split(place).skip(1).filter_map(|rest| rest.split(')').next()) {
            let page = link.replacen("/index.html", ".md", 1).replace('_', "-");
            broken.extend(broken_link("docs/options.md", &page));
            found += 1;
        }
    }
    assert!(broken.is_empty() && found > 0, "{broken:#?}");
    Ok(())
}

/// There may be no repository at that address yet, or another one later.
#[test]
fn the_address_of_the_repository_stands_in_the_manifest_alone() -> io::Result<()> {
    let papers = PAPERS.iter().map(|path| fs::read_to_string(Path::new(ROOT).join(path)));
    let texts = papers.collect::<io::Result<Vec<_>>>()?.into_iter().chain(sources()?);
    let address = env!("CARGO_PKG_REPOSITORY");
    let naming =
        texts.chain(pages()?.into_iter().map(|(_, text)| text)).filter(|text| text.contains(address));
    assert_eq!(naming.collect::<Vec<_>>(), Vec::<String>::new());
    Ok(())
}

#[test]
fn every_page_is_a_module_and_linked_from_the_readme() -> io::Result<()> {
    for (page, _) in pages()?.iter().skip(1) {
        let name = page.strip_prefix("docs/").unwrap_or(page);
        assert!(MODULES.contains(&format!("\"{name}\"")), "{page} is no module of src/docs.rs");
        assert!(README.contains(&format!("]: {page}\n")), "{page} is not linked");
    }
    Ok(())
}

/// A reader of the list of pages, and of the page itself, sees first what the page is for.
#[test]
fn every_page_opens_with_its_sentence_in_the_list_of_pages() -> io::Result<()> {
    for (page, text) in pages()?.iter().skip(1) {
        let name = page.strip_prefix("docs/").unwrap_or(page);
        let listed = MODULES.split(&format!("\"{name}\" => \"")).nth(1);
        let listed = listed.and_then(|rest| rest.split("\",").next()).unwrap_or_default();
        let opening = text.split("\n\n").nth(1).unwrap_or_default().replace('\n', " ");
        assert!(listed.ends_with('.') && opening.starts_with(listed), "{page}: {listed:?}: {opening:?}");
    }
    Ok(())
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
    ];
    errors.push(("NotConfigured", Some(LockError::NotConfigured)));
    let others = LockManager::connect_blocking("memory://errors")?;
    errors.push(("TimedOut", others.lock("stock:42").wait(short).acquire_blocking().err()));
    // A waiter whose cancellation is still under way would be handed the lock.
    while others.inspect_blocking("stock:42")?.is_some_and(|lock| lock.waiters() > 0) {}
    locks.force_release_blocking("stock:42")?;
    errors.push(("Lost", held.extend_blocking(short).err()));
    let fence = lock().run_value_blocking(|guard| guard.fences().next())?;
    errors.push(("Fenced", fence.as_ref().map(Fence::refused)));
    errors.push(("Store", fence.map(|fence| fence.failed("the commit", std::fmt::Error))));
    errors.push(("Deadlock", lock().run_value_blocking(|_| lock().acquire_blocking().err())?));
    let held = lock().acquire_blocking()?;
    errors.push(("ShutdownIncomplete", locks.shutdown_blocking(Duration::ZERO).err()));
    errors.push(("ManagerClosed", lock().acquire_blocking().err()));
    drop(held);
    let down = LockManager::builder("redis://127.0.0.1:1/").connect_lazy()?;
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
    let definitions = definitions(README).count();
    assert!(README.lines().count() - definitions <= 200);
}
