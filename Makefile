# fencing-agent. `make` lists the targets that people need first, and `make help ALL=1` lists all. They need Go and a
# POSIX shell; the help line of a target says what else it needs. ## begins a line of the short list, and ### one of the
# long list.
#
# `make FAMILY KIND=NAME` makes the target FAMILY.NAME.

GO       ?= go
PREFIX   ?= /usr/local
FUZZTIME ?= 10s
COUNT    ?= 6
ROUNDS   ?= 50
HUNG     ?= 30s
SIZES    ?= 3,7
# SLOW contains the durations of an I/O on the LUN in the equal splits of test-netns. The table needs
# SLOW=0s,100ms,300ms,500ms,700ms,1s,1500ms,2s.
SLOW     ?= 0s,700ms
DURATION ?= 30m
STEADY   ?= 1h
AGENTS   ?= 300
OUTAGE   ?= 60s
OUTAGES  ?= 3,4,5,8
# OLD is the commit whose agents run in one group with those of this commit.
OLD      ?= 7d03bc8a
IMAGE    ?= fencing-agent

# git may be absent, or refuse a folder that belongs to another user. The version is then "dev", and Go must not ask
# git either.
GIT_OK   := $(shell git rev-parse HEAD >/dev/null 2>&1 && echo yes)
ifndef VERSION
VERSION  := $(if $(GIT_OK),$(shell git describe --tags --always --dirty --match 'v*' 2>/dev/null),dev)
endif
BUILDVCS := $(if $(GIT_OK),,-buildvcs=false)
# Without these the linker keeps much code that it cannot prove to be unused: docs/adr/0082-what-the-agent-links.md.
GOTAGS   := grpcnotrace
LDFLAGS  := -s -w -funcalign=16 -X main.version=$(VERSION)

TESTRUN  := bin/tools/testrun
VERIFY   := bin/tools/verify
MODELS   := GOWORK=off $(TESTRUN) -C integration/model
KUBETEST := tools/kubetest/build.sh .
HELM     := bin/tools/helm

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
# These are the targets with a line of help, and the few without one.
.PHONY: $(shell sed -n 's/^\([a-z0-9.-]*\):.*\#\#.*/\1/p' $(lastword $(MAKEFILE_LIST))) cluster-programs laboratory tools

help: ## this list; ALL=1: with the targets of the laboratory
	@echo "fencing-agent $(VERSION): make TARGET"
	@echo
	@awk -F ':.*##+ ' '/^[a-z0-9.-]+:.*[^#]##$(if $(ALL),\#?) / { sub(/\./, " KIND=", $$1); printf "  %-$(if $(ALL),27,13)s %s\n", $$1, $$2 }' Makefile

# NOKIND reports a KIND that a family does not have.
NOKIND    = @echo "$(1): there is no KIND=$(2); it has: $$(sed -n 's/^$(1)\.\([a-z0-9-]*\):.*\#\#.*/\1/p' Makefile | tr '\n' ' ')" >&2; exit 2

PROGRAMS = ./cmd/...

build: ## the programs into bin, static (about 1 min the first time)
	@echo "build: version $(VERSION)"
	@mkdir -p bin
	@CGO_ENABLED=0 $(GO) build $(BUILDVCS) -tags $(GOTAGS) -trimpath -ldflags '$(LDFLAGS)' -o bin/ $(PROGRAMS)
	@ln -sf fencectl bin/kubectl-fence

release: ## programs, deb, rpm, images, charts, checksums of this commit into dist/release (first time: about 10 min)
	@echo "release: static programs for five platforms, packages and images; about 10 minutes the first time"
	@mkdir -p bin/tools && cd tools/release && GOWORK=off $(GO) build $(BUILDVCS) -o ../../bin/tools/release .
	@bin/tools/release .

test-packages: tools ### what make release has made: made again, byte by byte; deb and rpm installed, upgraded and removed in roots of their own; the images in containerd if make test-cluster has compiled it, the executor from its archive; needs root and debootstrap (about 8 min)
	@test "$$(id -u)" = 0 || { echo "test-packages: needs root: it installs packages in a root of its own; run: sudo make test-packages" >&2; exit 1; }
	@test -e dist/release/SHA256SUMS || { echo "test-packages: there is no release: run make release first" >&2; exit 1; }
	@command -v debootstrap >/dev/null || { echo "test-packages: needs debootstrap: apt-get install debootstrap" >&2; exit 1; }
	@echo "test-packages: the release is made a second time, then three bare Debians; about 8 minutes"
	@FENCING_RUNTIME=$(CURDIR)/bin/runtime FENCING_TEST_PACKAGES=$(CURDIR)/dist/release GOWORK=off $(TESTRUN) -C tools/release -log -- -count=1 -timeout 30m ./...

test-vms.deb: tools ### the deb in three Debian machines of User-mode Linux with systemd and softdog: installed by apt, reset by an order and cut off, killed, upgraded, removed; needs root, debootstrap, user-mode-linux and gcc (about 8 min)
	@test "$$(id -u)" = 0 || { echo "test-vms KIND=deb: needs root: it makes a Debian and a network of its own; run: sudo make test-vms KIND=deb" >&2; exit 1; }
	@command -v linux.uml >/dev/null && command -v debootstrap >/dev/null && command -v mkfs.ext4 >/dev/null || { echo "test-vms KIND=deb: needs more: apt-get install user-mode-linux debootstrap e2fsprogs iproute2 gcc" >&2; exit 1; }
	@echo "test-vms KIND=deb: two packages, a Debian, three machines; about 8 minutes, each step is told when it has ended"
	@FENCING_TEST_MACHINES=1 GOWORK=off $(TESTRUN) -C tools/release -log -- -count=1 -timeout 40m -run '^TestDebInMachines$$' .

