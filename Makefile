# The front desk: each of these is a line of meson or a tool.
BUILD ?= build
VENV  ?= .venv
export PATH := $(PATH):/usr/sbin:/sbin

.PHONY: all up down test test-clones test-memory test-templates test-eve test-langchain test-harbor test-mastra test-runtimes test-sdk-fresh wheel npm test-deb deb chaos lint fuzz bench performance fmt install shape clean setup venv

all: setup
	ninja -C $(BUILD)

setup:
	@tools/install-deps build
	@[ -f $(BUILD)/build.ninja ] || meson setup $(BUILD) --werror

up:
	@tools/up

# Three nodes in network namespaces of this machine, with a PostgreSQL and a balancer of their own. `make down` removes them.
.PHONY: up-cluster
up-cluster:
	@tools/up-cluster

down:
	@tools/up-cluster down
	@tools/down

test:
	@tools/test

# The functional and security suites, the SDKs' table of calls and E2B's client with vms for sandboxes, emulated: takes its time. OPTIONS go to pytest.
test-vm:
	@CLOCHE_ENGINE=vm tools/test --only plain --suite functional --suite security --suite sdk --suite compat -- $(OPTIONS)

# Unit and functional tests, all of them, on a build that finds errors of memory; `make test` has a part of it. OPTIONS go to pytest.
.PHONY: test-sanitized
test-sanitized:
	@tools/test --only asan -- $(OPTIONS)

# Builds the templates that come along from the real archives, and uses them. OPTIONS go to the daemon.
test-templates: all
	@BUILD=$(BUILD) tools/test-templates $(OPTIONS)

# The evals of eve, which brings a Node of its own, in sandboxes.
test-eve:
	@CLOCHE_TEST_EVE=1 tools/test --only plain --suite sdk -- -k test_eve

# LangChain's suite for sandboxes with the deepagents that it was written for; likewise.
test-langchain:
	@CLOCHE_TEST_LANGCHAIN=1 tools/test --only plain --suite sdk -- -k test_langchain

# Harbor's environments: needs a Python of 3.12 or newer, which brings Harbor with all that it needs.
test-harbor:
	@CLOCHE_TEST_HARBOR=1 tools/test --only plain --suite sdk -- -k test_harbor

# The adapters for evaluations and training, each in the real package, with vms for sandboxes, emulated: half an hour. OPTIONS go to pytest.
.PHONY: test-rollouts-vm
test-rollouts-vm:
	@CLOCHE_TEST_ROLLOUTS_VM=1 tools/test --only plain --suite sdk -- -k 'test_rollouts and in_vms' $(OPTIONS)

# Some 30 Dockerfiles as people write them, by cloche and by Debian's buildah; `make test` compares six.
.PHONY: test-dockerfiles
test-dockerfiles:
	@CLOCHE_TEST_DOCKERFILES=1 tools/test --only plain --suite functional -- -k test_dockerfile_compare

# Mastra's agents with their workspace in a sandbox; likewise.
test-mastra:
	@CLOCHE_TEST_MASTRA=1 tools/test --only plain --suite sdk -- -k test_mastra

# The TypeScript SDK in Node 18, Bun, Deno and workerd; likewise.
test-runtimes:
	@CLOCHE_TEST_RUNTIMES=1 tools/test --only plain --suite sdk -- -k test_runtimes

# A fresh virtualenv and fresh npm projects, made as the READMEs say, in which all of their snippets and all examples run.
test-sdk-fresh:
	@CLOCHE_TEST_FRESH=1 tools/test --only plain --suite sdk -- -k 'test_examples or readme_shows or test_an_npm_package'

# Memory forks by the hundred (FORKS), and KILLS (default 20) during pauses to disk and resumes.
test-memory:
	@CLOCHE_FORKS=$(or $(FORKS),100) CLOCHE_PAUSE_KILLS=$(or $(KILLS),20) tools/test --only plain --suite functional --suite security -- \
		-k 'test_memory or test_pause'

# CLONES (default 1000) vms, one after the other, from one warm copy: the template's image is as it was.
test-clones:
	@CLOCHE_CLONES=$(or $(CLONES),1000) tools/test --only plain --suite functional -- -k test_a_template_is_as_it_was_after_many_copies

# Kills the daemon KILLS times (default 1000) under load, then fails each system call of its operations (or FAULTS of each; FAULTS=2/8 is the second of eight parts of all)
# and ends its process there, and looks at the host after each. SEED repeats what another run has chosen.
chaos:
	@CLOCHE_CHAOS_KILLS=$(or $(KILLS),1000) CLOCHE_CHAOS_FAULTS=$(or $(FAULTS),all) CLOCHE_CHAOS_SEED=$(or $(SEED),$(shell od -An -N4 -tx4 /dev/urandom | tr -d ' ')) \
		tools/test --only plain --suite chaos -- -s

# What is sent by OTLP, taken by the real OpenTelemetry collector, which Go builds the first time. OPTIONS go to pytest.
.PHONY: test-collector
test-collector:
	@tools/test-collector $(OPTIONS)

# People who log in at a real Keycloak, which Maven fetches the first time. OPTIONS go to pytest.
.PHONY: test-keycloak
test-keycloak:
	@tools/test-keycloak $(OPTIONS)

# Upgrades from every release of tests/upgrade/releases, whose programs are built from git's history the first time.
.PHONY: test-upgrade
test-upgrade:
	@CLOCHE_TEST_UPGRADE=1 tools/test --only plain --suite functional -- -k test_upgrade

