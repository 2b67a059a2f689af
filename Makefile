# Patchbay. `make help` lists the targets.

SHELL       := /bin/bash
.SHELLFLAGS := -o pipefail -c
.DEFAULT_GOAL := all

GO       ?= go
VERSION  ?= $(shell .ci/version)
LDFLAGS  := -X main.version=$(VERSION) -X patchbay/am/site.version=$(VERSION)
# The version is stamped above; git's own stamp fails in a checkout of another user.
BUILD    := $(GO) build -trimpath -buildvcs=false -ldflags
PACKAGES := ./...
# Packages whose tests need the host for themselves. make test-host runs them, and in other packages the tests named TestOnHost….
ONHOST   := '^patchbay/(cmd/patchbay-(local|lxd)|inventory/(node|provider/local)|am/testkit/(disk|hoststate|netlab|require|wait))'
# Tests of the pages in chromium: make test-web.
BROWSER  := ./cmd/patchbay/browsertest
# axe-core checks that pages are accessible.
AXE      := axe-core@4.14.1
# All checks of staticcheck except ST1000: packages have their comment in doc.go, and test packages need none.
CHECKS   := all,-ST1000
FUZZTIME ?= 20s
SOAKTIME ?= 10m

.PHONY: all build demo test test-host test-host-local test-host-site test-host-packages test-web screenshots check check-full package test-package bench count fuzz soak guest help clean packages test-packages test-web-packages go

## all: check and build
all: check build

# A testbed has two copies of patchbay-local for its nodes, so it is built without the
# tables for debuggers. Stack traces and profiles do not need these tables.
## build: make bin/patchbay, bin/patchbay-local and bin/patchbay-lxd
build: packages
	$(BUILD) '$(LDFLAGS)' -o bin/patchbay ./cmd/patchbay
	CGO_ENABLED=0 $(BUILD) '$(LDFLAGS) -s -w' -o bin/patchbay-local ./cmd/patchbay-local
	CGO_ENABLED=0 $(BUILD) '$(LDFLAGS) -s -w' -o bin/patchbay-lxd ./cmd/patchbay-lxd

## demo: build, then show the whole life of an experiment (DEMO="--keep DIR" keeps its site)
demo: build
	bin/patchbay demo $(DEMO)

# The number of random cases and the seed of random tests. They are the same each time, except in check-full.
DRAWN    := RAPID_CHECKS=$${RAPID_CHECKS:-30} RAPID_SEED=$${RAPID_SEED:-1}
# Vet is part of check. Tables for debuggers would make each program's link longer, and rare garbage collection saves a tenth of the time.
GOTEST   := TMPDIR=$$(.ci/tmp) GOGC=$${GOGC:-400} $(DRAWN) $(GO) test -vet=off -ldflags='-s -w' -timeout 30m -v

## test: run the tests that need neither real nodes nor links (about 5 min on two cores)
test: packages test-packages
	@mkdir -p .cache
	$(GOTEST) -p 3 -skip '^TestOnHost' $$($(GO) list $(PACKAGES) | grep -vE $(ONHOST)'|/browsertest$$') 2>&1 | tee .cache/test.log; status=$$?; \
	  .ci/failures .cache/test.log; .ci/skips testdata/skips.txt .cache/test.log || status=1; exit $$status

# Most of these tests wait, so make runs two groups of them at the same time, and prints the output of each at its end. With
# three, two cores are so busy that some logins to nodes take too long.
# Packages that take longest are first.
HOSTTEST = $(GOTEST) $(1) 2>&1 | tee .cache/$@.log
## test-host: run the tests of real nodes and links, as root
test-host: packages test-packages
	@mkdir -p .cache && rm -f .cache/test-host-*.log
	@echo "tests of real nodes run; see .cache/test-host-*.log"
	@$(MAKE) --no-print-directory -k -j2 -Otarget test-host-local test-host-site test-host-packages; status=$$?; \
	  .ci/failures .cache/test-host-*.log; .ci/skips testdata/skips.txt .cache/test-host-*.log || status=1; exit $$status

test-host-local:
	@$(call HOSTTEST,./cmd/patchbay-local)

# Meanwhile, what processors have left makes the image of the nodes of LXD.
test-host-site:
	@nice -n 19 $(GO) test -vet=off -ldflags='-s -w' -run '^TestImage$$' ./cmd/patchbay-lxd >/dev/null 2>&1 & \
	$(call HOSTTEST,-p 1 -run '^TestOnHost' $$(grep -rlE --include='*_test.go' '^func TestOnHost' am cmd inventory | xargs -n 1 dirname | sort -u | sed 's,^,./,'))

test-host-packages:
	@$(call HOSTTEST,-p 2 ./cmd/patchbay-lxd ./inventory/provider/local/testbed $$($(GO) list $(PACKAGES) | grep -E $(ONHOST) | grep -vE '/(cmd/patchbay-(local|lxd)|testbed)$$'))

