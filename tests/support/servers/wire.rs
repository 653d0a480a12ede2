//! Just enough of each server's protocol to log in and run one command: it tells when a server
//! is ready and creates databases, so that no client program is needed.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

/// Sends one command to a Redis; the answer as text, the elements of arrays one per line.
pub fn redis(port: u16, words: &[&str]) -> io::Result<String> {
    let mut stream = connect(port)?;
    let mut request = format!("*{}\r\n", words.len());
    for word in words {
        request += &format!("${}\r\n{word}\r\n", word.len());
    }
    stream.write_all(request.as_bytes())?;
    redis_answer(&mut BufReader::new(stream))
}

fn redis_answer(stream: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    stream.read_line(&mut line)?;
    let Some(kind) = line.chars().next() else {
        return Err(io::ErrorKind::UnexpectedEof.into());
    };
    let rest = line[1..].trim_end();
    let length = || rest.parse::<i64>().map_err(io::Error::other);
    match kind {
        '+' | ':' => Ok(rest.to_owned()),
        '$' => {
            let Ok(length) = usize::try_from(length()?) else {
                return Ok(String::new());
            };
            let mut text = vec![0; length + 2];
            stream.read_exact(&mut text)?;
            text.truncate(length);
            Ok(String::from_utf8_lossy(&text).into_owned())
        }
        '*' => {
            let elements: io::Result<Vec<String>> =
                (0..length()?).map(|_| redis_answer(stream)).collect();
            Ok(elements?.join("\n"))
        }
        _ => Err(io::Error::other(rest.to_owned())),
    }
}

/// Runs one statement on a MySQL or MariaDB, as root without a password.
pub fn mysql(port: u16, sql: &str) -> io::Result<()> {
    const PROTOCOL_41_AND_PLUGIN_AUTH: u32 = 0x200 | 0x8000 | 0x8_0000;
    let mut stream = connect(port)?;
    mysql_answer(&mut stream)?; // The greeting.
    let mut login = Vec::new();
    login.extend(PROTOCOL_41_AND_PLUGIN_AUTH.to_le_bytes());
    login.extend((1u32 << 24).to_le_bytes()); // The largest packet.
    login.push(45); // The character set: utf8mb4.
    login.extend([0; 23]);
    login.extend(b"root\0\0"); // The user, and a password of no bytes.
    login.extend(b"mysql_native_password\0");
    mysql_send(&mut stream, 1, &login)?;
    let (number, answer) = mysql_answer(&mut stream)?;
    if answer.first() == Some(&0xfe) {
        // The server would rather use another plugin; no password is the same to all of them.
        mysql_send(&mut stream, number + 1, &[])?;
        mysql_answer(&mut stream)?;
    }
    mysql_send(&mut stream, 0, &[&[3], sql.as_bytes()].concat())?;
    mysql_answer(&mut stream).map(drop)
}

fn mysql_send(stream: &mut TcpStream, number: u8, payload: &[u8]) -> io::Result<()> {
    let length = u32::try_from(payload.len()).map_err(io::Error::other)?.to_le_bytes();
    let header = [length[0], length[1], length[2], number];
    stream.write_all(&[&header, payload].concat())
}

/// One packet: its number and contents.
fn mysql_answer(stream: &mut TcpStream) -> io::Result<(u8, Vec<u8>)> {
    let mut header = [0; 4];
    stream.read_exact(&mut header)?;
    let [a, b, c, number] = header;
    let mut payload = vec![0; u32::from_le_bytes([a, b, c, 0]) as usize];
    stream.read_exact(&mut payload)?;
    match payload.first() {
        Some(0xff) => Err(io::Error::other(String::from_utf8_lossy(&payload[1..]).into_owned())),
        _ => Ok((number, payload)),
    }
}

/// Runs one statement on a PostgreSQL that trusts us, as `postgres`.
pub fn postgres(port: u16, sql: &str) -> io::Result<()> {
    let mut stream = connect(port)?;
    let version_3_0 = 0x3_0000_u32.to_be_bytes();
    let login = [&version_3_0[..], b"user\0postgres\0database\0postgres\0\0"].concat();
    postgres_send(&mut stream, &[], &login)?;
    postgres_answers(&mut stream)?;
    postgres_send(&mut stream, b"Q", &[sql.as_bytes(), b"\0"].concat())?;
    postgres_answers(&mut stream)
}

fn postgres_send(stream: &mut TcpStream, kind: &[u8], payload: &[u8]) -> io::Result<()> {
    let length = u32::try_from(payload.len() + 4).map_err(io::Error::other)?.to_be_bytes();
    stream.write_all(&[kind, &length, payload].concat())
}

/// Reads until the server is ready for the next statement.
fn postgres_answers(stream: &mut TcpStream) -> io::Result<()> {
    loop {
        let mut header = [0; 5];
        stream.read_exact(&mut header)?;
        let [kind, length @ ..] = header;
        let length = u32::from_be_bytes(length).saturating_sub(4);
        let mut payload = vec![0; length as usize];
        stream.read_exact(&mut payload)?;
        match kind {
            b'Z' => return Ok(()),
            b'E' => {
                return Err(io::Error::other(String::from_utf8_lossy(&payload).into_owned()));
            }
            _ => {}
        }
    }
}

fn connect(port: u16) -> io::Result<TcpStream> {
    // Long enough for a slow statement on a loaded machine, short enough to notice a hung server.
    const PATIENCE: Duration = Duration::from_secs(20);
    let stream = TcpStream::connect_timeout(&(Ipv4Addr::LOCALHOST, port).into(), PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}
