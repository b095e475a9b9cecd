//! Decompresses the records of one batch, to a limit that the batch does not set.

use std::borrow::Cow;
use std::io::{self, Read};
use twinlog_proto::records::batch::Codec;

/// Most that the records of one batch may come to, in bytes.
const DECOMPRESSED_BYTES_MAX: u64 = 256 << 20;
/// The first bytes of Kafka's framing of snappy blocks; two version numbers follow.
const XERIAL_MAGIC: [u8; 8] = *b"\x82SNAPPY\0";
const XERIAL_HEADER_BYTES: usize = 16;

/// The records' bytes.
///
/// # Errors
/// When they cannot be decompressed, come to more than the limit, or the codec is not known.
pub(crate) fn decompress(codec: Codec, bytes: &[u8]) -> io::Result<Cow<'_, [u8]>> {
    let out = match codec {
        Codec::None => return Ok(Cow::Borrowed(bytes)),
        Codec::Gzip => limited(flate2::read::MultiGzDecoder::new(bytes))?,
        Codec::Snappy => snappy(bytes)?,
        Codec::Lz4 => limited(lz4_flex::frame::FrameDecoder::new(bytes))?,
        Codec::Zstd => limited(ruzstd::decoding::StreamingDecoder::new(bytes).map_err(io::Error::other)?)?,
        Codec::Unknown(number) => {
            return Err(io::Error::new(io::ErrorKind::Unsupported, format!("codec {number} is not known")));
        }
    };
    Ok(Cow::Owned(out))
}

fn limited(source: impl Read) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    source.take(DECOMPRESSED_BYTES_MAX + 1).read_to_end(&mut out)?;
    within(out.len() as u64)?;
    Ok(out)
}

fn within(bytes: u64) -> io::Result<()> {
    if bytes <= DECOMPRESSED_BYTES_MAX {
        return Ok(());
    }
    Err(io::Error::other(format!("the records come to more than {DECOMPRESSED_BYTES_MAX} bytes")))
}

/// Blocks, each after its length; some clients write one bare block instead.
fn snappy(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    if !bytes.starts_with(&XERIAL_MAGIC) {
        block(&mut out, bytes)?;
        return Ok(out);
    }
    let mut rest = bytes.get(XERIAL_HEADER_BYTES..).ok_or(io::ErrorKind::UnexpectedEof)?;
    while let Some((length, after)) = rest.split_first_chunk() {
        let length = u32::from_be_bytes(*length) as usize;
        let (piece, after) = after.split_at_checked(length).ok_or(io::ErrorKind::UnexpectedEof)?;
        block(&mut out, piece)?;
        rest = after;
    }
    if rest.is_empty() { Ok(out) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

fn block(out: &mut Vec<u8>, piece: &[u8]) -> io::Result<()> {
    let bytes = snap::raw::decompress_len(piece).map_err(io::Error::other)?;
    within(out.len() as u64 + bytes as u64)?;
    out.extend(snap::raw::Decoder::new().decompress_vec(piece).map_err(io::Error::other)?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn what_is_compressed_is_read_back() {
        let text = b"a text that repeats, a text that repeats, a text that repeats";
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(text).unwrap();
        let mut lz4 = lz4_flex::frame::FrameEncoder::new(Vec::new());
        lz4.write_all(text).unwrap();
        let zstd = ruzstd::encoding::compress_to_vec(&text[..], ruzstd::encoding::CompressionLevel::Fastest);
        let raw = snap::raw::Encoder::new().compress_vec(text).unwrap();
        let mut framed = [&XERIAL_MAGIC[..], &[0, 0, 0, 1, 0, 0, 0, 1]].concat();
        framed.extend((raw.len() as u32).to_be_bytes());
        framed.extend(&raw);
        for (codec, bytes) in [
            (Codec::Gzip, gzip.finish().unwrap()),
            (Codec::Lz4, lz4.finish().unwrap()),
            (Codec::Zstd, zstd),
            (Codec::Snappy, raw),
            (Codec::Snappy, framed),
        ] {
            assert_eq!(decompress(codec, &bytes).unwrap(), &text[..], "{codec:?}");
            assert!(decompress(codec, &bytes[..bytes.len() / 2]).is_err(), "{codec:?}");
        }
        assert!(decompress(Codec::Unknown(7), text).is_err());
    }

    #[test]
    fn a_block_that_claims_too_much_is_refused_before_anything_is_allocated() {
        // The length of a snappy block is its first varint: 2^32 - 1 here.
        assert!(decompress(Codec::Snappy, &[0xff, 0xff, 0xff, 0xff, 0x0f, 0]).is_err());
    }
}
