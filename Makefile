# A thin front: CMakePresets.json and scripts/ do the work.
.DEFAULT_GOAL := help
.PHONY: demo forward check check-all soak mutants bench bench-quick bench-full bench-build install uninstall lint clean help library

PREFIX ?= /usr/local
BUILD := build/release
# `sudo make install` in a user's checkout builds as that user, so that no file of root's is left in it.
OWNER := $(shell stat -c %U $(BUILD) . 2>/dev/null | head -n 1)
AS_USER := $(if $(filter-out root,$(SUDO_USER)),$(if $(filter $(SUDO_USER),$(OWNER)),sudo -H -u $(SUDO_USER) --))

demo: library ## build and show what the library does
	examples/demo.sh $(BUILD)

forward: library ## forward packets between network namespaces, and what they cost
	scripts/install-deps forward
	examples/forward/run $(BUILD)

check: ## build and test: short searches, each thing where it proves most (PRESETS="release dev" for some)
	scripts/install-deps check
	scripts/check

check-all: ## build and test everything at full length in every preset
	scripts/install-deps check-all
	UKMEM_CHECK=full scripts/check

soak: ## ten minutes of each kind of soak, a line each in build/soak.log (MINUTES=10)
	scripts/install-deps check
	tests/soak/run --minutes $(or $(MINUTES),10)

mutants: ## break the library on purpose, and require a test to notice each time
	scripts/install-deps check
	tests/mutants/run --all

bench: bench-build ## measure against other allocators: build/report/index.html and summary.md
	bench/figures/run

bench-quick: bench-build ## a first look: 3 minutes, after the build and the packages
	bench/figures/run --plan quick

bench-full: bench-build ## the same with all peers and enough rounds: hours; goes on where it was interrupted
	scripts/install-deps bench-peers bench-programs
	bench/peers
	bench/figures/run --plan full

bench-build: # release build and the peers of packages
	scripts/install-deps bench
	cmake --preset release -DUKMEM_BUILD_TESTS=OFF
	cmake --build --preset release
	bench/peers --installed

TELL_LOADER = @if [ -z "$(DESTDIR)" ] && [ "$$(id -u)" = 0 ]; then ldconfig; fi

install: library ## install the release build (PREFIX=/usr/local DESTDIR=)
	umask 022 && cmake --install $(BUILD) --prefix "$(PREFIX)"
	@cp $(BUILD)/install_manifest.txt $(BUILD)/installed.txt
	@$(if $(AS_USER),chown $(SUDO_USER) $(BUILD)/install_manifest.txt $(BUILD)/installed.txt)
	$(TELL_LOADER)

uninstall: ## remove what the last `make install` has installed (DESTDIR=)
	@scripts/uninstall $(BUILD)/installed.txt "$(DESTDIR)"
	$(TELL_LOADER)

library: # the release build without tests and benchmarks
	scripts/install-deps demo
	$(AS_USER) cmake --preset release -DUKMEM_BUILD_TESTS=OFF -DUKMEM_BUILD_BENCH=OFF
	$(AS_USER) cmake --build --preset release

lint: ## formatting, clang-tidy, shellcheck
	scripts/install-deps lint
	scripts/lint

clean: ## remove all builds
	rm -rf build

help: ## this text
	@sed -n 's/^\([a-z-]*\): .*## \(.*\)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20