## test-web: run the tests of the pages in chromium
test-web: packages test-web-packages .cache/$(AXE)
	$(GOTEST) $(BROWSER) 2>&1 | tee .cache/test-web.log; status=$$?; \
	  .ci/failures .cache/test-web.log; .ci/skips testdata/skips.txt .cache/test-web.log || status=1; exit $$status

## screenshots: make the pictures of the pages for README.md; pictures of all pages are in .cache/screenshots
screenshots: packages test-web-packages
	$(GO) test -count=1 -run '^TestWebPictures$$' $(BROWSER) -update

.cache/$(AXE): | test-web-packages
	@mkdir -p .cache
	npm install --prefix $@ --no-save --ignore-scripts --no-audit --no-fund $(AXE) || \
	  { rm -rf $@; echo "npm cannot install axe-core, so the tests that need it are skipped"; }

## check: check the format, vet, static analysis, imports and go.mod
check: packages
	@bad=$$(gofmt -l am cmd credentials inventory rspec schemas testdata); \
	  if [ -n "$$bad" ]; then echo "not formatted; run gofmt -w on:"; echo "$$bad"; exit 1; fi
	$(GO) vet $(PACKAGES)
	$(GO) tool staticcheck -checks $(CHECKS) $(PACKAGES)
	$(GO) test -run '^TestImports' ./am
	$(GO) mod verify
	$(GO) mod tidy -diff

## check-full: check, then all tests with the race detector and, around C, the address sanitizer and cgocheck; long models and crashes, README's commands in a new Debian
check-full: check
	PATCHBAY_RACE=1 $(GO) test -race -timeout 30m $(PACKAGES)
	ASAN_OPTIONS=detect_leaks=0 $(GO) test -asan ./am/server/mtls ./schemas/xmltree ./credentials/dsig
	GOEXPERIMENT=cgocheck2 $(GO) test ./am/server/mtls ./schemas/xmltree ./credentials/dsig
	$(GO) test -count=2 -shuffle=on -timeout 30m $(PACKAGES)
	PATCHBAY_CORPUS_ALL=1 $(GO) test -v -count=1 -timeout 60m -run '^TestOnHostCorpusRequestsRun$$' ./cmd/patchbay/e2e
	PATCHBAY_LONG=1 PATCHBAY_LXD_KILLS=100 $(GO) test -v -count=1 -timeout 45m ./cmd/patchbay-lxd
	PATCHBAY_LONG=1 PATCHBAY_STEPS=20000 $(GO) test -v -count=1 -timeout 120m ./am/store ./am/follow/hook ./am/testkit/modeltest ./am/authority
	PATCHBAY_LONG=1 $(GO) test -p 1 -v -count=1 -timeout 120m -run 'Kill' $$($(GO) list $(PACKAGES) | grep -E $(ONHOST) | grep -v patchbay-lxd)
	PATCHBAY_LONG=1 $(GO) test -v -count=1 -timeout 60m -run '^TestMutants$$' ./credentials
	PATCHBAY_LONG=1 $(GO) test -v -count=1 -timeout 30m ./inventory/provider/providertest ./am/client/conformance ./rspec/manifesttest ./schemas
	PATCHBAY_LONG=1 $(GO) test -v -count=1 -timeout 30m -run '^TestRealRequests$$' ./am/api
	RAPID_CHECKS=100000 $(GO) test -v -count=1 -timeout 60m -run '^TestCalendarModel$$' ./am/service/binder
	RAPID_CHECKS=100000 $(GO) test -v -count=1 -timeout 180m -run '^TestAheadModel$$' ./am/api
	PATCHBAY_KILLS=150 $(GO) test -v -count=1 -timeout 60m -run '^TestKilled(UnderLoad|AtStarts)$$' ./cmd/patchbay/e2e
	.ci/fresh

# The Debian package uses Debian's libraries; the tarball and the image have them linked in. Times are those of the commit.
PACKAGE  := .cache/package
STAMP    := $(shell git log -1 --format=%ct 2>/dev/null || echo 0)
## package: make the Debian package, the tarball, the container image, their SBOM and checksums in dist/
package: go
	@.ci/packages package
	rm -rf $(PACKAGE) dist
	mkdir -p $(PACKAGE)/{dynamic,static,man,completion} dist
	$(BUILD) '$(LDFLAGS) -s -w' -buildmode=pie -o $(PACKAGE)/dynamic/patchbay ./cmd/patchbay
	$(BUILD) "$(LDFLAGS) -s -w -linkmode external -extldflags '-static -Wl,--no-warnings $$(pkg-config --static --libs libxml-2.0 libssl) -lstdc++'" -tags netgo,osusergo -o $(PACKAGE)/static/patchbay ./cmd/patchbay
	CGO_ENABLED=0 $(BUILD) '$(LDFLAGS) -s -w' -o $(PACKAGE)/static/patchbay-local ./cmd/patchbay-local
	CGO_ENABLED=0 $(BUILD) '$(LDFLAGS) -s -w' -o $(PACKAGE)/static/patchbay-lxd ./cmd/patchbay-lxd
	cp $(PACKAGE)/static/patchbay-{local,lxd} $(PACKAGE)/dynamic/
	SOURCE_DATE_EPOCH=$(STAMP) $(GO) run -tags manpages ./cmd/patchbay $(PACKAGE)/man
	SOURCE_DATE_EPOCH=$(STAMP) CGO_ENABLED=0 $(GO) run -tags manpages ./cmd/patchbay-local $(PACKAGE)/man
	SOURCE_DATE_EPOCH=$(STAMP) CGO_ENABLED=0 $(GO) run -tags manpages ./cmd/patchbay-lxd $(PACKAGE)/man
	$(PACKAGE)/dynamic/patchbay completion bash >$(PACKAGE)/completion/patchbay
	$(PACKAGE)/dynamic/patchbay completion zsh >$(PACKAGE)/completion/_patchbay
	$(PACKAGE)/dynamic/patchbay completion fish >$(PACKAGE)/completion/patchbay.fish
	cd .ci/package && $(GO) run . -version $(VERSION) -date $(STAMP)

