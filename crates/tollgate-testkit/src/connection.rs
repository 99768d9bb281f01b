//! `Connection`: a minimal client, so that tests can query a server without the clients under test.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// The default timeout for reads and writes.
const PATIENCE: Duration = Duration::from_secs(5);

/// A blocking connection that speaks RESP2.
#[derive(Debug)]
pub struct Connection(BufReader<Stream>);

impl Connection {
    /// Connects to `address`, such as `127.0.0.1:6379` or `/run/redis/server.sock`; if the server
    /// requires a password, write it and `@` first.
    ///
    /// Reads and writes time out after five seconds.
    ///
    /// # Errors
    ///
    /// Fails if nothing listens there, if `address` is not valid, or if the password is refused.
    pub fn open(address: &str) -> io::Result<Self> {
        let (password, address) = match address.rsplit_once('@') {
            Some((password, address)) => (Some(password), address),
            None => (None, address),
        };
        let mut connection = Self(BufReader::new(Stream::open(address)?));
        connection.set_timeout(PATIENCE)?;
        if let Some(password) = password
            && let Reply::Error(error) = connection.command(&["AUTH", password])?
        {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, error));
        }
        Ok(connection)
    }

    /// Sets after how long reads and writes time out.
    pub(crate) fn set_timeout(&self, timeout: Duration) -> io::Result<()> {
        self.0.get_ref().set_timeout(timeout)
    }

    /// Sends a command and waits for its reply. An error from the server is also a [`Reply`].
    ///
    /// # Errors
    ///
    /// Fails on a connection error, on a timeout, or if the reply is not RESP2.
    pub fn command(&mut self, words: &[impl AsRef<[u8]>]) -> io::Result<Reply> {
        self.send(words)?;
        self.receive()
    }

    /// Sends a command without waiting for its reply; [`receive`](Self::receive) returns it later.
    ///
    /// # Errors
    ///
    /// Fails on a connection error or a timeout.
    pub fn send(&mut self, words: &[impl AsRef<[u8]>]) -> io::Result<()> {
        let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            let word = word.as_ref();
            bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            bytes.extend_from_slice(word);
            bytes.extend_from_slice(b"\r\n");
        }
        self.0.get_mut().write_all(&bytes)
    }

    /// Waits for the reply to the oldest unanswered command.
    ///
    /// # Errors
    ///
    /// Fails on a connection error, on a timeout, or if the reply is not RESP2.
    pub fn receive(&mut self) -> io::Result<Reply> {
        read(&mut self.0)
    }
}

/// The socket of a connection.
#[derive(Debug)]
enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    fn open(address: &str) -> io::Result<Self> {
        if address.starts_with('/') {
            return UnixStream::connect(address).map(Self::Unix);
        }
        let address: SocketAddr = address
            .to_socket_addrs()?
            .next()
            .ok_or_else(|| io::Error::other("the name has no address"))?;
        let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_nodelay(true)?;
        Ok(Self::Tcp(stream))
    }

    fn set_timeout(&self, timeout: Duration) -> io::Result<()> {
        let timeout = Some(timeout);
        match self {
            Self::Tcp(stream) => stream
                .set_read_timeout(timeout)
                .and_then(|()| stream.set_write_timeout(timeout)),
            Self::Unix(stream) => stream
                .set_read_timeout(timeout)
                .and_then(|()| stream.set_write_timeout(timeout)),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(buffer),
            Self::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.flush(),
            Self::Unix(stream) => stream.flush(),
        }
    }
}

/// A reply from a server.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "RESP2 has no other replies")]
pub enum Reply {
    /// An array of replies.
    Array(Vec<Self>),
    /// A bulk string, of any bytes.
    Bulk(Vec<u8>),
    /// An error, such as `NOSCRIPT No matching script.`.
    Error(String),
    /// An integer.
    Integer(i64),
    /// The null reply, for example for a missing key.
    Nil,
    /// A simple string, such as `OK`.
    Simple(String),
}

impl Reply {
    /// Returns the text of a simple string, or of a bulk string that is UTF-8.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Simple(text) => Some(text),
            Self::Bulk(bytes) => std::str::from_utf8(bytes).ok(),
            _ => None,
        }
    }

    /// Returns the value of an integer.
    pub fn integer(&self) -> Option<i64> {
        match self {
            Self::Integer(number) => Some(*number),
            _ => None,
        }
    }

    /// Returns the message of an error.
    pub fn error(&self) -> Option<&str> {
        match self {
            Self::Error(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the replies in an array; empty for any other reply.
    pub fn items(&self) -> &[Self] {
        match self {
            Self::Array(items) => items,
            _ => &[],
        }
    }
}

/// Reads a reply. Commands have the same form, as arrays of bulk strings.
pub(crate) fn read(reader: &mut impl BufRead) -> io::Result<Reply> {
    let line = read_line(reader)?;
    let (kind, rest) = line.split_at_checked(1).ok_or_else(|| malformed(&line))?;
    let number = || rest.parse::<i64>().map_err(|_| malformed(&line));
    Ok(match kind {
        "+" => Reply::Simple(rest.to_owned()),
        "-" => Reply::Error(rest.to_owned()),
        ":" => Reply::Integer(number()?),
        "$" => match usize::try_from(number()?) {
            Ok(length) => {
                let mut bytes = vec![0; length + 2];
                reader.read_exact(&mut bytes)?;
                bytes.truncate(length);
                Reply::Bulk(bytes)
            }
            Err(_) => Reply::Nil,
        },
        "*" => match usize::try_from(number()?) {
            Ok(count) => Reply::Array((0..count).map(|_| read(reader)).collect::<Result<_, _>>()?),
            Err(_) => Reply::Nil,
        },
        _ => return Err(malformed(&line)),
    })
}

fn read_line(reader: &mut impl BufRead) -> io::Result<String> {
    let mut line = Vec::new();
    reader.read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let text = String::from_utf8_lossy(&line);
    let line = text.strip_suffix("\r\n").ok_or_else(|| malformed(&text))?;
    Ok(line.to_owned())
}

fn malformed(line: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("not RESP2: {line:?}"))
}
