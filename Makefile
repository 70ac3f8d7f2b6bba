# The front desk: each of these is a line of meson or a tool.
BUILD ?= build
VENV  ?= .venv
export PATH := $(PATH):/usr/sbin:/sbin

.PHONY: all up down test lint fuzz bench fmt install shape clean setup venv

all: setup
	ninja -C $(BUILD)

setup:
	@tools/install-deps build
	@[ -f $(BUILD)/build.ninja ] || meson setup $(BUILD) --werror

up:
	@tools/up

down:
	@tools/down

test:
	@tools/test

lint:
	@tools/install-deps lint
	@[ -f $(BUILD)/build.ninja ] || meson setup $(BUILD) --werror
	@ninja -C $(BUILD)
	@tools/lint $(BUILD)

# Runs each fuzz target for SECONDS (default 30), from its kept corpus.
fuzz:
	@tools/install-deps lint
	@tools/fuzz $(or $(SECONDS),30)

bench:
	@tools/install-deps build
	@[ -f $(BUILD)/build.ninja ] || meson setup $(BUILD) --werror
	@ninja -C $(BUILD)
	@bench/run.py --build $(BUILD)

fmt:
	clang-format -i $$(git ls-files '*.c' '*.h')

install: all
	meson install -C $(BUILD)

shape:
	@tools/shape

clean:
	rm -rf $(BUILD) $(BUILD)-clang $(BUILD)-asan $(BUILD)-fuzz $(VENV)
