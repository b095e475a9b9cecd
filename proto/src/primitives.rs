//! pure: Kafka's strings, byte fields, arrays and tagged sections, in the classic and the flexible form.
//!
//! Called by the generated codecs of `messages`. A length or count is compared with what is left of the input before
//! anything is allocated for it, and never more than [`ELEMENTS_RESERVED_MAX`] elements are reserved ahead of their bytes.

use crate::error::{DecodeError, EncodeError, Malformed};
use crate::ids::Uuid;
use crate::reader::Reader;
use crate::writer::Writer;

/// The longest string in bytes, in both forms (what stock Kafka accepts).
pub const STRING_BYTES_MAX: usize = 32_767;

/// How many elements of an array are reserved before the first of them was read.
pub const ELEMENTS_RESERVED_MAX: usize = 1024;

/// Reads a length or count: `None` is null.
fn read_len(r: &mut Reader<'_>, flexible: bool, short: bool) -> Result<Option<usize>, DecodeError> {
    let at = *r;
    let len = if flexible {
        i64::from(r.read_uvarint()?) - 1
    } else if short {
        i64::from(r.read_i16()?)
    } else {
        i64::from(r.read_i32()?)
    };
    match usize::try_from(len) {
        Ok(len) => Ok(Some(len)),
        Err(_) if len == -1 => Ok(None),
        Err(_) => Err(at.error(Malformed::OutOfBounds { found: len, max: i64::from(i32::MAX) })),
    }
}

fn not_null<T>(r: &Reader<'_>, value: Option<T>) -> Result<T, DecodeError> {
    value.ok_or_else(|| r.error(Malformed::UnexpectedNull))
}

/// A string that may be null.
///
/// # Errors
/// When it is cut off, longer than [`STRING_BYTES_MAX`] or not UTF-8.
pub fn read_nullable_string(r: &mut Reader<'_>, flexible: bool) -> Result<Option<String>, DecodeError> {
    let at = *r;
    let Some(len) = read_len(r, flexible, true)? else { return Ok(None) };
    if len > STRING_BYTES_MAX {
        return Err(at.error(Malformed::OutOfBounds { found: len as i64, max: STRING_BYTES_MAX as i64 }));
    }
    r.read_str(len).map(|text| Some(text.to_owned()))
}

/// A string.
///
/// # Errors
/// As [`read_nullable_string`], and for null.
pub fn read_string(r: &mut Reader<'_>, flexible: bool) -> Result<String, DecodeError> {
    let at = *r;
    not_null(&at, read_nullable_string(r, flexible)?)
}

/// A byte field that may be null.
///
/// # Errors
/// When it is cut off.
pub fn read_nullable_bytes(r: &mut Reader<'_>, flexible: bool) -> Result<Option<Vec<u8>>, DecodeError> {
    let Some(len) = read_len(r, flexible, false)? else { return Ok(None) };
    r.read_slice(len).map(|bytes| Some(bytes.to_vec()))
}

/// A byte field.
///
/// # Errors
/// As [`read_nullable_bytes`], and for null.
pub fn read_bytes(r: &mut Reader<'_>, flexible: bool) -> Result<Vec<u8>, DecodeError> {
    let at = *r;
    not_null(&at, read_nullable_bytes(r, flexible)?)
}

/// A uuid.
///
/// # Errors
/// When it is cut off.
pub fn read_uuid(r: &mut Reader<'_>) -> Result<Uuid, DecodeError> {
    r.read_array().map(Uuid)
}

/// An array that may be null. No element is encoded in fewer than `element_bytes_min` bytes.
///
/// # Errors
/// When the count cannot fit what is left of the input, or `read` fails.
pub fn read_nullable_array<'a, T>(
    r: &mut Reader<'a>,
    flexible: bool,
    element_bytes_min: usize,
    mut read: impl FnMut(&mut Reader<'a>) -> Result<T, DecodeError>,
) -> Result<Option<Vec<T>>, DecodeError> {
    let at = *r;
    let Some(count) = read_len(r, flexible, false)? else { return Ok(None) };
    let count_max = r.remaining() / element_bytes_min.max(1);
    if count > count_max {
        return Err(at.error(Malformed::OutOfBounds { found: count as i64, max: count_max as i64 }));
    }
    r.spend(count.saturating_mul(size_of::<T>()))?;
    let mut elements = Vec::with_capacity(count.min(ELEMENTS_RESERVED_MAX));
    for _ in 0..count {
        elements.push(read(r)?);
    }
    Ok(Some(elements))
}

