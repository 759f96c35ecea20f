#[cfg(unix)]
use std::io::Write;
#[cfg(unix)]
use std::process::{Command, Stdio};

use crate::tool::said;

const COMMANDS: [&str; 12] = [
    "list",
    "show",
    "ping",
    "doctor",
    "wait",
    "release",
    "permits",
    "leader",
    "resign",
    "once",
    "tick",
    "completions",
];

#[test]
fn each_shell_gets_completions_of_each_command() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let said = said("", &["completions", shell]);
        assert_eq!((said.code, &*said.err), (Some(0), ""));
        assert!(COMMANDS.iter().all(|command| said.out.contains(command)), "{shell}");
        assert!(!said.out.contains("watchdog"), "{shell}: no person calls it");
    }
    assert_eq!(said("", &["completions", "sh"]).code, Some(64));
}

#[cfg(unix)]
#[test]
fn bash_completes_a_command_an_option_and_a_format() {
    let script = said("", &["completions", "bash"]).out;
    for (words, expected) in [
        ("redlocked do", "doctor"),
        ("redlocked list --so", "--sort"),
        ("redlocked list -o js", "json"),
        ("redlocked completions fi", "fish"),
    ] {
        let words: Vec<&str> = words.split(' ').collect();
        let (last, before) = (words[words.len() - 1], words[words.len() - 2]);
        let ask = format!(
            "\nCOMP_WORDS=({}); COMP_CWORD={}; _redlocked redlocked '{last}' '{before}'; echo \"${{COMPREPLY[@]}}\"\n",
            words.join(" "),
            words.len() - 1
        );
        let mut bash = Command::new("bash")
            .args(["--norc", "--noprofile"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        bash.stdin.take().unwrap().write_all((script.clone() + &ask).as_bytes()).unwrap();
        let completed = bash.wait_with_output().unwrap();
        assert_eq!(String::from_utf8(completed.stdout).unwrap(), format!("{expected}\n"));
    }
}

#[test]
fn the_program_and_each_command_have_a_manual_page() {
    let page = said("", &["man"]).out;
    assert!(page.contains(".TH redlocked 1") && page.contains("REDLOCK_PREFIX"), "{page}");
    let page = said("", &["man", "list"]).out;
    assert!(page.contains(".TH redlocked-list 1") && page.contains("\\-\\-sort"), "{page}");
    let unknown = said("", &["man", "lsit"]);
    assert_eq!((unknown.code, &*unknown.err), (Some(64), "redlocked: there is no command `lsit`\n"));
    let folder = crate::tool::Scratch::new();
    assert_eq!(said("", &["man", "--dir", folder.path()]).code, Some(0));
    for page in
        COMMANDS.map(|command| format!("redlocked-{command}.1")).into_iter().chain(["redlocked.1".to_owned()])
    {
        assert!(std::fs::exists(format!("{}/{page}", folder.path())).unwrap(), "{page}");
    }
    std::fs::remove_dir_all(folder.path()).unwrap();
}