# This target builds nothing, because it is mostly run by root, who often has no Go in PATH.
install: ## what make build has built, into DESTDIR and PREFIX (/usr/local): programs, systemd unit
	@test -x bin/fencing-agent && test -x bin/fencectl || \
	   { echo "install: nothing is built yet: run make build first, as the user who has Go, then sudo make install" >&2; exit 1; }
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/lib/systemd/system
	install -m 0755 bin/fencing-agent bin/fencectl $(DESTDIR)$(PREFIX)/bin/
	ln -sf fencectl $(DESTDIR)$(PREFIX)/bin/kubectl-fence
	sed 's|/usr/local/bin/|$(PREFIX)/bin/|' deploy/systemd/fencing-agent.service > $(DESTDIR)$(PREFIX)/lib/systemd/system/fencing-agent.service

generate: ## Go code from the .proto files
	$(GO) run -C tools ./protogen ..

manifests: ## deploy/manifests from the chart; checks alerts and dashboard (about 3 min the first time)
	@echo "manifests: Helm's engine is built first, about 3 minutes the first time"
	@$(GO) run -C tools/manifests . ../..

verify: tools ## all checks that are no tests: format, vet, staticcheck, documents, counts (about 5 min the first time)
	@echo "verify: all checks, about 5 minutes the first time"
	@$(VERIFY) . $(CHECKS)

counts: ### writes figures that fell into docs/development/counts.tsv; make verify fails when one rose
	@$(GO) test -count=1 -run '^TestCounts$$' ./integration/arch -update

test: test.$(or $(KIND),here) ## the tests; no root, no network but loopback (about 3 min the first time)
test.%: ; $(call NOKIND,test,$*)
# The slowest packages come first.
test.here: tools
	@echo "test: go test -short ./..., about 3 minutes the first time"
	@$(TESTRUN) -- -short ./integration/... ./...

# The packages that link Kubernetes' types are left out, since compiling them once more takes long, and so is integration.
test.arm64: tools ### the agent's cores, its LUN, watchdog and API as programs of arm64, by QEMU's user mode; needs qemu-user, and Linux 6.7 or qemu-user-binfmt
	@echo "test KIND=arm64: go test -short as on arm64; all is compiled first"
	@GOARCH=arm64 CGO_ENABLED=0 tools/arm64.sh $(CURDIR)/$(TESTRUN) -- -short -vet=off ./boottime/... ./procfs/... ./netgossip/... ./diskquorum/... ./watchdog/... ./history/... ./api/...

# A package that starts no goroutine has no races to find.
RACED = $$(grep -lE '^\s+go (func|[a-z])|\.Go\(|httptest|synctest|exec\.Command|net\.Listen' $$($(GO) list -f '{{.Dir}}/*.go' ./...) | \
   sed 's|^$(CURDIR)|.|; s|/[^/]*$$||' | sort -u | grep -v /integration/arch$$)

race: tools ## the tests under the race detector; needs gcc (about 8 min the first time)
	@echo "race: go test -race where goroutines meet, about 6 minutes the first time; needs gcc, or CC=your C compiler"
	@CGO_ENABLED=1 $(TESTRUN) -- -race $(RACEFLAGS) $(RACED)

fuzz: tools ## every fuzz target for FUZZTIME=10s
	@echo "fuzz: every fuzz target for $(FUZZTIME)"
	@$(TESTRUN) -fuzz $(FUZZTIME) -- ./...

bench: ### all benchmarks COUNT=6 times, for benchstat, into dist/bench.txt (about 4 min)
	@echo "bench: every benchmark $(COUNT) times, about a second each"
	@mkdir -p dist
	@{ $(GO) test -run '^$$' -bench . -benchmem -count $(COUNT) ./...; echo $$? > dist/.bench-exit; } 2>&1 | \
	   tee dist/bench.txt | grep -v -E 'no test files|^PASS|^ok|^goos|^goarch'; \
	 read code < dist/.bench-exit; rm dist/.bench-exit; \
	 echo "compare two files with: go tool -modfile=tools/go.mod benchstat OLD NEW"; \
	 echo "$$(grep -c '^Benchmark' dist/bench.txt) results in dist/bench.txt"; exit $$code

sim: tools ## RUNS=1000 random fault schedules over simulated groups; SEED=N replays from N on, one run with a trace
	@echo "sim: random schedules, about 20 a second on each processor"
	@SIM_SEED='$(SEED)' SIM_RUNS='$(or $(RUNS),$(if $(SEED),1,1000))' $(TESTRUN) -log -- -count=1 -timeout 0 -run '^TestRandom(Lease|Sampled|Voice)?Schedules$$' ./integration/sim

schedules: tools ### RUNS=20000 random orders of I/O and faults on the arbiters, one or three devices; SEED=N replays (about 30 s)
	@echo "schedules: about 500 a second on each processor"
	@GOGC=400 DISKQUORUM_SEED='$(SEED)' DISKQUORUM_RUNS='$(or $(RUNS),$(if $(SEED),1,20000))' $(TESTRUN) -log -- -count=1 -timeout 0 -run '^TestRandomSchedules$$' ./diskquorum

agentsim: tools ### RUNS=200 random fault schedules over whole agents on virtual time; SEED=N begins with N; SAMPLED=1: groups of 9 to 13 (about 1 min)
	@echo "agentsim: whole agents on virtual time, about two schedules a second on each processor"
	@AGENTSIM_SEED='$(or $(SEED),1)' AGENTSIM_RUNS='$(or $(RUNS),$(if $(SEED),1,200))' $(TESTRUN) -log -- -count=1 -timeout 0 -run '^Test(RandomSchedules$(if $(SAMPLED),OfSampledGroups)$(if $(SEED),,|KnownSchedules))$$' ./integration/agentsim

