# The few verbs everybody types.

.PHONY: run test test-all check audit fmt simulate bench screenshots

run:            ## Run CodeHub with embedded defaults
	cargo run --release

test:           ## Run the tests; installs and starts what they need
	scripts/test

test-all:       ## And the long ones: real IDEs, in containers and left alone
	scripts/test --all

check:          ## Formatting, lints, habits of the tests, and what we depend on
	cargo fmt --all -- --check
	cargo clippy --workspace --all-targets -- -D warnings
	scripts/check-tests
	scripts/check-dependencies

audit:          ## Known vulnerabilities in what we depend on; fetches the advisory database from the network
	scripts/check-dependencies --advisories

fmt:
	cargo fmt --all

simulate:       ## Replay one seed of the simulation: make simulate SEED=42
	SIM_SEED=$(SEED) cargo nextest run -p codehub-server --no-capture -E 'test(simulation::no_history_loses_a_home_0)'

bench:          ## Benchmarks; writes docs/BENCHMARKS.md
	scripts/services bench/run

screenshots:    ## Take the README's screenshots from the running product
	scripts/test --browser --keep-screenshots
