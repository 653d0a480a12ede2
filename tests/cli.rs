//! The program from the outside: arguments and files in, text and exit codes out.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Output};

fn oncegate(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_oncegate"));
    // The variables of whoever runs the tests are not part of them.
    command.env_clear().current_dir(folder).args(arguments);
    command
}

fn run(mut command: Command) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = command.output().expect("the program starts");
    let text = |bytes| String::from_utf8(bytes).expect("it writes text");
    (status.code(), text(stdout), text(stderr))
}

fn folder_with(file: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("there is room");
    std::fs::write(folder.path().join("oncegate.toml"), file).expect("there is room");
    folder
}

#[test]
fn check_prints_the_effective_configuration_without_its_secrets() {
    let folder =
        folder_with("upstream = 'http://api:9000'\n[durable]\nurl = 'mysql://u:pw@db/x'\n");
    let mut command = oncegate(folder.path(), &["check", "--config", "oncegate.toml"]);
    command.args(["--listen", "127.0.0.1:7"]).env("ONCEGATE_ADMIN_TOKEN", "hunter2");
    let (code, stdout, stderr) = run(command);
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    for line in [
        "listen = \"127.0.0.1:7\"",
        "url = \"mysql://u:***@db/x\"",
        "token = \"***\"",
        "[[routes]]",
    ] {
        assert!(stdout.contains(line), "{line}: {stdout}");
    }
    assert!(!stdout.contains("hunter2"), "{stdout}");

    // What it prints is a configuration.
    std::fs::write(folder.path().join("printed.toml"), &stdout).expect("there is room");
    let again = oncegate(folder.path(), &["check", "--config", "printed.toml"]);
    assert_eq!(run(again), (Some(0), stdout, String::new()));
}

#[test]
fn check_lists_every_mistake_and_ends_with_78() {
    let folder = folder_with("[fast]\nlock_tll = '1s'\nurl = 'http://cache'\n");
    let (code, stdout, stderr) =
        run(oncegate(folder.path(), &["check", "--config", "oncegate.toml"]));
    assert_eq!((code, stdout.as_str()), (Some(78), ""));
    for line in [
        "oncegate.toml: upstream: missing; ",
        "oncegate.toml:2:1: fast.lock_tll: unknown key; did you mean \"lock_ttl\"?",
        "oncegate.toml:3:7: fast.url: it starts with \"http\"; ",
        "oncegate: 3 mistakes in the configuration",
    ] {
        assert!(stderr.contains(line), "{line}: {stderr}");
    }
}

#[test]
fn check_without_its_file_says_so() {
    let folder = folder_with("");
    let (code, _, stderr) = run(oncegate(folder.path(), &["check", "--config", "gone.toml"]));
    assert_eq!(code, Some(78));
    assert!(stderr.starts_with("gone.toml: it cannot be read: "), "{stderr}");
}

#[test]
fn an_unknown_flag_ends_with_a_message() {
    let folder = folder_with("");
    let (code, _, stderr) = run(oncegate(folder.path(), &["check", "--upstrem", "http://a"]));
    assert_eq!(code, Some(2));
    assert!(stderr.contains("--upstream"), "{stderr}");
}

/// A child that ends with its test, whatever becomes of it.
struct Running(std::process::Child);

impl Drop for Running {
    fn drop(&mut self) {
        // What it leaves lies in the folder of its test.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_demo_goes_on_with_the_address_of_its_console() {
    let folder = folder_with("");
    let mut command = oncegate(folder.path(), &["demo"]);
    command.env("TMPDIR", folder.path()).stdout(std::process::Stdio::piped());
    let mut demo = Running(command.spawn().expect("the program starts"));
    let lines = BufReader::new(demo.0.stdout.take().expect("it is piped")).lines();
    let mut said = String::new();
    let mut console = None;
    for line in lines {
        let line = line.expect("it writes text");
        said += &format!("{line}\n");
        let address = line.trim().strip_prefix("http://");
        if let Some(address) = address.and_then(|address| address.strip_suffix('/')) {
            console = Some(address.to_owned());
            break;
        }
    }
    let console = console.unwrap_or_else(|| panic!("no address: {said}"));
    assert!(said.contains("(order-1044)"), "{said}");
    let page = get(&console, "/");
    assert!(
        page.starts_with("HTTP/1.1 200 ") && page.contains("<title>oncegate</title>"),
        "{page}"
    );
    let unknown = get(&console, "/api/records?state=UNKNOWN");
    assert!(unknown.contains("\"key\":\"order-1044\""), "{unknown}");
}

fn get(address: &str, target: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    let request = format!("GET {target} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers with text");
    answer
}
