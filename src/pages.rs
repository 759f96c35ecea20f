//! The README and the pages below `docs/`: their code compiles, and their links lead somewhere.

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
    comparison: "docs/comparison.md",
    errors: "docs/errors.md",
    limits: "docs/limits.md",
    manager: "docs/manager.md",
    options: "docs/options.md",
    topologies: "docs/topologies.md",
    tuning: "docs/tuning.md",
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::PAGES;

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
    fn broken(root: &Path, from: &str, link: &str) -> Option<String> {
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

    #[test]
    fn every_link_leads_somewhere() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let links = PAGES.iter().flat_map(|(from, page)| links(page).map(move |link| (*from, link)));
        let broken: Vec<_> = links
            .filter_map(|(from, link)| broken(root, from, link).map(|why| format!("{from}: {link}: {why}")))
            .collect();
        assert!(broken.is_empty(), "{broken:#?}");
    }

    #[test]
    fn every_page_is_compiled_and_linked_from_the_readme() {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
        let files = fs::read_dir(docs).into_iter().flatten().flatten();
        let names = files.map(|file| file.file_name().display().to_string());
        // The design has no code.
        let pages = names.filter(|name| name.strip_suffix(".md").is_some_and(|name| name != "design"));
        let (_, readme) = PAGES[0];
        for page in pages.map(|name| format!("docs/{name}")) {
            assert!(PAGES.iter().any(|(path, _)| *path == page), "{page} is not compiled");
            assert!(readme.contains(&format!("({REPOSITORY}{page})")), "{page} is not linked");
        }
    }

    #[test]
    fn the_readme_is_short() {
        let (_, readme) = PAGES[0];
        assert!(readme.lines().count() <= 200);
    }
}