recovery: tools ### RUNS=1000 random schedules of the controller's rules: replicas killed, answers late, agents that lie; SEED=N begins with N (about 1 min)
	@echo "recovery: about 20 schedules a second"
	@RECOVERY_SEED='$(SEED)' RECOVERY_RUNS='$(or $(RUNS),$(if $(SEED),1,1000))' $(TESTRUN) -log -- -count=1 -timeout 0 -run '^TestRandomSchedules$$' ./k8s/recovery

test-controller: cluster-programs ### what fencing-controller is held to: random schedules, its packages, a real API server, real kubelets with a CSI volume; RUNS=1000 schedules; RECOVERIES=20 nodes cut off; needs what make cluster needs (about 40 min)
	@test "$$(id -u)" = 0 || { echo "test-controller: needs root: it makes namespaces, control groups and loop devices; run: sudo make test-controller" >&2; exit 1; }
	@$(MAKE) --no-print-directory recovery
	@$(TESTRUN) -- -count=1 ./k8s/... ./cmd/fencing-controller/...
	@$(MAKE) --no-print-directory test-kube.all RUN='Controller|Takeover|Explain|Told|Slot|NodeFence|Remediation'
	@$(MAKE) --no-print-directory test-cluster RUN='^(recovery|barrier.*|signs_.*|taint.*|unknown_.*taint.*|not_ready_then_taint|deleted_.*|cut_off_and_back|back_.*|boots_.*|delete|new_user)$$$$'

simulate.short: tools ### the tests of the simulated gossip with groups of up to 60 and one of 1000, a section of CI (about 2 min)
	@echo "simulate KIND=short: the tests of integration/gossipsim, about two minutes"
	@GOSSIPSIM_SHORT=1 $(TESTRUN) -- -count=1 -short ./integration/gossipsim

simulate.large: tools ### 1000 simulated nodes on two networks are cut into halves; 4 GB (about 6 min)
	@echo "simulate KIND=large: 11 s of virtual time, about 6 minutes of one core and 4 GB"
	@GOSSIPSIM_LARGE=1 $(TESTRUN) -log -- -count=1 -timeout 0 -run '^TestEqualSplitOfTheLargestGroup$$' ./integration/gossipsim

model: $(if $(KIND),model.$(KIND),model.lease model.spin) ### exhaustive searches of the lease: on the real code and under spin (about 20 min)
model.%: ; $(call NOKIND,model,$*)

model.lease: tools ### every order of I/O and faults within bounds, on the real arbiter and on the model of a heal in pieces (about 15 min)
	@echo "model KIND=lease: about fifteen minutes; each line is one search with its number of states"
	@DISKQUORUM_EXHAUSTIVE=1 $(TESTRUN) -log -- -count=1 -timeout 60m -run '^TestExhaustive$$' ./diskquorum
	@REJOIN_EXHAUSTIVE=1 $(MODELS) -log -- -count=1 -timeout 60m -run '^TestSearch$$' ./rejoin

model.short: tools ### all models of rules within small bounds, as CI does when one has changed (about 1 min)
	@echo "model KIND=short: the models of integration/model, about a minute"
	@$(MODELS) -- -short ./...

model.lunhold: tools ### every state of the model of a hold by the LUN, within bounds, and 100000 random walks; LIMIT=3000000 states each (about 1 h)
	@echo "model KIND=lunhold: about an hour; a line every ten seconds, and one for each search with its number of states"
	@LUNHOLD_LONG=1 LUNHOLD_LIMIT='$(LIMIT)' $(MODELS) -log -- -count=1 -timeout 120m -run '^(TestSearch|TestListsChange|TestDevices|TestStrikes|TestStrikesInAnOutage|TestNetwork|TestMutants|TestCalm|TestPartsLive|TestRandomWalks)$$' ./lunhold

model.sentence: tools ### every state of the models of a node that condemns itself, within bounds (about 10 min)
	@echo "model KIND=sentence: about ten minutes, and one line for each search with its number of states"
	@SENTENCE_LONG=1 $(MODELS) -log -- -count=1 -timeout 60m ./sentence

model.spin: ### docs/spec/lease.pml and docs/spec/sentence.pml under spin; needs spin and gcc (about 5 min)
	@echo "model KIND=spin: 11 searches and 24 models without a rule, about 5 minutes"
	@docs/spec/check.sh

mutants: ### takes every guard away, one by one, in copies: each must be caught; MUTANTS=REGEXP (about 30 min)
	@echo "mutants: the tests once for every guard that is taken away, about 30 minutes"
	@$(GO) run ./integration/mutants -run '$(MUTANTS)'

test-netns.lun: build tools ### real agents over a LUN that hangs HUNG=30s, also under a killed one, and one that refuses writes; needs root, mkfs.ext4 and fsfreeze (about 2 min)
	@test "$$(id -u)" = 0 || { echo "test-netns KIND=lun: needs root: it makes loop devices, a file system on one, and freezes that; run: sudo make test-netns KIND=lun" >&2; exit 1; }
	@echo "test-netns KIND=lun: real programs on loop devices over a file system of its own; the LUN hangs for $(HUNG), twice"
	@FENCING_TEST_NETNS=1 FENCING_BIN=$(CURDIR)/bin $(TESTRUN) -log -- -count=1 -timeout 60m -run 'TestHungLUN|TestLUNThatRefusesWrites|TestCrashWhileTheLUNHangs|TestKilledInItsOnlyThread' ./integration/netns -hung $(HUNG)

test-formats: tools ### fencectl lun init among some forty formats, by the tools that make them; needs root, loop devices and the packages that it names (about 2 min)
	@test "$$(id -u)" = 0 || { echo "test-formats: needs root: it makes loop devices; run: sudo make test-formats" >&2; exit 1; }
	@echo "test-formats: each tool makes its format, lun init refuses it, and --force leaves nothing of it; about 2 minutes"
	@FENCING_TEST_FORMATS=1 $(TESTRUN) -log -- -count=1 -timeout 20m -run '^TestInitAmongRealFormats$$' ./diskquorum/lunadmin

