# Everything runs in .venv, which the first target that needs it makes.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

# Tests start many bridges: each reuses the bytecode of the one before.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup chromium tmux xvfb demo packages quick quick-pure quick-bridge test isolation coverage check mypy basedpyright format bench hosts agents conformance soak fuzz \
	servers webmcp fixtures docs limits size clean

help:
	@echo 'make demo               the built-in app behind a real bridge, here in this terminal'
	@echo 'make demo ARGS=--browser  the same app as a page in Chromium'
	@echo 'make packages           wheel, source archive, MCPB bundle and entries of registries, into dist; SERVER_NAME, REPOSITORY, PACKAGE, AUTHOR say whose'
	@echo 'make quick              the tests that need no process, browser, terminal or network, in a minute'
	@echo 'make quick ARGS="-k select"  some of them: ARGS are pytest'"'"'s'
	@echo 'make test               all tests, with a real Chromium and a real terminal'
	@echo 'make isolation          make test with misleading programs, locale, time zone and folders'
	@echo 'make coverage           the lines of each file that make quick runs'
	@echo 'make check              lint, format, types, import layers, dependencies, unused code, and the docs'
	@echo 'make bench              start-up, memory and latency as ratios against baselines'
	@echo 'make hosts              the bridge under real hosts (Codex, Goose, Claude Code, Copilot, opencode, Gemini, Qwen Code, acpx), installed from npm'
	@echo 'make hosts ARGS=behaviours  the same behaviours in each host, for the tables of docs/hosts.md; ARGS="behaviours -k codex" for some'
	@echo 'make hosts ARGS=--busy  who answered under Copilot, codex exec, claude -p, acpx and fast-agent, on a machine kept busy'
	@echo 'make hosts ARGS=--record  the same hosts in short conversations, recorded into fixtures/hosts/recorded'
	@echo 'make agents             real agents as models (Claude Code and Codex by their command lines; Claude Code, Codex, Goose, opencode and Qwen Code over ACP)'
	@echo 'make servers            real MCP servers (MongoDB, Supabase, everything, Azure, FastMCP, Okta'"'"'s helper) behind abp-bridge mcp'
	@echo 'make webmcp DEMOS=DIR   the WebMCP demos and extensions of a folder behind the bridge, each call in a table; ARGS=peers sets it beside chrome-devtools-mcp and playwright-mcp'
	@echo 'make docs               the pictures of docs/page.md and docs/inbox.md, from a real Chromium, docs/capabilities.md, from the matrix, and the printed tables of other pages'
	@echo 'make limits             every limit of the product, with its unit and its reason'
	@echo 'make size               files and lines of each room, and counts of what should stay few'
	@echo 'make fixtures           the recorded conversations in fixtures/, made again; make fixtures ARGS=acp-form for some'
	@echo 'make conformance        the official MCP conformance suite, from npm, against the bridge on its pipes'
	@echo 'make soak               32,000 whole sessions on a virtual clock, with faults by seed; ARGS="--seeds 500" for some'
	@echo 'make fuzz               the wire, each codec and what a proxy passes on, fed what coverage finds, for a minute each; ARGS=600 for ten'

setup: $(STAMP)

# What is imported compiles itself; all of it takes longer than the rest.
$(STAMP): pyproject.toml abp_bridge/__init__.py
	test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check --editable '.[browser,models]' --group dev
	touch $@

# A Chromium or Chrome that is there already is used; else Debian's is installed.
chromium:
	@$(BIN)/python -m abp_bridge.apps.browser.chromium >/dev/null 2>&1 || { \
	  test -x /usr/bin/apt-get || { echo 'No Chromium or Chrome found: install one, or name it in ABP_CHROME.' >&2; exit 1; }; \
	  sudo=$$(test "$$(id -u)" = 0 || echo sudo); \
	  $$sudo apt-get update -qq && $$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium; }

# Tests drive the terminal in it.
tmux:
	@command -v tmux >/dev/null || { \
	  test -x /usr/bin/apt-get || { echo 'No tmux found: install it.' >&2; exit 1; }; \
	  sudo=$$(test "$$(id -u)" = 0 || echo sudo); \
	  $$sudo apt-get update -qq && $$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends tmux; }

# Tests show a window on its display, which nobody sees.
xvfb:
	@command -v Xvfb >/dev/null || { \
	  test -x /usr/bin/apt-get || { echo 'No Xvfb found: install it.' >&2; exit 1; }; \
	  sudo=$$(test "$$(id -u)" = 0 || echo sudo); \
	  $$sudo apt-get update -qq && $$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends xvfb; }

# The product alone, where developers' tools are not there already; by uv where that is there, which
# is several times as fast. A venv without a pip of its own takes no time.
DEMO_EXTRA := $(if $(findstring --browser,$(ARGS)),[browser])
DEMO_STAMP := $(if $(wildcard $(STAMP)),$(STAMP),$(VENV)/.demo$(DEMO_EXTRA))

$(VENV)/.demo$(DEMO_EXTRA): pyproject.toml abp_bridge/__init__.py
	@echo 'abp-bridge is installed into $(VENV), once'
	@set -e; \
	if command -v uv >/dev/null; then \
	  test -x $(BIN)/python || $(PYTHON) -m venv --without-pip $(VENV); \
	  uv pip install --quiet --python $(BIN)/python --editable '.$(DEMO_EXTRA)'; \
	elif $(PYTHON) -m pip --version >/dev/null 2>&1; then \
	  test -x $(BIN)/python || $(PYTHON) -m venv --without-pip $(VENV); \
	  $(PYTHON) -m pip --python $(BIN)/python install --quiet --no-compile --disable-pip-version-check \
	    --editable '.$(DEMO_EXTRA)'; \
	else \
	  test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV); \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.$(DEMO_EXTRA)'; \
	fi
	@touch '$@'

