//! The seeded simulation: the real domain and the real coordinator over a world that breaks.
//!
//! One seed is one history: people ask for things, leaders are killed, frozen and replaced, calls
//! fail, lose their answers or happen much later, instances die, time runs virtually. Then the world
//! heals, and an oracle asks whether everything that was acknowledged still exists and everything
//! that was wanted has come true. A failing seed prints its trace and how to run it again.

mod run;
mod store;

use codehub_runtime::fake::Mutation;
use run::{Options, Report, simulate};

const SEEDS: u64 = 1_000;
const SHARDS: u64 = 4;

/// Seeds to run: `SIM_SEED` picks one, `SIM_SEEDS` changes how many.
fn seeds(shard: u64) -> Vec<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    if let Some(seed) = number("SIM_SEED") {
        return if shard == 0 { vec![seed] } else { Vec::new() };
    }
    (0..number("SIM_SEEDS").unwrap_or(SEEDS)).filter(|seed| seed % SHARDS == shard).collect()
}

fn check(shard: u64) {
    let mut total = Report::default();
    for seed in seeds(shard) {
        let report = simulate(seed, Options::default());
        if !report.complaints.is_empty() {
            panic!("{}", report.story(seed));
        }
        total.add(&report);
    }
    println!(
        "simulated: {} operations, {} leaders killed, {} frozen, {} writes, all kept",
        total.operations, total.killed, total.frozen, total.writes
    );
    if std::env::var_os("SIM_SEED").is_none() && std::env::var_os("SIM_SEEDS").is_none() {
        // A simulation in which nothing happens proves nothing.
        assert!(total.operations > 1_000 && total.killed > 100 && total.frozen > 100 && total.writes > 500);
    }
}

#[test]
fn no_history_loses_a_home_0() {
    check(0);
}

#[test]
fn no_history_loses_a_home_1() {
    check(1);
}

#[test]
fn no_history_loses_a_home_2() {
    check(2);
}

#[test]
fn no_history_loses_a_home_3() {
    check(3);
}

#[test]
fn the_same_seed_is_the_same_history() {
    let trace = |seed| simulate(seed, Options::default()).trace;
    let (first, second) = (trace(7), trace(7));
    for (at, (one, other)) in first.iter().zip(&second).enumerate() {
        assert_eq!(
            one,
            other,
            "line {at} of {}; before it: {:#?}",
            first.len(),
            &first[at.saturating_sub(12)..at]
        );
    }
    assert_eq!(first.len(), second.len());
    assert_ne!(first, trace(8));
}

/// Runs seeds until one complains.
fn caught(options: &Options) -> Option<u64> {
    (0..400).find(|seed| !simulate(*seed, options.clone()).complaints.is_empty())
}

#[test]
fn a_world_without_volume_generations_is_noticed() {
    let options = Options { mutation: Some(Mutation::NoGenerations), ..Options::default() };
    assert!(caught(&options).is_some());
}

#[test]
fn a_collector_that_forgets_the_parts_of_archives_is_noticed() {
    let options = Options { mutation: Some(Mutation::NoParts), ..Options::default() };
    assert!(caught(&options).is_some());
}

#[test]
fn an_archiving_that_is_complete_on_any_archive_is_noticed() {
    let options = Options { decide: run::complete_on_any_archive, ..Options::default() };
    assert!(caught(&options).is_some());
}

#[test]
fn a_store_without_an_epoch_is_noticed() {
    let options = Options { ignore_epoch: true, ..Options::default() };
    assert!(caught(&options).is_some());
}

/// Whoever can write to the store of archives gets nobody's home into another workspace.
#[test]
fn swapped_archives_never_become_a_home() {
    let options = Options { swaps: true, ..Options::default() };
    let mut swapped = 0;
    for seed in 0..60 {
        let report = simulate(seed, options.clone());
        assert!(report.complaints.is_empty(), "{}", report.story(seed));
        swapped += report.trace.iter().filter(|line| line.contains("is put in the place of")).count();
    }
    assert!(swapped > 100, "{swapped}");
}

#[test]
fn a_restore_that_trusts_the_store_of_archives_is_noticed() {
    let options = Options { swaps: true, trust_archives: true, ..Options::default() };
    assert!(caught(&options).is_some());
}

/// A process of an older version records nothing; the next leader of this version does, whatever dies meanwhile.
#[test]
fn archives_without_a_record_are_adopted_and_no_home_is_lost() {
    let options = Options { forgets_records: true, ..Options::default() };
    for seed in 0..60 {
        let report = simulate(seed, options.clone());
        assert!(report.complaints.is_empty(), "{}", report.story(seed));
    }
}