test-systemd: build tools ### a real systemd in namespaces and on a root of its own: what it keeps of a killed agent's descriptor, a soft-reboot (root; systemd 254, or SYSTEMD_ROOT=FOLDER)
	@FENCING_TEST_SYSTEMD=1 FENCING_TEST_SYSTEMD_ROOT='$(SYSTEMD_ROOT)' FENCING_BIN=$(CURDIR)/bin $(TESTRUN) -log -- -count=1 -timeout 5m -run '^TestSystemd' ./cmd/fencing-agent/fdstore

test-vms.watchdog: build tools ### fencectl watchdog test in machines of User-mode Linux: one is reset by its softdog, one refuses; needs root, user-mode-linux, kmod and gcc (about 2 min)
	@test "$$(id -u)" = 0 || { echo "test-vms KIND=watchdog: needs root: the machines make device nodes; run: sudo make test-vms KIND=watchdog" >&2; exit 1; }
	@command -v linux.uml >/dev/null || { echo "test-vms KIND=watchdog: needs linux.uml: apt-get install user-mode-linux kmod gcc" >&2; exit 1; }
	@echo "test-vms KIND=watchdog: three boots of kernels of their own, about two minutes"
	@FENCING_TEST_SOFTDOG=1 FENCING_BIN=$(CURDIR)/bin $(TESTRUN) -log -- -count=1 -timeout 15m ./integration/softdog

test-netns: test-netns.$(or $(KIND),scenarios) ## the real programs in network namespaces, ROUNDS=50 equal splits, SIZES=3,7 agents; RUN=REGEXP; needs root (about 15 min)
test-netns.%: ; $(call NOKIND,test-netns,$*)
test-netns.scenarios: build tools
	@test "$$(id -u)" = 0 || { echo "test-netns: needs root: it makes network namespaces and loop devices; run: sudo make test-netns" >&2; exit 1; }
	@echo "test-netns: real programs, real partitions, loop devices; $(ROUNDS) equal splits, scenarios with $(SIZES) agents; about 15 minutes"
	@FENCING_TEST_NETNS=1 FENCING_BIN=$(CURDIR)/bin $(TESTRUN) -log -- -count=1 -timeout 60m $(if $(RUN),-run '$(RUN)') ./integration/netns -rounds $(ROUNDS) -sizes $(SIZES) -slow $(SLOW)

test-versions: build tools ### agents of the commit OLD and of this one in one group: equal splits, a node cut off, an upgrade in a split; needs root and git (about 4 min)
	@test "$$(id -u)" = 0 || { echo "test-versions: needs root: it makes network namespaces and loop devices; run: sudo make test-versions" >&2; exit 1; }
	@test -n '$(GIT_OK)' || { echo "test-versions: needs git and a clone that belongs to this user" >&2; exit 1; }
	@git cat-file -e '$(OLD)^{commit}' 2>/dev/null || { echo "test-versions: commit $(OLD) is not in this clone; run: git fetch --unshallow, or say OLD=COMMIT" >&2; exit 1; }
	@echo "test-versions: builds the agent of $(OLD), then five groups of four in network namespaces; about 4 minutes"
	@trap 'exit 130' INT; trap 'exit 143' TERM; old=$$(mktemp -d) && trap 'rm -rf "$$old"' EXIT && \
	  mkdir "$$old/src" && git archive '$(OLD)' | tar -x -C "$$old/src" && \
	  $(GO) build -C "$$old/src" -buildvcs=false -o "$$old/fencing-agent" ./cmd/fencing-agent && \
	  FENCING_TEST_NETNS=1 FENCING_BIN=$(CURDIR)/bin FENCING_OLD_AGENT="$$old/fencing-agent" $(TESTRUN) -log -- -count=1 -timeout 30m -run '^TestVersions$$' ./integration/netns

test-netns.outages: build tools ### all networks of real agents cut for OUTAGE=60s in groups of OUTAGES=3,4,5,8, the LUN whole; needs root (about 2 min)
	@test "$$(id -u)" = 0 || { echo "test-netns KIND=outages: needs root: it makes network namespaces and loop devices; run: sudo make test-netns KIND=outages" >&2; exit 1; }
	@echo "test-netns KIND=outages: real programs on loop devices; all networks are cut for $(OUTAGE) in groups of $(OUTAGES)"
	@FENCING_TEST_NETNS=1 FENCING_BIN=$(CURDIR)/bin $(TESTRUN) -log -- -count=1 -timeout 0 -run 'TestOutages/clusters/^[0-9]+$$' ./integration/netns -outage $(OUTAGE) -outages $(OUTAGES)

test-kube: test-kube.$(or $(KIND),all) ## the agents with a real etcd and kube-apiserver; RUN=REGEXP (about 15 min; the first time 9 more: it compiles Kubernetes)
test-kube.%: ; $(call NOKIND,test-kube,$*)
test-kube.all: build tools $(HELM)
	@$(KUBETEST)
	@echo "test-kube: go test ./... in integration/kube, about 15 minutes"
	@FENCING_BIN=$(CURDIR)/bin FENCING_KUBETEST=$(CURDIR)/bin/kubetest GOWORK=off $(TESTRUN) -C integration/kube -log -- -count=1 -timeout 25m $(if $(RUN),-run '$(RUN)') ./...

