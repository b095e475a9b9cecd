//! GET /metrics, /health, /ready and /live, one answer a connection. The smallest HTTP/1.1 that a scraper needs, within bounds.

use crate::limits::{HTTP_REQUEST_BYTES_MAX, HTTP_TIMEOUT};
use std::io;
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tracing::debug;

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Page {
    /// `/metrics`.
    Metrics,
    /// `/health`: what is wrong.
    Health {
        /// As a JSON document: `?format=json`, or `Accept: application/json`.
        json: bool,
    },
    /// `/ready`: whether changes are taken and carried out.
    Ready,
    /// `/live`: whether the process answers.
    Live,
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// HTTP status and its words.
    pub status: &'static str,
    /// `Content-Type`.
    pub content_type: &'static str,
    /// What follows.
    pub body: String,
}

/// Answers one request with what `render` gives for its page.
pub async fn serve(mut stream: TcpStream, peer: SocketAddr, render: impl Fn(Page) -> Answer) {
    match timeout(HTTP_TIMEOUT, answer(&mut stream, render)).await {
        Ok(Ok(())) => {}
        Ok(Err(cause)) => debug!(%peer, %cause, "closed an HTTP connection"),
        Err(_elapsed) => debug!(%peer, "closed an HTTP connection that took too long"),
    }
}

async fn answer(stream: &mut TcpStream, render: impl Fn(Page) -> Answer) -> io::Result<()> {
    let mut request = Vec::new();
    let mut piece = [0; 1024];
    while !ends(&request) {
        if request.len() > HTTP_REQUEST_BYTES_MAX {
            return write(stream, &text("431 Request Header Fields Too Large", "the request is too long\n")).await;
        }
        match stream.read(&mut piece).await? {
            0 => return Ok(()),
            n => request.extend_from_slice(&piece[..n]),
        }
    }
    let answer = match page(&request) {
        Ok(page) => render(page),
        Err(refusal) => refusal,
    };
    write(stream, &answer).await
}

fn ends(request: &[u8]) -> bool {
    request.windows(4).any(|bytes| bytes == b"\r\n\r\n") || request.windows(2).any(|bytes| bytes == b"\n\n")
}

fn page(request: &[u8]) -> Result<Page, Answer> {
    let line = request.split(|byte| matches!(byte, b'\r' | b'\n')).next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let mut words = line.split(' ');
    let (method, target, version) = (words.next(), words.next(), words.next());
    if !version.is_some_and(|version| version.starts_with("HTTP/1.")) {
        return Err(text("400 Bad Request", "this is an HTTP port: ask for GET /metrics or GET /health\n"));
    }
    if method != Some("GET") {
        return Err(text("405 Method Not Allowed", "only GET is answered\n"));
    }
    let (path, query) = target.and_then(|target| target.split_once('?')).unwrap_or((target.unwrap_or_default(), ""));
    match path {
        "/metrics" => Ok(Page::Metrics),
        "/health" => {
            Ok(Page::Health { json: query.split('&').any(|pair| pair == "format=json") || wants_json(request) })
        }
        "/ready" => Ok(Page::Ready),
        "/live" => Ok(Page::Live),
        _ => Err(text("404 Not Found", "there is /metrics, /health, /ready and /live\n")),
    }
}

/// Whether the `Accept` header asks for JSON, and not for text as well.
fn wants_json(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let accept = text.lines().skip(1).filter_map(|line| line.split_once(':'));
    let accept = accept.filter(|(name, _)| name.trim().eq_ignore_ascii_case("accept")).map(|(_, value)| value);
    accept.map(str::to_ascii_lowercase).any(|value| value.contains("application/json") && !value.contains("text/"))
}

fn text(status: &'static str, body: &str) -> Answer {
    Answer { status, content_type: "text/plain; charset=utf-8", body: body.to_owned() }
}

async fn write(stream: &mut TcpStream, answer: &Answer) -> io::Result<()> {
    let Answer { status, content_type, body } = answer;
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.shutdown().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pages_are_found_and_everything_else_is_refused() {
        assert_eq!(page(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"), Ok(Page::Metrics));
        assert_eq!(page(b"GET /health?verbose HTTP/1.0\r\n\r\n"), Ok(Page::Health { json: false }));
        for json in
            ["GET /health?format=json HTTP/1.1\r\n\r\n", "GET /health HTTP/1.1\r\naccept: Application/JSON\r\n\r\n"]
        {
            assert_eq!(page(json.as_bytes()), Ok(Page::Health { json: true }), "{json}");
        }
        assert_eq!(page(b"GET /ready HTTP/1.1\r\n\r\n"), Ok(Page::Ready));
        assert_eq!(page(b"GET /live HTTP/1.1\r\n\r\n"), Ok(Page::Live));
        for (request, status) in [
            (&b"GET / HTTP/1.1\r\n\r\n"[..], "404 Not Found"),
            (b"POST /metrics HTTP/1.1\r\n\r\n", "405 Method Not Allowed"),
            (b"\0\0\0\x10\0\x12\0\x03\n\n", "400 Bad Request"),
        ] {
            assert_eq!(page(request).unwrap_err().status, status);
        }
    }
}
