//! pure: whole frames: the four length bytes, the request and response headers, then a message.
//!
//! Which header a frame has follows from the request kind and version alone ([`crate::api`]).

use core::fmt;

use crate::api;
use crate::error::{DecodeError, EncodeError, Malformed};
use crate::messages::Message;
use crate::primitives;
use crate::reader::Reader;
use crate::writer::Writer;

/// The header of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestHeader {
    /// Kind of the request.
    pub api_key: i16,
    /// Its version.
    pub api_version: i16,
    /// Comes back in the answer.
    pub correlation_id: i32,
    /// What the client calls itself; nothing may rely on it.
    pub client_id: Option<String>,
}

/// Appends a whole request, its length included.
///
/// # Errors
/// As [`Message::encode`]; then `out` is as it was before.
pub fn encode_request<M: Message>(
    out: &mut Vec<u8>,
    version: i16,
    correlation_id: i32,
    client_id: Option<&str>,
    request: &M,
) -> Result<(), EncodeError> {
    framed(out, |w| {
        w.write_i16(M::API_KEY);
        w.write_i16(version);
        w.write_i32(correlation_id);
        // The client id has the classic form in both headers.
        let place = primitives::at("RequestHeader.ClientId", version);
        primitives::write_nullable_string(w, false, client_id, place)?;
        if version >= M::FLEXIBLE_FROM {
            w.write_uvarint(0);
        }
        request.encode(w, version)
    })
}

/// Appends a whole answer, its length included.
///
/// # Errors
/// As [`Message::encode`]; then `out` is as it was before.
pub fn encode_response<M: Message>(
    out: &mut Vec<u8>,
    version: i16,
    correlation_id: i32,
    response: &M,
) -> Result<(), EncodeError> {
    framed(out, |w| {
        w.write_i32(correlation_id);
        if has_flexible_response_header::<M>(version) {
            w.write_uvarint(0);
        }
        response.encode(w, version)
    })
}

fn has_flexible_response_header<M: Message>(version: i16) -> bool {
    M::API_KEY != api::API_VERSIONS && version >= M::FLEXIBLE_FROM
}

fn framed(
    out: &mut Vec<u8>,
    write: impl FnOnce(&mut Writer<'_>) -> Result<(), EncodeError>,
) -> Result<(), EncodeError> {
    let before = out.len();
    let mut w = Writer::new(out);
    let length = w.begin_length();
    match write(&mut w) {
        Ok(()) => w.end_length(length),
        Err(cause) => {
            out.truncate(before);
            return Err(cause);
        }
    }
    Ok(())
}

/// Why the start of a request frame cannot be read.
#[derive(Debug, Clone, PartialEq)]
pub enum HeaderError {
    /// The bytes are no header.
    Malformed(DecodeError),
    /// The request kind is not in our table, so even the shape of its header is unknown.
    UnknownApi {
        /// The key found.
        api_key: i16,
        /// The version found.
        api_version: i16,
        /// The correlation id found.
        correlation_id: i32,
    },
}

impl fmt::Display for HeaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(cause) => cause.fmt(f),
            Self::UnknownApi { api_key, api_version, .. } => {
                write!(f, "request kind {api_key} (version {api_version}) is not known here")
            }
        }
    }
}

impl core::error::Error for HeaderError {}

impl From<DecodeError> for HeaderError {
    fn from(cause: DecodeError) -> Self {
        Self::Malformed(cause)
    }
}

/// Reads the header of a request frame (without its length) and leaves the reader at the request.
///
/// A version beyond what is served is no error here: the caller answers it. A client id that is not UTF-8 is read
/// lossily, for nothing may rely on it.
///
/// # Errors
/// When the header is cut off or malformed, or the request kind is unknown.
pub fn decode_request_header(r: &mut Reader<'_>) -> Result<RequestHeader, HeaderError> {
    let (api_key, api_version, correlation_id) = (r.read_i16()?, r.read_i16()?, r.read_i32()?);
    let client_id = match r.read_i16()? {
        -1 => None,
        len => {
            let len = usize::try_from(len)
                .map_err(|_cause| r.error(Malformed::OutOfBounds { found: len.into(), max: 32_767 }));
            Some(String::from_utf8_lossy(r.read_slice(len?)?).into_owned())
        }
    };
    match api::has_flexible_request_header(api_key, api_version) {
        None => return Err(HeaderError::UnknownApi { api_key, api_version, correlation_id }),
        Some(true) => primitives::skip_tags(r)?,
        Some(false) => {}
    }
    Ok(RequestHeader { api_key, api_version, correlation_id, client_id })
}

