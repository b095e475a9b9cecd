//! A client against servers that answer well, wrongly or not at all.

use super::*;
use std::net::TcpListener;
use std::thread::JoinHandle;
use twinlog_proto::messages::api_versions::{ApiVersion, FinalizedFeatureKey};
use twinlog_proto::messages::list_mirrors::{ListMirrorsRequest, ListMirrorsResponse};
use twinlog_proto::reader::Reader;

/// Answers one connection, each request with what `answer` makes of its header; ends when it gives none or the client goes.
fn server(
    mut answer: impl FnMut(frame::RequestHeader) -> Option<Vec<u8>> + Send + 'static,
) -> (String, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let peer = listener.local_addr().unwrap().to_string();
    let thread = std::thread::spawn(move || {
        let mut stream = listener.accept().unwrap().0;
        let mut length = [0; 4];
        while stream.read_exact(&mut length).is_ok() {
            let mut request = vec![0; u32::from_be_bytes(length) as usize];
            stream.read_exact(&mut request).unwrap();
            let header = frame::decode_request_header(&mut Reader::new("request", &request)).unwrap();
            let Some(bytes) = answer(header) else { return };
            stream.write_all(&bytes).unwrap();
            let promised = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize;
            if bytes.len() < 4 + promised {
                return;
            }
        }
    });
    (peer, thread)
}

fn encoded<M: Message>(header: &frame::RequestHeader, version: i16, response: &M) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    frame::encode_response(&mut out, version, header.correlation_id, response).unwrap();
    Some(out)
}

fn versions(mirrors: bool) -> ApiVersionsResponse {
    let keys = [(api::API_VERSIONS, 0, 4), (api::LIST_MIRRORS, 0, 1), (api::METADATA, 99, 100)];
    let feature = FinalizedFeatureKey { name: MIRROR_FEATURE.into(), max_version_level: 1, min_version_level: 1 };
    ApiVersionsResponse {
        api_keys: keys
            .map(|(api_key, min_version, max_version)| ApiVersion { api_key, min_version, max_version })
            .into(),
        finalized_features: if mirrors { vec![feature] } else { Vec::new() },
        ..Default::default()
    }
}

#[test]
fn the_highest_common_version_is_asked_at() {
    let (peer, _server) = server(|header| match header.api_key {
        api::API_VERSIONS => encoded(&header, header.api_version, &versions(true)),
        _ => {
            assert_eq!((header.api_key, header.api_version), (api::LIST_MIRRORS, 1));
            encoded(&header, 1, &ListMirrorsResponse { error_code: 7, ..Default::default() })
        }
    });
    let mut client = Client::connect(&peer).unwrap();
    assert_eq!(client.ask(&ListMirrorsRequest::default()).unwrap().error_code, 7);
    assert!(matches!(client.version_of(api::METADATA), Err(ClientError::Unsupported { .. })));
}

#[test]
fn an_older_peer_is_asked_again_at_its_own_version() {
    let (peer, _server) = server(|header| {
        let mut answer = versions(false);
        answer.api_keys[0].max_version = 2;
        if header.api_version <= 2 {
            return encoded(&header, header.api_version, &answer);
        }
        answer.error_code = 35;
        encoded(&header, 0, &answer)
    });
    assert_eq!(Client::connect(&peer).unwrap().version_of(api::API_VERSIONS).unwrap(), 2);
}

#[test]
fn a_peer_that_refuses_its_own_versions_is_not_asked_for_ever() {
    let (peer, _server) =
        server(|header| encoded(&header, 0, &ApiVersionsResponse { error_code: 35, ..versions(false) }));
    assert!(Client::connect(&peer).unwrap_err().to_string().contains("UNSUPPORTED_VERSION"));
}

#[test]
fn a_stock_broker_is_told_apart_before_it_is_sent_a_mirror_request() {
    let (peer, _server) = server(|header| {
        assert_eq!(header.api_key, api::API_VERSIONS);
        encoded(&header, header.api_version, &versions(false))
    });
    let mut client = Client::connect(&peer).unwrap();
    assert!(matches!(client.ask(&ListMirrorsRequest::default()), Err(ClientError::NoMirrors { .. })));
}

#[test]
fn answers_that_are_none_are_refused_without_waiting() {
    let oversized = |_: frame::RequestHeader| Some(vec![0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 1]);
    let cut_off = |header: frame::RequestHeader| encoded(&header, 3, &versions(true)).map(|bytes| bytes[..20].to_vec());
    let other = |header: frame::RequestHeader| {
        let header = frame::RequestHeader { correlation_id: 77, ..header };
        encoded(&header, 3, &versions(true))
    };
    let texts = [refusal(oversized), refusal(cut_off), refusal(other)];
    for (text, why) in texts.iter().zip(["2147483647 bytes", "end of file", "correlation id 77"]) {
        assert!(text.contains(why), "{text}");
    }
}

fn refusal(answer: impl FnMut(frame::RequestHeader) -> Option<Vec<u8>> + Send + 'static) -> String {
    let (peer, _server) = server(answer);
    Client::connect(&peer).unwrap_err().to_string()
}

#[test]
fn nobody_listening_is_said_with_the_address() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let error = Client::connect(&free).unwrap_err().to_string();
    assert!(error.contains(&free) && error.contains("refused"), "{error}");
    assert!(Client::connect("no-port").is_err());
}
