//! Commands that are sent in one write.

use super::command::write_command;
use super::resp::Reader;
use super::value::Value;

#[derive(Default)]
pub(crate) struct Pipeline {
    bytes: Vec<u8>,
    /// Where each command begins.
    starts: Vec<usize>,
}

impl Pipeline {
    /// Appends a command, and returns its place.
    pub(crate) fn add(&mut self, words: &[&str]) -> usize {
        self.starts.push(self.bytes.len());
        write_command(&mut self.bytes, words);
        self.starts.len() - 1
    }

    pub(crate) fn len(&self) -> usize {
        self.starts.len()
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// One word or two of the command at this place, and none of its arguments.
    pub(crate) fn name_of(&self, at: usize) -> Option<String> {
        let mut command = self.bytes.get(*self.starts.get(at)?..)?;
        let Ok(Some(Value::Array(words))) = Reader::default().next(&mut command, 0) else {
            return None;
        };
        let mut words = words.iter().filter_map(Value::text);
        Some(match (words.next()?, words.next()) {
            (first @ ("CLIENT" | "CLUSTER" | "CONFIG" | "PUBSUB" | "SENTINEL"), Some(second)) => {
                format!("{first} {second}")
            }
            (first, _) => first.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_named_without_its_arguments() {
        let mut commands = Pipeline::default();
        for (words, name) in [
            (&["SUBSCRIBE", "lock:%inbox"][..], "SUBSCRIBE"),
            (&["EVAL", "return redis.call('GET', KEYS[1])"], "EVAL"),
            (&["CLIENT", "NO-EVICT", "ON"], "CLIENT NO-EVICT"),
            (&["HELLO", "3", "AUTH", "default", "SECRET"], "HELLO"),
            (&["AUTH", "SECRET"], "AUTH"),
        ] {
            let at = commands.add(words);
            assert_eq!(commands.name_of(at).as_deref(), Some(name));
        }
        assert_eq!(commands.name_of(commands.len()), None);
    }
}
