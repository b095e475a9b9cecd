//! Many and hostile clients of the real process. What a pass proves: one thread serves 200 requests in flight beside 1,000
//! idle connections; hostile frames end their own connection with a counter and take no memory; slow senders keep nobody out.

mod kit;

use controlplane::client::Client;
use kit::ControlPlane;
use std::io::{Read, Write};
use std::net::TcpStream;
use twinlog_proto::api;
use twinlog_proto::messages::list_mirrors::ListMirrorsRequest;

const IDLE: usize = 1_000;
const ASKING: usize = 200;

/// Descriptors for both ends of every connection.
fn many_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let wanted = maximum.map_or(8_192, |maximum| maximum.min(8_192));
    assert!(wanted >= 3_000, "this test opens more than 2,000 connections; raise the hard limit of open files");
    setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum }).unwrap();
}

fn http(plane: &ControlPlane, path: &str) -> String {
    let mut stream = TcpStream::connect(&plane.metrics).unwrap();
    stream.write_all(format!("GET {path} HTTP/1.1\r\n\r\n").as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

/// Connections ended for `cause`.
fn ended(plane: &ControlPlane, cause: &str) -> u64 {
    let name = format!("twinlog_client_connections_ended_total{{cause=\"{cause}\"}} ");
    http(plane, "/metrics").lines().find_map(|line| line.strip_prefix(&name)?.parse().ok()).unwrap()
}

fn resident_kib(plane: &ControlPlane) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", plane.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

fn connect(plane: &ControlPlane) -> TcpStream {
    let stream = TcpStream::connect(&plane.listen).unwrap();
    stream.set_read_timeout(Some(kit::WAIT_MAX)).unwrap();
    stream
}

/// Whether the other side has closed, waited for.
fn closed(mut stream: TcpStream) -> bool {
    !matches!(stream.read(&mut [0]), Ok(1..))
}

/// A frame with this key and version, an empty client id, and `body`.
fn framed(key: i16, version: i16, body: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; 4];
    frame.extend(key.to_be_bytes());
    frame.extend(version.to_be_bytes());
    frame.extend([0, 0, 0, 7, 0, 0, 0]);
    frame.extend(body);
    let length = u32::try_from(frame.len() - 4).unwrap();
    frame[..4].copy_from_slice(&length.to_be_bytes());
    frame
}

#[test]
fn two_hundred_requests_in_flight_are_answered_beside_a_thousand_idle_connections() {
    many_files();
    let folder = tempfile::tempdir().unwrap();
    let plane = ControlPlane::start(folder.path());
    let idle: Vec<TcpStream> = (0..IDLE).map(|_| connect(&plane)).collect();
    // A whole request each before the first answer is read.
    let mut asking: Vec<TcpStream> = (0..ASKING).map(|_| connect(&plane)).collect();
    for round in 0..5 {
        for stream in &mut asking {
            stream.write_all(&framed(api::LIST_MIRRORS, 0, &[0])).unwrap();
        }
        for stream in &mut asking {
            let mut length = [0; 4];
            stream.read_exact(&mut length).unwrap();
            let mut answer = vec![0; u32::from_be_bytes(length) as usize];
            stream.read_exact(&mut answer).unwrap();
            assert_eq!(answer[..4], [0, 0, 0, 7], "round {round}: the correlation id comes back");
        }
    }
    assert!(http(&plane, "/metrics").contains(&format!("twinlog_client_connections {}\n", IDLE + ASKING)));
    assert!(resident_kib(&plane) < 200 << 10, "{} KiB", resident_kib(&plane));
    drop(idle);
}

#[test]
fn hostile_frames_end_their_connection_with_a_counter_and_take_no_memory() {
    let folder = tempfile::tempdir().unwrap();
    let plane = ControlPlane::start(folder.path());
    let mut client = Client::connect(&plane.listen).unwrap();
    let before = resident_kib(&plane);
    let huge = 0x7fff_ffff_u32.to_be_bytes();
    // StartMirrorTopics: a name, then an array of 2^31; an array of as many empty topics as fit is refused too.
    let nested = framed(api::START_MIRROR_TOPICS, 0, &[&[0, 2, b'm'][..], &[0xff, 0xff, 0xff, 0xff, 0x0f]].concat());
    // Before the flexible versions a header has no tags.
    let classic = |version: i16, body: &[u8]| {
        let mut frame = framed(api::METADATA, version, body);
        frame.remove(4 + 2 + 2 + 4 + 2);
        let length = u32::try_from(frame.len() - 4).unwrap();
        frame[..4].copy_from_slice(&length.to_be_bytes());
        frame
    };
    let mut many = 1_300_000_u32.to_be_bytes().to_vec();
    many.resize(4 + 2 * 1_300_000, 0);
    let unfolding = classic(1, &many);
    for (cause, frames) in [
        ("frame_length", vec![(-1_i32).to_be_bytes().to_vec(), huge.to_vec(), (5_i32 << 20).to_be_bytes().to_vec()]),
        ("malformed", vec![vec![0, 0, 0, 0], vec![0, 0, 0, 3, 1, 2, 3], nested, classic(0, &huge), unfolding]),
        (
            "not_served",
            vec![framed(1, 12, &[]), framed(9_999, 0, &[]), framed(api::METADATA, 99, &[0]), framed(3, -1, &[])],
        ),
    ] {
        let count = frames.len();
        for frame in frames {
            let mut stream = connect(&plane);
            stream.write_all(&frame).unwrap();
            assert!(closed(stream), "{cause}: {:?}", &frame[..frame.len().min(30)]);
        }
        assert_eq!(ended(&plane, cause), count as u64, "{cause}");
    }
    let mut half = connect(&plane);
    half.write_all(&[0, 0, 1, 0, 9]).unwrap();
    half.shutdown(std::net::Shutdown::Write).unwrap();
    assert!(closed(half));
    assert_eq!(ended(&plane, "half_frame"), 1);
    // 200 claims of 4 MiB, each with a few KiB behind it.
    let claims: Vec<TcpStream> = (0..200)
        .map(|_| {
            let mut stream = connect(&plane);
            stream.write_all(&[&(4_u32 << 20).to_be_bytes()[..], &[1; 6 << 10]].concat()).unwrap();
            stream
        })
        .collect();
    assert_eq!(client.ask(&ListMirrorsRequest::default()).unwrap().error_code, 0, "others are served meanwhile");
    let grown = resident_kib(&plane).saturating_sub(before);
    assert!(grown < 64 << 10, "{grown} KiB more");
    drop(claims);
}

#[test]
fn slow_senders_up_to_the_limit_of_their_address_keep_nobody_out() {
    many_files();
    let folder = tempfile::tempdir().unwrap();
    let plane = ControlPlane::start(folder.path());
    let slow: Vec<TcpStream> = (0..1_600)
        .map(|_| {
            let mut stream = connect(&plane);
            stream.write_all(&[0, 0, 1]).ok();
            stream
        })
        .collect();
    kit::wait_for("the limit of one address to be felt", || (ended(&plane, "address_limit") >= 100).then_some(()));
    drop(slow);
    kit::wait_for("an address that left room to be let in", || {
        let mut client = Client::connect(&plane.listen).ok()?;
        Some(client.ask(&ListMirrorsRequest::default()).unwrap())
    });
    assert_eq!(plane.terminate(), Some(0));
}

#[test]
fn bytes_behind_a_stock_request_are_left_unread_and_behind_a_mirror_request_end_the_connection() {
    let folder = tempfile::tempdir().unwrap();
    let plane = ControlPlane::start(folder.path());
    let all_topics_and_three_bytes = [0; 4 + 3];
    let mut stock = connect(&plane);
    stock.write_all(&framed(api::METADATA, 12, &all_topics_and_three_bytes)).unwrap();
    let mut length = [0; 4];
    stock.read_exact(&mut length).unwrap();
    assert!(u32::from_be_bytes(length) > 4, "Metadata was answered");
    let mut mirror = connect(&plane);
    mirror.write_all(&framed(api::LIST_MIRRORS, 0, &[0, 0, 0])).unwrap();
    assert!(closed(mirror));
}