## test-package: package, then install, upgrade and purge it in a Debian that systemd has booted, as root; lintian
test-package: package
	@.ci/packages test-package
	lintian --allow-root --fail-on error dist/*.deb
	cd .ci/package && $(GO) vet . && $(GO) test -v -count=1 -timeout 15m .

## count: print lines and tokens of each package, and functions that are too large
count: go
	@$(GO) run .ci/count.go

## bench: run the benchmarks (B=NAME for some of them)
bench: packages
	$(GO) test -run '^$$' -bench '$(or $(B),.)' -benchmem -timeout 60m $(PACKAGES)

# By default go makes each new input smaller for up to a minute, which would take most of the time.
## fuzz: run one fuzz target (T=FuzzName), or each for FUZZTIME (20s)
fuzz: packages
	@grep -rl --include='*_test.go' -E '^func $(or $(T),Fuzz[A-Za-z0-9]+)\(' am cmd credentials inventory rspec schemas | \
	while read -r file; do \
	  for target in $$(grep -hoE '^func $(or $(T),Fuzz[A-Za-z0-9]+)\(' "$$file" | sed 's/^func //; s/($$//'); do \
	    echo "$$target in $$(dirname "$$file")"; \
	    $(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x "./$$(dirname "$$file")" || exit 1; \
	  done; \
	done

## soak: reserve and release for SOAKTIME (10m) and check that memory and state do not grow; then compare the manager with a model for as long
soak: packages
	PATCHBAY_SOAK=$(SOAKTIME) $(GO) test -v -run '^TestSoak' -timeout 24h ./cmd/patchbay
	PATCHBAY_SOAK=$(SOAKTIME) $(GO) test -count=1 -v -run '^TestModel$$' -timeout 24h ./am/testkit/modeltest

## guest: test in virtual machines with pure cgroup v2 and v1, netem and a boot, which the host may lack (takes long)
guest: packages
	@.ci/packages guest
	for before in TestBeforeThePowerCut TestBeforeASuddenPowerCut; do rm -f .cache/guest.img; \
	  .ci/guest --disk .cache/guest.img --cut --env PATCHBAY_BOOT=/guest/boot --test cmd/patchbay-local=^$$before\$$ && \
	  .ci/guest --disk .cache/guest.img --env PATCHBAY_BOOT=/guest/boot 'cd /guest/src/cmd/patchbay-local && ./patchbay-local.test -test.v -test.run AfterThePowerCut' || exit 1; \
	done
	for groups in v2 v1; do \
	  .ci/guest --cgroup $$groups --test inventory/provider/local/cgroup --test inventory/provider/local/node \
	    --test inventory/provider/local/fabric --test inventory/node/inside 'TMPDIR=/guest patchbay demo' || exit 1; \
	done

## clean: remove what was built
clean:
	rm -rf bin .cache dist

## help: print this list
help:
	@sed -n 's/^## \([a-z-]*\): /\1\t/p' $(MAKEFILE_LIST) | while IFS="$$(printf '\t')" read -r t d; do printf '  %-11s %s\n' "$$t" "$$d"; done

packages: go
	@.ci/packages

test-packages:
	@.ci/packages test

test-web-packages:
	@.ci/packages test-web

go:
	@command -v $(GO) >/dev/null || { echo "Go is missing: install Go 1.26 or later from https://go.dev/dl/ and put it on the PATH"; exit 1; }
	@v=$$($(GO) env GOVERSION); v=$${v#go}; major=$${v%%.*}; rest=$${v#*.}; minor=$${rest%%[!0-9]*}; \
	  if [ "$$major" -lt 1 ] || { [ "$$major" -eq 1 ] && [ "$$minor" -lt 26 ]; }; then \
	    echo "Go $$v is too old: install Go 1.26 or later from https://go.dev/dl/"; exit 1; fi
