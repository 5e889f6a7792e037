//! The reader on archives that are almost right: what a fuzzer finds first,
//! on every run. The same harness as `fuzz/`, over the same corpus.

use std::path::PathBuf;

use super::super::fuzz_reader;
use super::forge::Forge;
use super::*;

fn corpus() -> Vec<(PathBuf, Vec<u8>)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/reader");
    let mut all: Vec<_> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.clone(), std::fs::read(path).unwrap()))
        .collect();
    all.sort();
    assert!(all.len() >= 5, "a corpus to begin with");
    all
}

#[test]
fn the_corpus_and_its_mutants_neither_panic_nor_escape() {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % below.max(1) as u64).unwrap()
    };
    let corpus = corpus();
    for (_, bytes) in &corpus {
        fuzz_reader(bytes);
    }
    let began = std::time::Instant::now();
    let mut tried = 0;
    while began.elapsed() < std::time::Duration::from_secs(5) {
        let mut bytes = corpus[random(corpus.len())].1.clone();
        for _ in 0..=random(4) {
            match random(5) {
                0 if !bytes.is_empty() => {
                    let at = random(bytes.len());
                    bytes[at] ^= 1 << random(8);
                }
                1 if !bytes.is_empty() => {
                    let at = random(bytes.len());
                    const ODD: &[u8] = b"0179/.=\n\0 x5L\xff";
                    bytes[at] = ODD[random(ODD.len())];
                }
                2 => bytes.truncate(random(bytes.len() + 1)),
                3 => {
                    let (from, block) = (random(bytes.len() / 512 + 1) * 512, 512);
                    let copy = bytes.get(from..from + block).map(<[u8]>::to_vec).unwrap_or_default();
                    let at = random(bytes.len() / 512 + 1) * 512;
                    bytes.splice(at.min(bytes.len())..at.min(bytes.len()), copy);
                }
                _ => {
                    let at = random(bytes.len() / 512 + 1) * 512;
                    mend(&mut bytes, at);
                }
            }
        }
        let whole = random(bytes.len() / 512 + 1) * 512;
        mend(&mut bytes, whole);
        fuzz_reader(&bytes);
        tried += 1;
    }
    eprintln!("{tried} mutants");
    assert!(tried > 50);
}

/// Makes the checksum of the header at `at` right, so that what is wrong is
/// looked at.
fn mend(bytes: &mut [u8], at: usize) {
    let Some(block) = bytes.get_mut(at..at + 512) else { return };
    block[148..156].fill(b' ');
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
}

/// Writes the corpus anew: `cargo test -p codehub-archive -- --ignored writes_the_corpus`.
#[test]
#[ignore = "writes files of the repository"]
fn writes_the_corpus() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/reader");
    std::fs::create_dir_all(&directory).unwrap();
    let f = Forge::default;
    let long = "n".repeat(150);
    let seeds = [
        ("plain", f().dir("").dir("a").file("a/b", b"hello").symlink("l", "a/b").link("h", "a/b").end()),
        ("long-names", f().dir(&long).file(&format!("{long}/{long}"), b"x").end()),
        (
            "pax",
            f().pax(b'x', &[("mtime", b"1.5"), ("uid", b"7"), ("SCHILY.xattr.user.a", b"b")])
                .file("a", b"x")
                .end(),
        ),
        ("sparse", forge::sparse(b"2\n0\n8\n100\n8\n", 528)),
        ("old-names", f().typed("a", b'L').patch(124, b"00000000005\0").raw(b"long\0").file("a", b"x").end()),
        ("escape", f().symlink("a", "..").file("a/canary", b"x").end()),
    ];
    for (name, bytes) in seeds {
        std::fs::write(directory.join(name), bytes).unwrap();
    }
}
