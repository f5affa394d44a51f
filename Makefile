# The front door. `make run` and `make test` work on a fresh machine with Rust and a package manager.

CARGO      ?= cargo
COMPONENTS := $(notdir $(patsubst %/Cargo.toml,%,$(filter-out plugins/sdk/Cargo.toml,$(wildcard plugins/*/Cargo.toml))))
WASM       := target/plugins/wasm32-wasip2/component
BRIDGE     := target/debug/cyberos-mcp-bridge
ADDRESS    ?= 127.0.0.1:8082

.PHONY: run build plugins guests author-guests test conformance conformance-serve fuzz test-postgres-ready clients lint fmt bench release clean help

help: ## What can be made
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

run: build ## Build everything and serve on loopback, with an embedded store
	@scripts/announce $(ADDRESS) $(BRIDGE)
	@exec $(BRIDGE) serve --transport http --auth none --listen $(ADDRESS)

build: plugins ## The components and the binary
	$(CARGO) build --bins

plugins: .wasm-target ## The eight tool components
	$(CARGO) build --profile component --target wasm32-wasip2 --target-dir target/plugins $(addprefix -p ,$(COMPONENTS))

guests: .wasm-target ## The components that the tests misuse
	$(CARGO) build --profile component --target wasm32-wasip2 --target-dir target/plugins -p 'guest-*' -p 'fixture-*' --lib --examples

author-guests: ## The components that the tests have of other languages
	scripts/need-authors
	scripts/author-guests

test: plugins guests author-guests ## All tests, with a Postgres of their own
	scripts/need-postgres
	scripts/need-clients
	scripts/need-registry
	CARGO="$(CARGO)" tests/with-postgres scripts/run-tests

conformance: build guests ## The official conformance suite alone
	scripts/need-clients
	scripts/conformance

conformance-serve: build guests ## What the suite talks to, on loopback: make conformance-serve PORT=9000
	@scripts/conformance serve $(or $(PORT),9000)

fuzz: plugins ## Look for inputs that break us, FUZZ_SECONDS=60 for each target; what is found becomes a test
	CARGO="$(CARGO)" scripts/fuzz $(TARGETS)

lint: plugins ## Formatting and lints
	$(CARGO) fmt --all --check
	$(CARGO) clippy --all-targets -- -D warnings

fmt:
	$(CARGO) fmt --all

bench: plugins guests author-guests ## The figures of the design, as ratios within one run
	$(CARGO) build --release --bins
	scripts/bench

release: plugins ## The binary that is shipped: static, with a bill of materials and checksums, in target/dist-out
	scripts/need-musl
	CARGO="$(CARGO)" scripts/release

clean:
	$(CARGO) clean

.PHONY: .wasm-target
.wasm-target:
	@scripts/need-rust
