# Every target sets itself up; `make demo` and `make test` are all that a newcomer needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
TOOLS := $(VENV)/tools
WORKERS ?= 3

.PHONY: setup services demo test check chaos bench clean

setup: $(INSTALLED) $(TOOLS)/kubectl

$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "error: $(PYTHON) is older than 3.11; run make PYTHON=/path/to/python3.11"; exit 1; }
	@command -v git >/dev/null || { echo "error: git is not on PATH; install it first"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@

# kubectl and helm, for the tests of rendering; without them those tests are skipped, on CI they fail.
$(TOOLS)/kubectl: $(INSTALLED) tests/tools.py
	@$(BIN)/python -m tests.tools $(TOOLS) || echo "note: kubectl and helm could not be put into $(TOOLS); the tests that need them are skipped" >&2

# The servers that the tests start: installed where that may be done, named where not. On CI a missing one fails its tests.
SERVERS := postgresql docker-registry openssh-server libnss-wrapper tinyproxy gnupg squid-openssl haproxy dnsmasq-base iproute2 prometheus victoria-metrics
PROGRAMS := docker-registry tinyproxy gpg ssh-keygen squid haproxy dnsmasq ip prometheus victoria-metrics
services:
	@missing=; PATH="$$PATH:/usr/sbin"; for each in $(PROGRAMS); do command -v $$each >/dev/null || missing=1; done; \
	test -x /usr/sbin/sshd || missing=1; \
	ls /usr/lib/*/libnss_wrapper.so >/dev/null 2>&1 || missing=1; \
	ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null || missing=1; \
	test -z "$$missing" || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $(SERVERS) >/dev/null; \
	  else echo "note: install $(SERVERS) to run the tests that need them; they are skipped without" >&2; fi; }

demo: setup
	$(BIN)/delegate demo --once

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# In the order of the files: by their number of tests, the long ones with few would come last, and alone.
test: check services
	$(BIN)/pytest --numprocesses=$(WORKERS) --dist=loadfile --no-loadscope-reorder

# For as long as one likes, by a seed of one's own: make chaos SECONDS=3600 SEED=7
chaos: setup services
	$(BIN)/python -m tests.chaos --seconds $(or $(SECONDS),600) $(if $(SEED),--seed $(SEED))

bench: setup
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage
