# Each target is one or two commands that can also be typed by hand.
.PHONY: run static order deb deb-test deb-boot-test container container-test manifests release release-test cluster test build unit interop kill alone hostile page page-test fmt lint bench bench-check soak fuzz

run:
	cargo run --release -p sluice -- serve

# The tests are compiled as the static program is, so that they share its dependencies, in target/<host>.
STATIC_HOST_TARGETS = static cluster order deb deb-test deb-boot-test container container-test build unit interop kill hostile page-test lint
$(STATIC_HOST_TARGETS): export CARGO_BUILD_TARGET = $(shell rustc -vV | sed -n 's/^host: //p')
$(STATIC_HOST_TARGETS): export RUSTFLAGS = -C target-feature=+crt-static

# Builds the program without shared libraries, in target/<host>/dist, for machines and images that have none.
static: PROFILE = dist
static:
	$(if $(filter dist,$(PROFILE)),CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_LINKER=$(CURDIR)/packaging/order/linker) cargo build --profile $(PROFILE) -p sluice
	$(if $(filter dist,$(PROFILE)),packaging/size target/$(CARGO_BUILD_TARGET)/dist/sluice)

# Writes the list of functions that lie together in that program, for x86-64 Linux, builds it again, and checks the memory of an idle broker.
order: static
	packaging/order/record
	touch crates/sluice/src/main.rs
	$(MAKE) static
	packaging/order/check target/$(CARGO_BUILD_TARGET)/dist/sluice

# Builds the Debian package of that program, for this machine, in target/packages. `sluice --version` names the commit.
deb: export SLUICE_COMMIT = $(shell git rev-parse --short=12 HEAD)
deb: static
	packaging/debian/build target/$(CARGO_BUILD_TARGET)/dist/sluice $$(dpkg --print-architecture) target/packages

# Installs, upgrades and removes the package in a clean Debian. Needs root, debootstrap and a mirror.
deb-test: static
	packaging/debian/test target/$(CARGO_BUILD_TARGET)/dist/sluice

# Boots a Debian with the package in QEMU, and asks its systemd about the service. Needs root, and what packaging/debian/boot-test names.
deb-boot-test: static
	packaging/debian/boot-test target/$(CARGO_BUILD_TARGET)/dist/sluice

# Builds the container image of that program, for this machine, as an archive in target/packages. Needs buildah.
container: export SLUICE_COMMIT = $(shell git rev-parse --short=12 HEAD)
container: static
	packaging/container/build target/$(CARGO_BUILD_TARGET)/dist/sluice $(IMAGE_ARCHITECTURE) target/packages

# The name that images have for the processor of this machine.
IMAGE_ARCHITECTURE = $(shell uname -m | sed 's/x86_64/amd64/; s/aarch64/arm64/')

# Runs the container, the compose file and the pod as docs/install.md says. Needs root, and what packaging/container/test names.
container-test: static
	packaging/container/test target/$(CARGO_BUILD_TARGET)/dist/sluice

# Checks the compose file, the manifests of Kubernetes and the Helm chart. Installs Helm and the schemas below .cache; needs Go and Python.
manifests:
	packaging/compose/check
	packaging/kubernetes/check

# Builds the static programs, packages, lists of crates and checksums of a release in target/released. Needs Python and dpkg-deb.
release:
	rm -rf target/released
	packaging/release/build target/released

# Builds the release of the last commit twice, compares the bytes, and runs the programs. Needs qemu-user-static.
release-test:
	packaging/release/test

# Starts three nodes of a cluster on 127.0.0.1 to 127.0.0.3, and ends them on ctrl-c.
cluster:
	cargo build --profile ci -p sluice
	tests/cluster/run target/$(CARGO_BUILD_TARGET)/ci/sluice

# ALSO names further targets that use the time that the tests leave: lint, bench-check.
test:
	tests/run $(ALSO)

# Compiles everything that make unit and make kill run.
build:
	cargo test --profile ci --workspace --no-run

# Properties are tested with the same inputs each time. make soak tries others.
unit: export PROPTEST_RNG_SEED = 1
unit:
	cargo test --profile ci --workspace -- --skip a_killed_broker

interop:
	cargo build --profile ci -p sluice
	tests/interop/run.sh --both amqp10 amqp091 management amqp091-more management-more
	tests/interop/run.sh --both --nodes proton go-amqp rhea jms rabbitmq-python rabbitmq-go rabbitmq-java tokens \
		amqplib amqp091-go lapin amqp-java celery crossing

kill:
	tests/kill/run.sh

alone:
	tests/alone/run.sh

hostile:
	cargo build --profile ci -p sluice
	tests/hostile/run.py

# Builds the web page again, tests its pure parts, and compares it with page/dist. Needs Node.
page:
	page/check

# Drives the web page in Chromium. Needs Node and Chromium.
page-test:
	cargo build --profile ci -p sluice
	tests/page/run

# Runs for hours: more than a million seeded runs of the log, the packs and the streams on a false disk, 20,000 runs of
# shards on top of them, 100,000 runs of each property of the queues, a million steps of flow control, every request of every
# user for every state of its object, kills, damage, floods of hostile clients, all foreign clients with both types of queues,
# and a move from RabbitMQ, the Debian package, the container and the release, which need root. SLUICE_SEED sets the first
# seed, so that one part can be run by hand and continued later.
soak:
	SLUICE_SOAK=120 cargo test --profile ci -p wal --test all at_random
	PROPTEST_CASES=100000 cargo test --profile ci -p queue -p catalog -p broker -p message -p amqp10 -p amqp091 --lib
	SLUICE_SOAK=1000 cargo test --profile ci -p replica -- nothing_acknowledged_is_lost no_message_makes_a_member_panic
	SLUICE_SOAK=20 cargo test --profile ci -p node --test all two_shards::
	SLUICE_SOAK=100 cargo test --profile soak -p node --test all cluster::three_nodes
	SLUICE_SOAK=100 cargo test --profile ci -p nodes
	SLUICE_SOAK=10 cargo test --profile ci -p node --test all flow::
	SLUICE_SOAK=60 cargo test --profile ci -p sluice --test program doors::product:: -- --nocapture
	KILL_ROUNDS=60 KILL_MESSAGES=200000 tests/kill/run.sh
	FORGET_ROUNDS=50 cargo test --profile ci -p sluice --test program forget:: -- --nocapture
	DAMAGE_ROUNDS=1000 cargo test --profile ci -p sluice --test program damage:: -- --nocapture
	NETWORK_ROUNDS=60 cargo test --profile ci -p sluice --test program across::namespaces:: -- --nocapture
	cargo build --release -p sluice && tests/hostile/run.py --full
	$(MAKE) interop
	SLUICE_BIN=target/release/sluice tests/page/run --proxies
	tests/migrate/run.sh
	$(MAKE) deb-test deb-boot-test
	$(MAKE) manifests container-test release-test

# Searches for inputs that break one of fuzz/fuzz_targets: make fuzz TARGET=peers [SECONDS=3600]. Needs cargo-fuzz.
# Without a sanitizer (there is no unsafe code to watch) the stable compiler suffices, if it is told to accept nightly
# flags.
fuzz: SECONDS = 600
fuzz:
	$(if $(TARGET),,$(error which TARGET? $(basename $(notdir $(wildcard fuzz/fuzz_targets/*.rs)))))
	mkdir -p .cache/fuzz/$(TARGET)
	RUSTC_BOOTSTRAP=1 cargo fuzz run --sanitizer none $(TARGET) .cache/fuzz/$(TARGET) fuzz/corpus/$(TARGET) -- \
		-max_total_time=$(SECONDS) -max_len=4096 -timeout=10

fmt:
	cargo fmt --all

lint:
	cargo fmt --all --check
	cargo clippy --profile ci --workspace --all-targets -- -D warnings

# Measures every table of docs/benchmarks.md. Needs less than two hours, 40 GB of disk, and a quiet machine.
bench:
	bench/run

# Compares instructions, allocations and bytes of each step of a message's way with bench/micro/table.toml.
bench-check:
	bench/micro/check
