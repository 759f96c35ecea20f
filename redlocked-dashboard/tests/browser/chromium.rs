//! A headless Chromium, spoken to by the [DevTools protocol](https://chromedevtools.github.io/devtools-protocol/)
//! over two pipes: one JSON object after the other, with a zero byte behind each.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::LazyLock;

use kit::{eventually, skipped};
use serde_json::{Value, json};

/// The root of the repository.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// The program, `None` where it is not to be had, which is a failure where `CI` is set.
static PROGRAM: LazyLock<Option<PathBuf>> = LazyLock::new(|| {
    let get = Command::new(format!("{ROOT}/tests/browser/get")).output().unwrap();
    let is_required = std::env::var_os("CI").is_some();
    assert!(get.status.success() || !is_required, "{}", String::from_utf8_lossy(&get.stderr));
    get.status.success().then(|| String::from_utf8(get.stdout).unwrap().trim().into())
});

pub(crate) struct Browser {
    process: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    id: u64,
    session: Option<String>,
    profile: PathBuf,
}

impl Browser {
    /// `None` where there is none.
    pub(crate) fn start() -> Option<Self> {
        let Some(program) = &*PROGRAM else {
            skipped("there is no Chromium");
            return None;
        };
        let profile = std::env::temp_dir().join(kit::unique("redlocked-browser"));
        // It reads from 3 and writes to 4.
        let mut process = Command::new("sh")
            .args(["-c", r#"exec "$0" "$@" 3<&0 4>&1 </dev/null >/dev/null 2>&1"#])
            .arg(program)
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--hide-scrollbars",
                "--remote-debugging-pipe",
            ])
            .arg(format!("--user-data-dir={}", profile.display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (to, from) = (process.stdin.take().unwrap(), BufReader::new(process.stdout.take().unwrap()));
        let mut browser = Self { process, to, from, id: 0, session: None, profile };
        let target = browser.send("Target.createTarget", &json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let session = browser.send("Target.attachToTarget", &attach);
        browser.session = session["sessionId"].as_str().map(str::to_owned);
        Some(browser)
    }

    fn send(&mut self, method: &str, params: &Value) -> Value {
        self.ask(method, params).unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    /// Its answer, or the error that it gives: on the way from one document to the next, a question
    /// about the first has no answer.
    fn ask(&mut self, method: &str, params: &Value) -> Result<Value, Value> {
        self.id += 1;
        let mut request = json!({ "id": self.id, "method": method, "params": params });
        if let Some(session) = &self.session {
            request["sessionId"] = json!(session);
        }
        self.to.write_all(format!("{request}\0").as_bytes()).unwrap();
        loop {
            let mut answer = Vec::new();
            self.from.read_until(0, &mut answer).unwrap();
            assert_eq!(answer.pop(), Some(0), "the browser has ended");
            let answer: Value = serde_json::from_slice(&answer).unwrap();
            // Others are events.
            if answer["id"] == json!(self.id) {
                return match &answer["error"] {
                    Value::Null => Ok(answer["result"].clone()),
                    error => Err(error.clone()),
                };
            }
        }
    }

    /// So many pixels wide, with dark colours or light ones.
    pub(crate) fn shows(&mut self, width: u32, is_dark: bool) {
        let metrics = json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500 });
        self.send("Emulation.setDeviceMetricsOverride", &metrics);
        let scheme = if is_dark { "dark" } else { "light" };
        let media = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.send("Emulation.setEmulatedMedia", &media);
    }

    /// Goes there, and waits for the document.
    pub(crate) fn open(&mut self, url: &str) {
        let went = self.send("Page.navigate", &json!({ "url": url }));
        assert_eq!(went["errorText"], Value::Null, "{url}");
        let is_there = "document.readyState === 'complete' && location.href !== 'about:blank'";
        self.waits_for("the document is there", is_there);
    }

    pub(crate) fn without_javascript(&mut self, is_off: bool) {
        self.send("Emulation.setScriptExecutionDisabled", &json!({ "value": is_off }));
    }

    /// What this JavaScript returns.
    pub(crate) fn run(&mut self, script: &str) -> Value {
        let expression = json!({ "expression": script, "returnByValue": true });
        let ran = self.send("Runtime.evaluate", &expression);
        assert_eq!(ran["exceptionDetails"], Value::Null, "{script}");
        ran["result"]["value"].clone()
    }

    /// What a person reads on the page.
    pub(crate) fn text(&mut self) -> String {
        let text = json!({ "expression": "document.body?.innerText ?? ''", "returnByValue": true });
        let ran = self.ask("Runtime.evaluate", &text).unwrap_or_default();
        ran["result"]["value"].as_str().unwrap_or_default().to_owned()
    }

    /// True when this JavaScript returns that; false between two documents.
    fn is(&mut self, script: &str) -> bool {
        let script = format!("(() => {{ try {{ return {script} }} catch {{ return false }} }})()");
        let ran = self.ask("Runtime.evaluate", &json!({ "expression": script, "returnByValue": true }));
        ran.is_ok_and(|ran| ran["result"]["value"] == json!(true))
    }

    pub(crate) fn waits_for(&mut self, what: &str, script: &str) {
        eventually(what, || self.is(script));
    }

    /// Keeps a picture of the whole page as `target/dashboard/<name>.png`.
    pub(crate) fn keep(&mut self, name: &str) {
        let picture =
            self.send("Page.captureScreenshot", &json!({ "format": "png", "captureBeyondViewport": true }));
        let folder = format!("{ROOT}/target/dashboard");
        std::fs::create_dir_all(&folder).unwrap();
        let bytes = base64(picture["data"].as_str().unwrap());
        std::fs::write(format!("{folder}/{name}.png"), bytes).unwrap();
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        // Its helpers may write there still.
        let _ = std::fs::remove_dir_all(&self.profile);
    }
}

fn base64(text: &str) -> Vec<u8> {
    let value = |char: u8| match char {
        b'A'..=b'Z' => char - b'A',
        b'a'..=b'z' => char - b'a' + 26,
        b'0'..=b'9' => char - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let (mut bytes, mut bits, mut count) = (Vec::new(), 0_u32, 0);
    for char in text.bytes().filter(|char| *char != b'=') {
        bits = (bits << 6 | u32::from(value(char))) & 0xff_ffff;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push(u8::try_from((bits >> count) & 0xff).unwrap());
        }
    }
    bytes
}
