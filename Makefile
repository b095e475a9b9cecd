# The two commands of the README are `make demo` and `make test`; each does its own set-up. `make help` lists the rest.

SHELL := /bin/bash
CARGO ?= cargo
TARGET := $(or $(CARGO_TARGET_DIR),target)
# The first is what scenarios use unless they say otherwise; the other is the oldest that topics are handed over to.
KAFKA_VERSIONS := 4.4.0 4.0.2
# Columns of the fidelity matrix (docs/fidelity.md), besides.
MATRIX_VERSIONS := 4.1.2 4.2.1 4.3.1
# Of its Python binding, which carries it.
LIBRDKAFKA_VERSION := 2.16.1

# make demo BYTES=4GiB PARTITIONS=16 SOURCE=host:9092 is short for ARGS="--bytes 4GiB --partitions 16 --source host:9092".
DEMO := $(if $(BYTES),--bytes $(BYTES)) $(if $(PARTITIONS),--partitions $(PARTITIONS)) $(if $(SOURCE),--source $(SOURCE)) $(ARGS)

.PHONY: help build demo test check unit loom scenarios librdkafka matrix promote-figures setup-build setup-test install clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 20

build: setup-build ## release binaries of everything, in target/release
	$(CARGO) build --release --workspace --locked

demo: build ## mirror an embedded source through both planes and compare the bytes; BYTES=, PARTITIONS=, SOURCE= or ARGS="..."
	@$(TARGET)/release/twinlog demo $(DEMO)

test: setup-test ## everything: format, lints, house rules, unit tests, loom, scenarios with stock brokers
	tests/setup/run all

check: setup-build ## format and lints only
	tests/setup/run check

unit: setup-build ## unit tests and house rules only
	tests/setup/run unit

loom: setup-build ## the shared-memory channel under the loom model checker
	tests/setup/run loom

scenarios: setup-test ## scenarios with stock brokers only; ONLY=name runs those whose name holds it
	tests/setup/run scenarios $(ONLY)

librdkafka: setup-test build ## librdkafka (confluent-kafka from PyPI) against a node; not part of `make test`
	@tests/setup/librdkafka $(LIBRDKAFKA_VERSION)
	TWINLOG_LIBRDKAFKA=$${TWINLOG_CLIENTS_HOME:-$$HOME/.cache/twinlog-clients}/$(LIBRDKAFKA_VERSION) \
	  $(CARGO) test -p twinlog-tests --locked --test it -- --ignored librdkafka

matrix: setup-test $(if $(TWINLOG_BIN_DIR),,build) ## what stock brokers of every release serve after a hand-over; writes docs/fidelity.md; ONLY="4.4.0 standby"
	@for version in $(MATRIX_VERSIONS); do tests/setup/kafka $$version || exit 1; done
	@tests/setup/librdkafka $(LIBRDKAFKA_VERSION) || echo "matrix: without librdkafka" >&2
	TWINLOG_MATRIX="$(ONLY)" TWINLOG_LIBRDKAFKA=$${TWINLOG_CLIENTS_HOME:-$$HOME/.cache/twinlog-clients}/$(LIBRDKAFKA_VERSION) \
	  $(CARGO) test -p twinlog-tests --locked --test it -- --ignored --nocapture matrix::

promote-figures: setup-test build ## what handing over 1,000 partitions takes, to a node and to a running broker; not part of `make test`
	$(CARGO) test -p twinlog-tests --locked --test it -- --ignored --nocapture at_scale::

circle: setup-test build ## the way to another host and back, by nodes of each layout; not part of `make test`
	$(CARGO) test -p twinlog-tests --locked --test it -- --ignored circle::

setup-build:
	@tests/setup/tools build

setup-test:
	@tests/setup/tools test
	@for version in $(KAFKA_VERSIONS); do tests/setup/kafka $$version || exit 1; done

install: build ## copy the binaries into $(DESTDIR)/usr/local/bin
	install -d $(DESTDIR)/usr/local/bin
	install -m 755 $(addprefix $(TARGET)/release/,twinlog twinlog-dataplane twinlog-controlplane twinlog-bench twinlog-tune) $(DESTDIR)/usr/local/bin

clean: ## remove what was built and what tests left behind
	$(CARGO) clean