# An ordinary day, shortened to MINUTES (default 30): three projects at work beside a slow disk, a full disk, a greedy neighbour, kills, new settings and an
# upgrade; then CYCLES (default 20000) sandboxes that are made, used and deleted; then the same day on a cluster of three nodes. SEED repeats what another run has chosen.
.PHONY: soak
soak:
	@CLOCHE_SOAK_MINUTES=$(or $(MINUTES),30) CLOCHE_SOAK_CYCLES=$(or $(CYCLES),20000) CLOCHE_CHAOS_SEED=$(or $(SEED),$(shell od -An -N4 -tx4 /dev/urandom | tr -d ' ')) \
		tools/test --only plain --suite chaos -- -s -k test_soak

# A cluster on a bad day, for MINUTES (default 10): NODES (default 3) whole nodes in network namespaces on a PostgreSQL with a synchronous standby; kills, processes that
# stand still, partitions, promotions, lost commits, restored backups and full disks in random order, and a checker over all that clients were told. SEED repeats another run.
.PHONY: chaos-cluster
chaos-cluster:
	@CLOCHE_CLUSTER_MINUTES=$(or $(MINUTES),10) CLOCHE_CLUSTER_NODES=$(or $(NODES),3) CLOCHE_CHAOS_SEED=$(or $(SEED),$(shell od -An -N4 -tx4 /dev/urandom | tr -d ' ')) \
		tools/test --only plain --suite chaos -- -s -k chaos/test_cluster.py

# All that the documents show, run as it stands, and the documents as the daemon serves them.
.PHONY: test-docs
test-docs:
	@tools/test --only plain --suite functional -- -k 'test_docs'

# What a newcomer meets: `make up` in a fresh clone, then every sample of every page in order, and the programs of examples/. OPTIONS go to pytest.
.PHONY: test-first-hour
test-first-hour:
	@tools/test-first-hour newcomer $(OPTIONS)

# What somebody meets who comes from E2B or Vercel: `make up` in a fresh clone, the settings of the pages for movers, then the vendors' clients and the
# frameworks that bring them along. OPTIONS go to pytest.
.PHONY: test-compat-up
test-compat-up:
	@tools/test-first-hour mover $(OPTIONS)

# A thousand nodes and a million sandboxes under a virtual clock, and the smaller runs whose curves docs/design/cluster.md shows; some minutes. SEED is another day.
.PHONY: simulate-cluster
simulate-cluster: all
	@$(BUILD)/tests/cluster/simulate-cluster --seed $(or $(SEED),1) --curves $(or $(FOLDER),docs/design)
	@$(BUILD)/tests/cluster/simulate-cluster --seed $(or $(SEED),1) --large $(or $(FOLDER),docs/design)

# A Debian package in build/deb, judged by lintian; test-deb builds it twice and installs, upgrades and purges it in a Debian of its own.
deb:
	@tools/deb

test-deb:
	@tools/test-deb

# The SDKs as packages, in build/wheel and build/npm. The same files give the same bytes.
wheel: venv
	@$(VENV)/bin/python tools/sdk-packages wheel $(BUILD)/wheel

npm:
	@/usr/bin/python3 tools/sdk-packages npm $(BUILD)/npm

# With what makes packages of Python's; tools/test makes it of everything that the suites need.
venv:
	@[ -x $(VENV)/bin/python ] || { /usr/bin/python3 -m venv $(VENV) && $(VENV)/bin/pip install --quiet --disable-pip-version-check setuptools wheel; }

.PHONY: test-vm test-kvm test-foreign test-systemd test-debian13
# Vms that KVM runs, on an emulated Debian host that has it (tests/rig) whatever this one has: some minutes, and a Debian fetched the first time.
test-kvm:
	@tools/test-rig kvm

# Jails, vms, what the security suite tries from inside and unit tests, on an emulated host of the other architecture, for which all is built here.
test-foreign:
	@tools/test-rig foreign

# The Debian package on an emulated host whose init is systemd: installed, upgraded under sandboxes, rebooted, purged. A quarter of an hour.
test-systemd:
	@tools/test-rig systemd

# Everything built on Debian 13, and tried on an emulated host of it with its own kernel.
test-debian13:
	@tools/test-rig debian13

lint:
	@tools/install-deps lint
	@[ -f $(BUILD)/build.ninja ] || meson setup $(BUILD) --werror
	@ninja -C $(BUILD)
	@tools/lint $(BUILD)

# Runs each fuzz target for SECONDS (default 30), from its kept corpus.
fuzz:
	@tools/install-deps build fuzz
	@tools/fuzz $(or $(SECONDS),30)

# Prints our figures beside those of others and beside the least that the machine can do, and keeps them in $(BUILD)/bench.json. DENSITY=1000 fills the machine, PAUSED=10000 its disk. A peer
# that cannot be had is left out, with a word.
bench:
	@tools/install-deps build
	@tools/install-deps bench || echo "bench: goes on without some of its peers"
	@[ -f $(BUILD)/build.ninja ] || meson setup $(BUILD) --werror
	@ninja --quiet -C $(BUILD)
	@/usr/bin/python3 bench/run.py --build $(BUILD) --density $(or $(DENSITY),50) --state-mb $(or $(STATE_MB),64) --paused $(or $(PAUSED),100)

# The same with 1000 sandboxes at once and sandboxes of up to 512 MB, and writes docs/performance.md and its charts from it. Wants 8 GiB of memory and a quiet machine.
performance: DENSITY = 1000
performance: STATE_MB = 512
performance: bench
	@/usr/bin/python3 bench/report.py $(BUILD)/bench.json docs/performance.md

fmt:
	clang-format -i $$(git ls-files '*.c' '*.h')

install: all
	meson install -C $(BUILD)

shape:
	@tools/shape

clean:
	rm -rf $(BUILD) $(BUILD)-clang $(BUILD)-asan $(BUILD)-fuzz $(BUILD)-rig $(VENV)