test-page: tools ### the status page in chromium without a window, through a split and a reset (about 3 min); SHOTS=DIR keeps pictures, as in docs/images; needs Debian's chromium
	@command -v chromium >/dev/null || test -n "$$FENCING_CHROMIUM" || { if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	   echo "test-page: apt-get install chromium"; apt-get install -y -qq --no-install-recommends chromium >/dev/null; \
	 else echo "test-page: needs chromium: apt-get install chromium, or set FENCING_CHROMIUM" >&2; exit 1; fi; }
	@echo "test-page: four agents and a browser, about 3 minutes"
	@FENCING_PAGE_SHOTS=$(if $(SHOTS),$(abspath $(SHOTS))) GOWORK=off $(TESTRUN) -C integration/page -log -- -count=1 -timeout 10m ./...

test-kube.hour: build tools ### what three agents ask of a real API server in an hour, by default; STEADY=1h
	@$(KUBETEST)
	@echo "test-kube KIND=hour: a settled group for $(STEADY)"
	@FENCING_STEADY=$(STEADY) FENCING_BIN=$(CURDIR)/bin FENCING_KUBETEST=$(CURDIR)/bin/kubetest GOWORK=off $(TESTRUN) -C integration/kube -log -- -count=1 -timeout 24h -run TestAgentsInSteadyState .

test-kube.lists: build tools ### what fencing-controller asks of a real API server for 3 and for AGENTS=300 agents with members.source: controller; STEADY=1h
	@$(KUBETEST)
	@echo "test-kube KIND=lists: two groups for $(STEADY)"
	@FENCING_LIST_HOUR=$(STEADY) FENCING_LIST_AGENTS=$(AGENTS) FENCING_BIN=$(CURDIR)/bin FENCING_KUBETEST=$(CURDIR)/bin/kubetest GOWORK=off $(TESTRUN) -C integration/kube -log -- -count=1 -timeout 24h -run TestRequestsOfTheControllerDoNotGrow .

test-vms: test-vms.$(or $(KIND),scenarios) ## four virtual machines with softdog and an iSCSI LUN, really reset; RUN=REGEXP, LONG=1, TIMES=3; needs QEMU and Debian's apt, no root (9 min, with LONG=1 17)
test-vms.%: ; $(call NOKIND,test-vms,$*)
test-vms.scenarios: tools
	@echo "test-vms: real resets in emulated machines; about 9 minutes on two processors, with LONG=1 about 17; each scenario is told when it has ended"
	@FENCING_TEST_VMS=1 FENCING_VMS_CACHE=$(CURDIR)/bin/vms $(TESTRUN) -log -- -count=$(or $(TIMES),1) -timeout 0 -run '^TestScenarios$$$(if $(RUN),/($(RUN)))' ./integration/vms -outage $(OUTAGE) $(if $(LONG),-long)

# Debian's kernel for virtual machines has no drivers for the watchdogs of boards.
WATCHDOGS = FENCING_TEST_VMS=1 FENCING_VMS_KERNEL=linux-image-amd64 FENCING_VMS_CACHE=$(CURDIR)/bin/vms $(TESTRUN) -log -- -count=$(or $(TIMES),1) -timeout 0 -run '^TestWatchdogs$$$(if $(RUN),/($(RUN)))' ./integration/vms $(if $(LONG),-long)

test-watchdog: test-watchdog.$(or $(KIND),all) ## what real watchdogs of emulated machines do, and whether FENCED comes after the reset; KIND=short: two of them (3 min); LONG=1: after a panic, too; RUN=REGEXP, TIMES=3; needs QEMU and Debian's apt, no root (about 10 min)
test-watchdog.%: ; $(call NOKIND,test-watchdog,$*)
test-watchdog.all: tools
	@echo "test-watchdog: each watchdog resets its machine two or three times, about 10 minutes; each step is told when it has ended"
	@$(WATCHDOGS)

test-watchdog.short: tools ### i6300esb, and iTCO_wdt, which fires after twice its timeout (about 3 min)
	@echo "test-watchdog KIND=short: two watchdogs, about three minutes"
	@$(WATCHDOGS) -few

test-watchdog.table: ### the table of watchdogs in docs/measurements/verification.md again, by make test-watchdog; TIMES=3 as it stands there
	@FENCING_VMS_WATCHDOGS=$(CURDIR)/docs/measurements/verification.md $(MAKE) --no-print-directory test-watchdog.all

test-vms.table: ### the table of resets in docs/measurements/verification.md again, by make test-vms; LONG=1 TIMES=3 as it stands there
	@FENCING_VMS_TABLE=$(CURDIR)/docs/measurements/verification.md $(MAKE) --no-print-directory test-vms.scenarios

test-vms.outages: tools ### all networks of machines with armed watchdogs cut for OUTAGE=60s, one lab for each size in OUTAGES=3,4,5,8, TIMING=careful, into docs/measurements/verification.md (about 12 min)
	@echo "test-vms KIND=outages: all networks are cut for $(OUTAGE) in labs of $(OUTAGES) nodes, one after the other; each takes two minutes more"
	@FENCING_TEST_VMS=1 FENCING_VMS_CACHE=$(CURDIR)/bin/vms FENCING_VMS_OUTAGES=$(CURDIR)/docs/measurements/verification.md $(TESTRUN) -log -- -count=1 -timeout 0 -run '^TestOutages$$' ./integration/vms -outage $(OUTAGE) -outages $(OUTAGES) -timing $(or $(TIMING),careful)

test-vms.fabric: tools ### fence_scsi on the iSCSI target of the virtual machines, with a reset of the LUN and without (5 min)
	@echo "test-vms KIND=fabric: a node is cut off from its LUN four times, about five minutes"
	@FENCING_TEST_VMS=1 FENCING_VMS_CACHE=$(CURDIR)/bin/vms $(TESTRUN) -log -- -count=1 -timeout 0 -run '^TestFabric$$' ./integration/vms