/// An array.
///
/// # Errors
/// As [`read_nullable_array`], and for null.
pub fn read_array<'a, T>(
    r: &mut Reader<'a>,
    flexible: bool,
    element_bytes_min: usize,
    read: impl FnMut(&mut Reader<'a>) -> Result<T, DecodeError>,
) -> Result<Vec<T>, DecodeError> {
    let at = *r;
    not_null(&at, read_nullable_array(r, flexible, element_bytes_min, read)?)
}

/// A tagged section while it is being read.
#[derive(Debug)]
pub struct TagSection {
    left: u32,
    previous: Option<u32>,
}

/// One tagged field: its number, and where its bytes end.
#[derive(Debug)]
pub struct Tag {
    /// The number of the field.
    pub number: u32,
    end: usize,
}

impl TagSection {
    /// Reads the count.
    ///
    /// # Errors
    /// When the section cannot fit what is left of the input.
    pub fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let at = *r;
        let left = r.read_uvarint()?;
        let count_max = r.remaining() / 2;
        if left as usize > count_max {
            return Err(at.error(Malformed::OutOfBounds { found: i64::from(left), max: count_max as i64 }));
        }
        Ok(Self { left, previous: None })
    }

    /// The next field, or `None` at the end of the section. The caller reads or skips it, then calls [`Tag::finish`].
    ///
    /// # Errors
    /// When its number does not ascend or its size exceeds the input.
    pub fn next_tag(&mut self, r: &mut Reader<'_>) -> Result<Option<Tag>, DecodeError> {
        if self.left == 0 {
            return Ok(None);
        }
        let at = *r;
        let number = r.read_uvarint()?;
        if self.previous.is_some_and(|previous| number <= previous) {
            return Err(at.error(Malformed::TagOrder));
        }
        let size = r.read_uvarint()? as usize;
        if size > r.remaining() {
            return Err(r.error(Malformed::Truncated { missing: size - r.remaining() }));
        }
        self.left -= 1;
        self.previous = Some(number);
        Ok(Some(Tag { number, end: r.position() + size }))
    }
}

impl Tag {
    /// Skips the field's bytes: its number is not known.
    ///
    /// # Errors
    /// Never after [`TagSection::next_tag`] checked the size.
    pub fn skip(&self, r: &mut Reader<'_>) -> Result<(), DecodeError> {
        r.read_slice(self.end - r.position()).map(|_| ())
    }

    /// Checks that exactly the field's bytes were read.
    ///
    /// # Errors
    /// When fewer or more were read.
    pub fn finish(&self, r: &Reader<'_>) -> Result<(), DecodeError> {
        if r.position() == self.end {
            return Ok(());
        }
        Err(r.error(Malformed::Rule("a tagged field is not as long as it says")))
    }
}

/// Skips a tagged section of which no field is known.
///
/// # Errors
/// When the section is malformed.
pub fn skip_tags(r: &mut Reader<'_>) -> Result<(), DecodeError> {
    let mut tags = TagSection::read(r)?;
    while let Some(tag) = tags.next_tag(r)? {
        tag.skip(r)?;
    }
    Ok(())
}

/// Which field of which message is written at which version: what an [`EncodeError`] names.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    /// Message and field.
    pub what: &'static str,
    /// The version being written.
    pub version: i16,
}

/// The place of a field.
#[must_use]
pub fn at(what: &'static str, version: i16) -> Place {
    Place { what, version }
}

impl Place {
    /// An error at this place.
    #[must_use]
    pub fn error(self, why: &'static str) -> EncodeError {
        EncodeError { what: self.what, version: self.version, why }
    }
}