demo: $(DEMO_STAMP) $(if $(findstring --browser,$(ARGS)),chromium)
	@$(BIN)/abp-bridge demo $(ARGS)

# Tests without a marker are quick, and need no process, browser, terminal or network (pyproject.toml).
MARKED := process or browser or terminal or network or slow
# These cover every branch of what never waits.
PURE := tests/core tests/protocols tests/jsonrpc tests/setup/formats \
  tests/models/test_streams.py tests/models/test_request.py tests/models/test_acp_turn.py tests/models/test_cli_turn.py

# Two runs at once, each in one process: with so many short tests, workers would cost more than they save.
quick: setup
ifdef ARGS
	$(BIN)/pytest -m 'not ($(MARKED))' $(ARGS)
else
	@echo 'Two test runs at once, half a minute each; their output follows.'
	@MAKEFLAGS= $(MAKE) --no-print-directory --jobs=2 --output-sync=target quick-pure quick-bridge
endif

quick-pure:
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest -m 'not ($(MARKED))' $(PURE)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report --fail-under=100 --skip-covered

quick-bridge:
	$(BIN)/pytest -m 'not ($(MARKED))' $(PURE:%=--ignore=%)

# The second half often waits for programs: it runs more tests at once than there are processors.
test: setup chromium tmux xvfb
ifdef ARGS
	$(BIN)/pytest $(ARGS)
else
	@$(MAKE) --no-print-directory quick
	$(BIN)/pytest --numprocesses=$$($(BIN)/python -c "import os; print(os.cpu_count() * 3)") \
	  --dist=worksteal -m '$(MARKED)'
endif

# Proves that tests/conftest.py isolates tests from agents on PATH, the locale, the time zone, the display
# and a repository in /tmp.
DUMMIES := $(CURDIR)/$(VENV)/dummies
isolation: setup
	@mkdir -p $(DUMMIES) && for name in claude codex goose gemini opencode; do \
	  printf '#!/bin/sh\nexit 9\n' >$(DUMMIES)/$$name && chmod +x $(DUMMIES)/$$name; done
	@mkdir -p /tmp/.git && trap 'rmdir /tmp/.git' EXIT && \
	env -u DISPLAY PATH="$(DUMMIES):$$PATH" LANG=C TZ=Pacific/Chatham $(MAKE) --no-print-directory test

coverage: setup
	$(BIN)/coverage erase
	$(BIN)/coverage run --rcfile=/dev/null --branch --parallel-mode --source=abp_bridge -m pytest -m 'not ($(MARKED))'
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@! LC_ALL=C.UTF-8 grep -rnE '^.{101}' --include='*.py' --include='*.js' --include='*.css' \
	  abp_bridge tests bench docs || { \
	  echo 'longer than 100 columns' >&2; exit 1; }
	@MAKEFLAGS= $(MAKE) --no-print-directory --jobs=2 mypy basedpyright
	$(BIN)/lint-imports --no-logo
	$(BIN)/deptry abp_bridge
	$(BIN)/vulture
	@$(BIN)/python -m tests.docs.printed --check

# A processor each: both say what they found at their end.
mypy basedpyright: setup
	$(BIN)/$@

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix --exit-zero .
	$(BIN)/ruff format .
	$(BIN)/ruff check .

bench: setup
	$(BIN)/python -m bench.peers
	$(BIN)/python -m bench $(ARGS)

hosts: setup $(if $(findstring --record,$(ARGS)),tmux)
	$(BIN)/python -m tests.real_hosts $(ARGS)

agents: setup
	$(BIN)/python -m tests.real_hosts cli_agents acp_models $(ARGS)

servers: setup
	$(BIN)/pytest tests/real_servers $(ARGS)

# Windows are shown on a display that nobody sees.
webmcp: setup chromium xvfb
	$(BIN)/python -m tests.real_pages $(DEMOS:%=--demos %) $(ARGS)

conformance: setup
	$(BIN)/pytest tests/conformance $(ARGS)

soak: setup
	PYTHONPATH=tests $(BIN)/python -m simulation $(ARGS)

fuzz: setup
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --group fuzz
	PYTHONPATH=tests $(BIN)/python -m fuzz $(ARGS)

docs: setup chromium
	$(BIN)/python docs/screenshots.py docs
	$(BIN)/python -m tests.docs.printed

size: setup
	@$(BIN)/python -m tests.docs.size $(ARGS)

limits: setup
	@$(BIN)/python -m tests.docs.limits

# What it is called where it is published: nothing here claims a name or an address by itself.
packages: setup
	rm -rf dist
	@PYTHONPATH=tests $(BIN)/python -m publishing.build dist $(if $(PACKAGE),--package '$(PACKAGE)') \
	  $(if $(SERVER_NAME),--server '$(SERVER_NAME)') $(if $(REPOSITORY),--repository '$(REPOSITORY)') \
	  $(if $(AUTHOR),--author '$(AUTHOR)')

fixtures: setup
	$(BIN)/python -m tests.fixture_maker $(ARGS)

clean:
	rm -rf $(VENV) .coverage .hypothesis .mypy_cache .pytest_cache .ruff_cache build dist *.egg-info