test-vms.crash: tools ### a machine that panics: its crash kernel runs Debian's fence_kdump_send, and fencing-controller's listener hears it; another is merely reset (3 min)
	@echo "test-vms KIND=crash: two machines of 512 MB, about three minutes; each step is told when it has ended"
	@FENCING_TEST_VMS=1 FENCING_VMS_CACHE=$(CURDIR)/bin/vms $(TESTRUN) -log -- -count=1 -timeout 0 -run '^TestCrashKernel$$' ./integration/vms

test-paths: tools ### a LUN by two paths in virtual machines: dm-multipath over iSCSI, and NVMe/TCP; one path is cut, both are, one in the middle of an equal split; SHORT=1: only a node as advised; needs QEMU and Debian's apt, no root (12 min, with SHORT=1 2)
	@echo "test-paths: how long a read stalls when paths are lost, $(if $(SHORT),as docs/operations.md advises: about 2 minutes,as docs/operations.md advises and with all defaults; then two agents part: about 12 minutes)"
	@FENCING_TEST_VMS=1 FENCING_VMS_CACHE=$(CURDIR)/bin/vms $(TESTRUN) -log -- -count=1 -timeout 20m -run '^TestPaths$(if $(SHORT),$$)' ./integration/vms $(if $(SHORT),,-defaults)

test-vms.mutants: tools ### agents without a guard in virtual machines: each must fail its scenario (about 20 min)
	@echo "test-vms KIND=mutants: one lab for each guard that is taken away, about 3 minutes each"
	@FENCING_TEST_VMS=1 FENCING_VMS_CACHE=$(CURDIR)/bin/vms $(TESTRUN) -log -- -count=1 -timeout 0 -run '^TestMutants$$$(if $(RUN),/($(RUN)))' ./integration/vms -mutants

test-vms.compare: tools ### Pacemaker, sbd, sanlock, corosync and the agent under the same faults in the same machines, into docs/comparison.md; RUN=REGEXP, FAULTS=REGEXP, RUNS=3 (some hours)
	@echo "test-vms KIND=compare: each of the systems $(or $(RUNS),3) times through its faults, some hours; RUN=corosync is one of them, FAULTS=silent the outage of all networks, FAULTS=cut.of the cuts that end by themselves, FAULTS='crashed|power' the deaths of one node"
	@FENCING_TEST_VMS=1 FENCING_VMS_CACHE=$(CURDIR)/bin/vms FENCING_VMS_COMPARE=$(CURDIR)/docs/comparison.md $(TESTRUN) -log -- -count=1 -timeout 0 -run '^TestComparison$$$(if $(RUN),/($(RUN)))' ./integration/vms -faults '$(FAULTS)' $(if $(RUNS),-runs $(RUNS))

cluster: cluster-programs ## Kubernetes with four real kubelets on this machine, until Ctrl-C; KIND=uml: with kernels and softdogs of their own; needs root, gcc and libseccomp-dev (15 s; first 12 min: it compiles Kubernetes)
	@test "$$(id -u)" = 0 || { echo "cluster: needs root: it makes namespaces, control groups and loop devices; run: sudo make cluster" >&2; exit 1; }
	@FENCING_CLUSTER_KIND=$(KIND) exec bin/cluster/cluster up .

test-cluster: cluster-programs ## the shipped DaemonSet on real nodes, and their faults; RUN=REGEXP, KIND=uml; needs what make cluster needs (about 25 min)
	@test "$$(id -u)" = 0 || { echo "test-cluster: needs root: it makes namespaces, control groups and loop devices; run: sudo make test-cluster" >&2; exit 1; }
	@echo "test-cluster: a control plane and four nodes; each scenario is told when it has ended, $(if $(RUN),those named $(RUN),about 25 minutes for all)"
	@FENCING_TEST_CLUSTER=1 FENCING_CLUSTER_KIND=$(KIND) GOWORK=off $(TESTRUN) -C integration/cluster -log -- -count=1 -timeout $(if $(RECOVERIES),0,60m) $(if $(RUN),-run '/($(RUN))') $(if $(RECOVERIES)$(BY)$(CALM)$(OVERHEAD),. $(if $(OVERHEAD),-overhead $(OVERHEAD)) $(if $(RECOVERIES),-recoveries $(RECOVERIES)) $(if $(BY),-by $(BY)) $(if $(CALM),-calm),./...)

test-nodefence.devices: tools ### fencing by devices without a cluster: each row of its table, RUNS=1000 random schedules of two controllers that are killed, COUNCILS=20 of a control plane whose nodes fail, and Debian's fence_ipmilan, fence_apc_snmp and fence_kdump_send against simulated devices, and one agent a transport; with FENCING_EXECUTOR_ROOT each agent of that root of deploy/executor/root.sh; needs fence-agents, openipmi, ipmitool, snmp, snmpd, telnet and gnutls-bin, else it skips those (about 3 min)
	@echo "test-nodefence KIND=devices: the state machine, and the executor with Debian's fence agents, as far as they are installed: apt-get install --no-install-recommends fence-agents openipmi ipmitool snmp snmpd telnet gnutls-bin openssh-client"
	@$(TESTRUN) -log -- -count=1 -timeout 0 -run '^Test(Table|Schedules)$$' ./k8s/nodefence -runs $(or $(RUNS),1000)
	@$(TESTRUN) -log -- -count=1 -timeout 0 -run '^TestControlPlaneSchedules$$' ./k8s/fencing -councils $(or $(COUNCILS),20)
	@$(TESTRUN) -log -- -count=1 -run '^TestReal' ./cmd/fencing-executor ./k8s/fencing

