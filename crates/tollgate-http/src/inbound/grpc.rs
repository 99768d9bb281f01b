//! The responses to gRPC requests that are refused: a status in the headers, and no body.

use base64::Engine;
use base64::prelude::BASE64_STANDARD_NO_PAD;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::request::Parts;
use http::{HeaderMap, Method, Response, Version};
use tollgate_core::Wait;

const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const DETAILS: HeaderName = HeaderName::from_static("grpc-status-details-bin");
/// How long a client waits before it calls again by itself.
const PUSHBACK: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");

/// Returns the content type of a gRPC request, also one of gRPC-Web.
///
/// gRPC is HTTP/2 or `POST`: another request is none, whatever it says, since the status 200 of a refusal would let
/// it in where a proxy asks whether it may pass.
pub(super) fn content_type(request: &Parts) -> Option<&HeaderValue> {
    if request.version < Version::HTTP_2 && request.method != Method::POST {
        return None;
    }
    let content_type = request.headers.get(CONTENT_TYPE)?;
    let rest = content_type.as_bytes().strip_prefix(b"application/grpc")?;
    let ends = matches!(rest.first(), None | Some(b'+' | b'-' | b';' | b' '));
    ends.then_some(content_type)
}

/// Returns the response to a gRPC request: the status 200, and `code` in a header.
pub(super) fn response(
    content_type: &HeaderValue,
    code: u16,
    message: &str,
    wait: Wait,
) -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    let headers = response.headers_mut();
    let _ = headers.insert(CONTENT_TYPE, content_type.clone());
    let _ = headers.insert(STATUS, HeaderValue::from(code));
    // Of printable ASCII without `%`, so that nothing is to be escaped.
    if let Ok(text) = HeaderValue::from_str(message) {
        let _ = headers.insert(MESSAGE, text);
    }
    match wait.as_micros() {
        // A negative number asks not to call again.
        None => drop(headers.insert(PUSHBACK, HeaderValue::from_static("-1"))),
        Some(0) => {}
        Some(micros) => write_wait(code, message, micros, headers),
    }
    response
}

fn write_wait(code: u16, message: &str, micros: u64, headers: &mut HeaderMap) {
    let _ = headers.insert(PUSHBACK, HeaderValue::from(micros.div_ceil(1_000)));
    let details = BASE64_STANDARD_NO_PAD.encode(status(code, message, micros));
    if let Ok(details) = HeaderValue::try_from(details) {
        let _ = headers.insert(DETAILS, details);
    }
}

/// Writes a longer wait into a response that another layer has refused so.
pub(super) fn lengthen_wait(micros: u64, headers: &mut HeaderMap) {
    let text = |name| headers.get(name)?.to_str().ok();
    if let (Some(said), Some(code)) = (text(PUSHBACK), text(STATUS))
        && let (Ok(said), Ok(code)) = (said.parse::<u64>(), code.parse())
        && micros.div_ceil(1_000) > said
    {
        let message = text(MESSAGE).unwrap_or_default().to_owned();
        write_wait(code, &message, micros, headers);
    }
}

/// Returns a `google.rpc.Status` with a `google.rpc.RetryInfo`.
fn status(code: u16, message: &str, wait_us: u64) -> Vec<u8> {
    let mut delay = Vec::new();
    push_number(&mut delay, 1, wait_us / 1_000_000);
    push_number(&mut delay, 2, wait_us % 1_000_000 * 1_000);
    let mut info = Vec::new();
    push_bytes(&mut info, 1, &delay);
    let mut any = Vec::new();
    push_bytes(&mut any, 1, b"type.googleapis.com/google.rpc.RetryInfo");
    push_bytes(&mut any, 2, &info);
    let mut status = Vec::new();
    push_number(&mut status, 1, code.into());
    push_bytes(&mut status, 2, message.as_bytes());
    push_bytes(&mut status, 3, &any);
    status
}

/// Appends a field of Protocol Buffers with a number; zero is left out.
fn push_number(message: &mut Vec<u8>, field: u8, number: u64) {
    if number > 0 {
        message.push(field << 3);
        push_varint(message, number);
    }
}

/// Appends a field of Protocol Buffers with bytes.
fn push_bytes(message: &mut Vec<u8>, field: u8, bytes: &[u8]) {
    message.push(field << 3 | 2);
    push_varint(message, u64::try_from(bytes.len()).unwrap_or(u64::MAX));
    message.extend_from_slice(bytes);
}

/// Appends a number in groups of seven bits, the lowest first.
fn push_varint(message: &mut Vec<u8>, mut number: u64) {
    while number > 0x7f {
        message.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    message.push(number.to_le_bytes()[0]);
}
