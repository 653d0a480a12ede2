//! One HTTP request at a time, by hand: tells whether a proxy is up and answers as it should, and
//! reads counters. The measuring is done by wrk.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    head: String,
    pub body: String,
}

impl Answer {
    /// A header's value; names in any case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head
            .lines()
            .filter_map(|line| line.split_once(':'))
            .find(|(found, _)| found.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.trim())
    }
}

pub fn get(addr: SocketAddr, path: &str) -> io::Result<Answer> {
    ask(addr, "GET", path, "", "")
}

/// `headers` are whole lines, each with its line end.
pub fn ask(
    addr: SocketAddr,
    method: &str,
    path: &str,
    headers: &str,
    body: &str,
) -> io::Result<Answer> {
    let mut stream = TcpStream::connect_timeout(&addr, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {addr}\r\nConnection: close\r\n\
         Content-Length: {length}\r\n{headers}\r\n{body}"
    );
    stream.write_all(request.as_bytes())?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    parse(&text).ok_or_else(|| io::Error::other(format!("not an answer: {text:?}")))
}

fn parse(text: &str) -> Option<Answer> {
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.split_whitespace().nth(1)?.parse().ok()?;
    let answer = Answer { status, head: head.to_owned(), body: body.to_owned() };
    // Counters come in chunks from some; they are short enough for one.
    match answer.header("transfer-encoding") {
        Some("chunked") => {
            let (size, rest) = body.split_once("\r\n")?;
            let size = usize::from_str_radix(size.trim(), 16).ok()?;
            Some(Answer { body: rest.get(..size)?.to_owned(), ..answer })
        }
        _ => Some(answer),
    }
}