test-nodefence: test-nodefence.$(or $(KIND),cluster) ### nodes of a real cluster are fenced by Debian's fence_ipmilan and boards of OpenIPMI that cut their power: the whole way, and boards that are gone, lie or are two; RUN=REGEXP: of the cluster; needs what make cluster needs, openipmi and debootstrap (about 20 min)
test-nodefence.%: ; $(call NOKIND,test-nodefence,$*)
test-nodefence.cluster: cluster-programs
	@test "$$(id -u)" = 0 || { echo "test-nodefence: needs root: it makes namespaces, control groups and loop devices; run: sudo make test-nodefence" >&2; exit 1; }
	@command -v ipmi_sim >/dev/null || { echo "test-nodefence: needs ipmi_sim: apt-get install openipmi" >&2; exit 1; }
	$(if $(RUN),,@$(MAKE) --no-print-directory test-nodefence.devices)
	@{ cmp -s bin/fencing-executor bin/cluster/executor.program && test bin/cluster/executor.tar -nt deploy/executor/Dockerfile; } || \
	 { $(MAKE) --no-print-directory dist/executor.oci.tar EXECUTOR=registry.example.com/fencing-executor:v0.1.0 OUT=bin/cluster/executor.tar && \
	   cp bin/fencing-executor bin/cluster/executor.program; }
	@FENCING_TEST_CLUSTER=1 GOWORK=off $(TESTRUN) -C integration/cluster -log -- -count=1 -timeout 60m -run '^TestNodeFence$$$(if $(RUN),/($(RUN)))' .

cluster-programs: build tools $(HELM)
	@$(KUBETEST)
	@$(KUBETEST) runtime
	@cd integration/cluster && CGO_ENABLED=0 GOWORK=off $(GO) build $(BUILDVCS) -trimpath -ldflags '-s -w' -o ../../bin/cluster/ ./cmd/cluster ./cmd/node ./cmd/tool ./cmd/agent ./cmd/csi ./cmd/plugin
	@cd integration/cluster/cmd/attacher && CGO_ENABLED=0 GOWORK=off $(GO) build $(BUILDVCS) -trimpath -ldflags '-s -w' -o ../../../../bin/cluster/csi-attacher github.com/kubernetes-csi/external-attacher/v4/cmd/csi-attacher
	@ln -sf ../kubetest bin/cluster/kubectl
	@gcc -O2 -Wall -shared -fPIC -o bin/cluster/xstate.so integration/cluster/machine/preload/xstate.c -ldl

test-cilium: tools ### the subscriber in Cilium's load balancer, and cilium-agent with it; as root on the kernel's BPF maps, too; after make test-kube with a real API server (first time: 700 MB of modules, 15 min)
	@echo "test-cilium: Cilium is compiled first; then about a minute"
	@cd deploy/cilium && GOWORK=off $(GO) mod tidy -diff >/dev/null || { echo "test-cilium: run go mod tidy in deploy/cilium" >&2; exit 1; }
	@cd deploy/cilium && GOWORK=off $(GO) build -o ../../bin/cilium-agent ./agent
	@GOWORK=off $(TESTRUN) -C deploy/cilium -- -count=1 ./subscriber
	@if [ "$$(id -u)" = 0 ]; then \
	   echo "test-cilium: again on unpinned BPF maps, in a mount namespace with a bpffs of its own"; \
	   unshare -m sh -c 'mount -t bpf bpf /sys/fs/bpf && FENCING_TEST_BPF=1 GOWORK=off $(TESTRUN) -C deploy/cilium -- -count=1 ./subscriber'; \
	 else echo "test-cilium: without root BPF maps are faked"; fi

laboratory:
	@echo "laboratory: bin/laboratory"
	@mkdir -p bin
	@CGO_ENABLED=0 $(GO) build $(BUILDVCS) -tags $(GOTAGS) -trimpath -ldflags '$(LDFLAGS)' -o bin/ ./integration/laboratory

soak: build laboratory ### real agents, random faults and replayed packets in network namespaces for DURATION=30m; SEED=N replays a schedule; SOAK_FLAGS="--nodes 7" or "--armed --busy 2 --blink"; needs root
	@test "$$(id -u)" = 0 || { echo "soak: needs root: it makes network namespaces and loop devices; run: sudo make soak" >&2; exit 1; }
	@echo "soak: random faults for $(DURATION)"
	@bin/laboratory soak --bin bin --duration $(DURATION) $(if $(SEED),--seed $(SEED)) $(SOAK_FLAGS)

# The laboratory needs only these programs; the others link all of Kubernetes' types.
demo night soak: PROGRAMS = ./cmd/fencing-agent ./cmd/fencectl

demo: build laboratory ## four agents, two networks, a LUN: cut, split, heal, kill (about 40 s); DEMO_FLAGS="--nodes 6 --keep"
	@bin/laboratory demo $(DEMO_FLAGS)

night: build laboratory ## a night on call: a node is reset, what one sees and what one types (about 40 s)
	@bin/laboratory night --bin bin

simulate: simulate.$(or $(KIND),one) ### the gossip of up to 1000 nodes on virtual time, measured; SIMULATE_FLAGS="--nodes 50 --scenario isolate --compare"
simulate.%: ; $(call NOKIND,simulate,$*)
simulate.one: laboratory
	@bin/laboratory simulate $(SIMULATE_FLAGS)

images: $(if $(KIND),images.$(KIND),images.agent images.controller images.executor) ## container images of the agent, the controller and the executor; needs docker, podman or buildah
images.%: ; $(call NOKIND,images,$*)
images.agent: build ### a static container image IMAGE=fencing-agent; needs docker, podman or buildah
	@tool=$$(command -v docker || command -v podman || command -v buildah) || \
	   { echo "images KIND=agent: needs docker, podman or buildah in PATH" >&2; exit 1; }; \
	 echo "images KIND=agent: $$tool builds $(IMAGE):$(VERSION) from deploy/Dockerfile"; \
	 "$$tool" build -f deploy/Dockerfile -t $(IMAGE):$(VERSION) .

