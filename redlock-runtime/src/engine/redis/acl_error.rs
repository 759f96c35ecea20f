//! Finds the command that an access rule forbids in the middle of a script: the server names only the line of the script.

/// Adds the commands of the line that the server's `words` name, for a script with this `source`.
pub(super) fn named(words: &str, source: &str) -> Option<String> {
    if !words.contains("The user executing the script can't") {
        return None;
    }
    let line = words.rsplit_once("user_script:")?.1;
    let line: usize = line.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()?;
    let commands = commands(source.lines().nth(line.checked_sub(1)?)?);
    let what = words.split_once(" script: ").map_or(words, |(what, _)| what);
    (!commands.is_empty()).then(|| format!("{what}: {}", commands.join(" or ")))
}

fn commands(line: &str) -> Vec<&str> {
    let quoted = line.split("redis.call('").skip(1);
    quoted.filter_map(|rest| rest.split_once('\'').map(|(command, _)| command)).collect()
}

#[cfg(test)]
mod tests {
    use super::named;

    const SOURCE: &str =
        "local now = redis.call('TIME')\nreturn {redis.call('GET', a), redis.call('PTTL', a)}\n";

    #[test]
    fn the_line_leads_to_the_command() {
        let said = |line| {
            format!("ERR The user executing the script can't do it script: 12ab, on @user_script:{line}.")
        };
        let before = "ERR The user executing the script can't do it";
        assert_eq!(named(&said(1), SOURCE), Some(format!("{before}: TIME")));
        assert_eq!(named(&said(2), SOURCE), Some(format!("{before}: GET or PTTL")));
        assert_eq!(named(&said(3), SOURCE), None);
        assert_eq!(named(&said(0), SOURCE), None);
        assert_eq!(named("ERR another one script: 12ab, on @user_script:1.", SOURCE), None);
    }
}
