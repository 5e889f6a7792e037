//! Any bytes as a tar stream: an error or a home, never a panic, nothing outside the target.
#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};

fuzz_target!(|tar: &[u8]| codehub_archive::fuzz_reader(tar));

// A header with a wrong checksum is never looked into: mend those that were hit, or little else is tried.
fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let size = fuzzer_mutate(data, size, max_size);
    if seed % 8 != 0 {
        for block in data[..size].chunks_exact_mut(512).filter(|block| block[257..262] == *b"ustar") {
            block[148..156].fill(b' ');
            let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
            block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        }
    }
    size
});