images.controller: build ### a static container image of fencing-controller, IMAGE=fencing-controller; needs docker, podman or buildah
	@tool=$$(command -v docker || command -v podman || command -v buildah) || \
	   { echo "images KIND=controller: needs docker, podman or buildah in PATH" >&2; exit 1; }; \
	 name=$(if $(filter fencing-agent,$(IMAGE)),fencing-controller,$(IMAGE)); \
	 echo "images KIND=controller: $$tool builds $$name:$(VERSION) from deploy/controller/Dockerfile"; \
	 "$$tool" build -f deploy/controller/Dockerfile -t $$name:$(VERSION) .

images.executor: build ### Debian's fence agents and fencing-executor for this machine's architecture, IMAGE=fencing-executor; needs docker, podman or buildah, else root and debootstrap (an archive in dist); needs Debian's mirror (about 1 min)
	@name=$(if $(filter fencing-agent,$(IMAGE)),fencing-executor,$(IMAGE)); \
	 if tool=$$(command -v docker || command -v podman || command -v buildah); then \
	   echo "images KIND=executor: $$tool builds $$name:$(VERSION) from deploy/executor/Dockerfile"; \
	   "$$tool" build -f deploy/executor/Dockerfile -t $$name:$(VERSION) .; \
	 else $(MAKE) --no-print-directory dist/executor.oci.tar EXECUTOR=$$name:$(VERSION); fi

# This makes the same contents without a container tool. EXECUTOR is the image's name, and OUT its archive.
EXECUTOR ?= fencing-executor:$(VERSION)
.PHONY: dist/executor.oci.tar
dist/executor.oci.tar:
	@test "$$(id -u)" = 0 || { echo "images KIND=executor: without docker, podman or buildah it needs root: run: sudo make images KIND=executor" >&2; exit 1; }
	@command -v debootstrap >/dev/null || { echo "images KIND=executor: needs docker, podman or buildah, or debootstrap: apt-get install debootstrap" >&2; exit 1; }
	@echo "images KIND=executor: a bare Debian is made with what deploy/executor/Dockerfile installs, about a minute; MIRROR and SECURITY name other archives"
	@mkdir -p bin/tools dist && $(GO) build $(BUILDVCS) -o bin/tools/ ./integration/oci/ociimage
	@root=$$(mktemp -d) && trap 'rm -rf "$$root"' EXIT && deploy/executor/root.sh "$$root" bin/fencing-executor && \
	 bin/tools/ociimage -name $(EXECUTOR) -entrypoint /usr/local/bin/fencing-executor -user 65532:65532 "$$root" $(or $(OUT),$@) && \
	 echo "images KIND=executor: $(EXECUTOR) is in $(or $(OUT),$@): skopeo copy oci-archive:..., podman load -i, or ctr -n k8s.io images import"

simulate.tables: laboratory ### the simulated tables of docs/measurements/performance.md again (about 30 min); ONLY="--scenario idle": those whose command has that
	@echo "simulate KIND=tables: every command in docs/measurements/performance.md, about 30 minutes; ONLY=TEXT for some of them"
	@mkdir -p dist
	@awk -v only='$(ONLY)' ' \
	   /^<!-- simulate / { print; c = $$0; sub(/^<!-- simulate/, "bin/laboratory simulate", c); sub(/ -->$$/, " -o markdown", c); \
	     if (only != "" && !index(c, only)) next; \
	     print "simulate-table: " c > "/dev/stderr"; lines = 0; print ""; while ((c | getline line) > 0) { print line; lines++ } \
	     if (close(c) != 0 || lines < 3) exit 1; \
	     tables++; print ""; skip = 1; next } \
	   /^<!-- end of simulation -->/ { skip = 0 } \
	   !skip { print } \
	   END { print tables + 0 " tables simulated" > "/dev/stderr" }' docs/measurements/performance.md > dist/performance.md
	@mv dist/performance.md docs/measurements/performance.md

nightly: ### the long versions: race, fuzz 5 min a target, 1100000 schedules, namespaces (hours; needs gcc, libseccomp-dev and root)
	@passed=0; failed=0; \
	 for job in "verify" "race" "fuzz FUZZTIME=5m" "sim RUNS=100000" "schedules RUNS=1000000" "agentsim RUNS=5000" "recovery RUNS=10000" "simulate KIND=large" "model" "mutants" "test-netns KIND=lun HUNG=10m" "test-formats" "test-netns SIZES=3,9,30" "test-versions" "test-kube" "test-page" "test-cluster" "test-nodefence" "test-kube KIND=hour" "test-kube KIND=lists" "test-cilium" "test-vms LONG=1" "test-paths" "test-vms KIND=fabric" "test-vms KIND=crash" "test-vms KIND=watchdog" "test-watchdog" "test-vms KIND=deb" "soak" "demo" "night"; do \
	   echo "nightly: make $$job"; \
	   if $(MAKE) --no-print-directory $$job; then passed=$$((passed + 1)); else failed=$$((failed + 1)); fi; \
	 done; \
	 echo "nightly: jobs"; echo "$$passed passed, $$failed failed"; test $$failed -eq 0

# This builds helm, in the version whose engine renders the manifests (100 s of CPU the first time).
$(HELM): tools/manifests/go.mod tools/manifests/go.sum
	@echo "helm: builds $@, about 100 s of CPU the first time"
	@CGO_ENABLED=0 GOWORK=off $(GO) build -C tools/manifests $(BUILDVCS) -o ../../$@ helm.sh/helm/v4/cmd/helm

clean: ## remove what was built
	rm -rf bin dist

tools:
	@mkdir -p bin/tools
	@$(GO) build -C tools $(BUILDVCS) -o ../bin/tools/ ./testrun ./verify
