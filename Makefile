# What people do with this repository. `make` alone lists it.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help demo demo-down test check core docs doctor services-up services-down

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' Makefile

demo: ## real Kafka and MongoDB, a million readings, live traffic, proof of completeness
	@deploy/local/demo.sh

demo-down: ## stop exactly what the demo started and delete its data
	@deploy/local/services.sh down

test: ## everything, against a real Kafka and a real MongoDB that it starts and stops
	deploy/local/with-services.sh cargo test --workspace --features crash-points

check: ## formatting, lints and docs, with warnings denied
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --all-features -- -D warnings
	cargo clippy --no-default-features --lib --test tidy -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --all-features
	@if command -v shellcheck >/dev/null; then shellcheck -x deploy/local/*.sh loadtest/*.sh .ci/run; else echo "shellcheck: not installed, left out"; fi

core: ## the pure core alone: no services, no C compiler, seconds
	cargo test --no-default-features --lib --test tidy --test sim

docs: ## write the reference of the configuration anew, from the code
	@cargo run --quiet -- reference > docs/configuration.md.new
	@mv docs/configuration.md.new docs/configuration.md

doctor: ## name what is missing on this machine, and the command that installs it
	@deploy/local/doctor.sh

services-up: ## start Kafka and MongoDB and keep them; addresses in .local/services.env
	@deploy/local/services.sh up

services-down: ## stop exactly what services-up started and delete its data
	@deploy/local/services.sh down