/// The value of a field that is not null at the version being written.
///
/// # Errors
/// For null.
pub fn required<T>(place: Place, value: Option<&T>) -> Result<&T, EncodeError> {
    value.ok_or_else(|| place.error("the field is null, which this version cannot say"))
}

fn write_len(
    w: &mut Writer<'_>,
    flexible: bool,
    short: bool,
    len: Option<usize>,
    place: Place,
) -> Result<(), EncodeError> {
    let too_long = || place.error("the value is longer than the format can say");
    if flexible {
        let len = len.map_or(Some(0), |len| u32::try_from(len).ok()?.checked_add(1)).ok_or_else(too_long)?;
        w.write_uvarint(len);
    } else if short {
        w.write_i16(len.map_or(Some(-1), |len| i16::try_from(len).ok()).ok_or_else(too_long)?);
    } else {
        w.write_i32(len.map_or(Some(-1), |len| i32::try_from(len).ok()).ok_or_else(too_long)?);
    }
    Ok(())
}

/// Writes a string or null.
///
/// # Errors
/// When it is longer than [`STRING_BYTES_MAX`].
pub fn write_nullable_string(
    w: &mut Writer<'_>,
    flexible: bool,
    text: Option<&str>,
    place: Place,
) -> Result<(), EncodeError> {
    if text.is_some_and(|text| text.len() > STRING_BYTES_MAX) {
        return Err(place.error("the text is longer than 32767 bytes"));
    }
    write_len(w, flexible, true, text.map(str::len), place)?;
    w.write_slice(text.unwrap_or_default().as_bytes());
    Ok(())
}

/// Writes a string.
///
/// # Errors
/// As [`write_nullable_string`].
pub fn write_string(w: &mut Writer<'_>, flexible: bool, text: &str, place: Place) -> Result<(), EncodeError> {
    write_nullable_string(w, flexible, Some(text), place)
}

/// Writes a byte field or null.
///
/// # Errors
/// When it is longer than the format can say.
pub fn write_nullable_bytes(
    w: &mut Writer<'_>,
    flexible: bool,
    bytes: Option<&[u8]>,
    place: Place,
) -> Result<(), EncodeError> {
    write_len(w, flexible, false, bytes.map(<[u8]>::len), place)?;
    w.write_slice(bytes.unwrap_or_default());
    Ok(())
}

/// Writes a byte field.
///
/// # Errors
/// As [`write_nullable_bytes`].
pub fn write_bytes(w: &mut Writer<'_>, flexible: bool, bytes: &[u8], place: Place) -> Result<(), EncodeError> {
    write_nullable_bytes(w, flexible, Some(bytes), place)
}

/// Writes an array or null, element by element.
///
/// # Errors
/// When `write` fails, or there are more elements than the format can say.
pub fn write_nullable_array<T>(
    w: &mut Writer<'_>,
    flexible: bool,
    elements: Option<&[T]>,
    place: Place,
    mut write: impl FnMut(&mut Writer<'_>, &T) -> Result<(), EncodeError>,
) -> Result<(), EncodeError> {
    write_len(w, flexible, false, elements.map(<[T]>::len), place)?;
    elements.unwrap_or_default().iter().try_for_each(|element| write(w, element))
}

/// Writes an array, element by element.
///
/// # Errors
/// As [`write_nullable_array`].
pub fn write_array<T>(
    w: &mut Writer<'_>,
    flexible: bool,
    elements: &[T],
    place: Place,
    write: impl FnMut(&mut Writer<'_>, &T) -> Result<(), EncodeError>,
) -> Result<(), EncodeError> {
    write_nullable_array(w, flexible, Some(elements), place, write)
}

/// Writes a tagged field: number, size, then what `write` appends.
///
/// # Errors
/// When `write` fails.
pub fn write_tag(
    w: &mut Writer<'_>,
    number: u32,
    write: impl FnOnce(&mut Writer<'_>) -> Result<(), EncodeError>,
) -> Result<(), EncodeError> {
    w.write_uvarint(number);
    let start = w.position();
    write(w)?;
    w.insert_uvarint_length(start);
    Ok(())
}