/// Reads a whole answer, given the frame without its length; gives the correlation id and the message.
///
/// Bytes after the message are tolerated: a newer peer may know more. An answer to ApiVersions that refuses the version
/// comes at version 0 whatever was asked, and is read so.
///
/// # Errors
/// When the frame does not follow the layout.
pub fn decode_response<M: Message>(frame: &[u8], version: i16) -> Result<(i32, M), DecodeError> {
    let mut r = Reader::new(M::NAME, frame);
    let correlation_id = r.read_i32()?;
    if has_flexible_response_header::<M>(version) {
        primitives::skip_tags(&mut r)?;
    }
    let mut bookmark = r;
    let refused = M::API_KEY == api::API_VERSIONS && bookmark.read_i16()? == UNSUPPORTED_VERSION;
    let message = M::decode(&mut r, if refused { 0 } else { version })?;
    Ok((correlation_id, message))
}

const UNSUPPORTED_VERSION: i16 = 35;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::api_versions::{ApiVersionsRequest, ApiVersionsResponse};
    use crate::messages::metadata::{MetadataRequest, MetadataResponse};

    #[test]
    fn a_request_is_what_stock_clients_send() {
        let mut out = Vec::new();
        let request = ApiVersionsRequest { client_software_name: "a".into(), client_software_version: "1".into() };
        encode_request(&mut out, 3, 7, Some("c"), &request).unwrap();
        let expected: &[u8] = &[0, 0, 0, 17, 0, 18, 0, 3, 0, 0, 0, 7, 0, 1, b'c', 0, 2, b'a', 2, b'1', 0];
        assert_eq!(out, expected);
        let mut r = Reader::new("frame", &out[4..]);
        let header = decode_request_header(&mut r).unwrap();
        assert_eq!(
            header,
            RequestHeader { api_key: 18, api_version: 3, correlation_id: 7, client_id: Some("c".into()) }
        );
        assert_eq!(ApiVersionsRequest::decode(&mut r, 3), Ok(request));
    }

    #[test]
    fn an_answer_to_api_versions_has_the_oldest_header_and_may_fall_back_to_version_0() {
        let mut out = Vec::new();
        let response = ApiVersionsResponse { error_code: 35, ..Default::default() };
        encode_response(&mut out, 0, 9, &response).unwrap();
        assert_eq!(out, [0, 0, 0, 10, 0, 0, 0, 9, 0, 35, 0, 0, 0, 0]);
        assert_eq!(decode_response(&out[4..], 4), Ok((9, response)));
    }

    #[test]
    fn a_flexible_answer_has_a_tagged_section_in_its_header() {
        let mut out = Vec::new();
        encode_response(&mut out, 12, 1, &MetadataResponse::default()).unwrap();
        assert_eq!(out[4..9], [0, 0, 0, 1, 0]);
        assert_eq!(decode_response(&out[4..], 12), Ok((1, MetadataResponse::default())));
    }

    #[test]
    fn a_failed_encoding_leaves_the_buffer_as_it_was() {
        let mut out = vec![1, 2];
        let request = MetadataRequest { topics: None, ..Default::default() };
        let error = encode_request(&mut out, 0, 1, None, &request).unwrap_err();
        assert_eq!(error.what, "MetadataRequest.Topics");
        assert_eq!(out, [1, 2]);
    }

    #[test]
    fn an_unknown_request_kind_is_told_apart_from_bytes_that_are_no_header() {
        let unknown = [0x7f, 0, 0, 1, 0, 0, 0, 5, 0xff, 0xff];
        assert_eq!(
            decode_request_header(&mut Reader::new("frame", &unknown)),
            Err(HeaderError::UnknownApi { api_key: 0x7f00, api_version: 1, correlation_id: 5 })
        );
        for end in 0..10 {
            let error = decode_request_header(&mut Reader::new("frame", &unknown[..end])).unwrap_err();
            assert!(matches!(error, HeaderError::Malformed(_)), "{end}");
        }
    }
}
