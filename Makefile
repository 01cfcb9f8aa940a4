# What a person does by hand. Needs Rust (https://rustup.rs), make, gcc and git; the rest is set up.

.PHONY: help run test lint deny conformance fuzz peers bench bench-peers instructions \
    clean toolchain

# The newest version of cargo-deny that the Rust of Cargo.toml builds.
DENY := cargo-deny@0.20.2

help:
	@echo 'make run      build everything and serve echo, chat and its page on http://127.0.0.1:8080/'
	@echo 'make test     all tests but those of make peers'
	@echo 'make lint     formatting, clippy and documentation, with warnings as errors'
	@echo 'make deny     licences, versions and origins of the dependencies'
	@echo 'make conformance  the public Autobahn test suite, 20 minutes (needs Python 2.7)'
	@echo 'make fuzz     random inputs for the protocol, 25 minutes (needs nightly Rust)'
	@echo 'make peers    real WebSocket clients of other languages (needs Python and Node)'
	@echo 'make bench    what a message costs, beside bare loops (needs Python and two idle cores)'
	@echo 'make bench-peers  writes docs/benchmarks.md: Plugsock beside other servers, 40 minutes'
	@echo '              (needs Python, Node and two idle cores)'
	@echo 'make instructions  counts the instructions of parts, beside those accepted, one minute'
	@echo '              (needs Python 3.11 and valgrind)'
	@echo 'make plugins  only the plugins, into target/plugins/'
	@echo 'make clean    delete what was built'

include wasm.mk

run: toolchain plugins
	cargo run --release --package plugsock -- serve --config plugsock.example.toml

# Everything builds and checks the whole workspace: a part of it would be another set of features,
# for which the dependencies are compiled again.
test: toolchain guests
	cargo build --workspace --bins
	$${CARGO_TARGET_DIR:-target}/debug/plugsock check-config plugsock.example.toml
	cargo test --workspace --no-fail-fast

lint: toolchain
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- --deny warnings
	case $$(tools/wasm-toolchain) in wasip2) cargo clippy --target wasm32-wasip2 --lib --examples \
	    --package plugsock-plugin --package plugsock-echo --package plugsock-chat \
	    --package plugsock-guests -- --deny warnings ;; esac
	RUSTDOCFLAGS='--deny warnings' cargo doc --workspace --no-deps

deny: toolchain
	cargo install --quiet --locked --debug --root target/tools $(DENY)
	target/tools/bin/cargo-deny --locked check --hide-inclusion-graph bans licenses sources

conformance: toolchain plugins
	cargo build --workspace --bins
	tests/conformance/run

fuzz: toolchain
	tests/fuzz/run 300

peers: toolchain plugins
	cargo build --release --package plugsock
	tests/peers/run

bench: toolchain plugins
	cargo build --release --package plugsock --package plugsock-bench
	tests/bench/compare plugin native

bench-peers: toolchain plugins
	cargo build --release --package plugsock --package plugsock-bench
	tests/bench/peers/run

instructions: toolchain
	tests/bench/instructions/run

clean:
	cargo clean

# One sentence instead of a compiler's complaint an hour later.
toolchain:
	@{ cargo --version && rustc --version; } >/dev/null 2>&1 || { echo 'Rust is missing:' \
	    'install it from https://rustup.rs and open a new shell.' >&2; exit 1; }
	@command -v cc >/dev/null || { echo 'A C compiler is missing: on Debian and Ubuntu run' \
	    '"apt-get install gcc libc6-dev" as root.' >&2; exit 1; }
	@needed=$$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml); \
	 found=$$(rustc --version | cut -d ' ' -f 2); \
	 printf '%s\n' "$$needed" "$$found" | sort -C -V || { echo "Plugsock needs Rust $$needed or" \
	    "newer, and this is $$found: run \"rustup update stable\"." >&2; exit 1; }

# Installing targets, tools and plugins at the same time would only make them wait for each other.
.NOTPARALLEL:
