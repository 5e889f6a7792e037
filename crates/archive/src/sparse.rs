//! Where a file has data and where it has holes.

use std::os::fd::BorrowedFd;

use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

/// A stretch of data in a file that is a hole everywhere else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) offset: u64,
    pub(super) len: u64,
}

/// The map precedes the data, so it is held in memory; holes too small to be
/// worth it are filled until it is short enough.
const MAX_SEGMENTS: usize = 16 * 1024;

/// Longest map the reader accepts: room for what other programs write.
pub(super) const MAX_READ_SEGMENTS: usize = 512 * 1024;

/// The data segments of an open file, or `None` when it has no holes.
pub(super) fn scan(file: BorrowedFd<'_>, size: u64) -> rustix::io::Result<Option<Vec<Segment>>> {
    let mut smallest_hole = 1;
    loop {
        match scan_with(file, size, smallest_hole)? {
            Some(segments) if segments == [whole(size)] => return Ok(None),
            Some(segments) => return Ok(Some(segments)),
            None => smallest_hole = (smallest_hole * 16).max(64 * 1024),
        }
    }
}

fn whole(size: u64) -> Segment {
    Segment { offset: 0, len: size }
}

/// One pass that fills holes shorter than `smallest_hole`; `None` when there
/// are still too many.
fn scan_with(
    file: BorrowedFd<'_>,
    size: u64,
    smallest_hole: u64,
) -> rustix::io::Result<Option<Vec<Segment>>> {
    let mut segments: Vec<Segment> = Vec::new();
    let mut at = 0;
    while at < size {
        let start = match seek(file, SeekFrom::Data(at)) {
            Ok(start) if start < size => start,
            Ok(_) | Err(Errno::NXIO) => break,
            // A file system that knows no holes has none.
            Err(Errno::INVAL | Errno::OPNOTSUPP) => return Ok(Some(vec![whole(size)])),
            Err(error) => return Err(error),
        };
        let end = seek(file, SeekFrom::Hole(start))?.clamp(start + 1, size);
        let filled_from = segments.last().map_or(0, |last| last.offset + last.len);
        match segments.last_mut() {
            Some(last) if start - filled_from < smallest_hole => last.len = end - last.offset,
            _ => segments.push(Segment { offset: start, len: end - start }),
        }
        if segments.len() > MAX_SEGMENTS {
            return Ok(None);
        }
        at = end;
    }
    Ok(Some(segments))
}

/// Checks a map that was read from an archive: in order, without overlap,
/// within the file, and holding exactly `stored` bytes.
pub(super) fn check(segments: &[Segment], size: u64, stored: u64) -> Result<(), &'static str> {
    if segments.len() > MAX_READ_SEGMENTS {
        return Err("sparse map is too long");
    }
    let mut end = 0;
    let mut data: u64 = 0;
    for segment in segments {
        if segment.offset < end {
            return Err("sparse map overlaps itself");
        }
        end = segment
            .offset
            .checked_add(segment.len)
            .filter(|end| *end <= size)
            .ok_or("sparse map leaves the file")?;
        data += segment.len;
    }
    if data != stored {
        return Err("sparse map disagrees with the stored size");
    }
    Ok(())
}
