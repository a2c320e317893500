# The developer's interface. Everything runs in .venv, which the first verb makes from requirements.lock.
# Choose an interpreter with PYTHON=/path/to/python3.12; give pytest more with ARGS='-k loki -x'.

SHELL := /bin/sh
BIN := .venv/bin
ARGS ?=
TYPING := tests/typing
PAGES := tests/browser

.DEFAULT_GOAL := help
.PHONY: help env demo test lint format types bench fuzz docs dashboards browser backends lock clean

help: ## what each verb does
	@echo 'Fleetglass. Verbs:'
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1 \2/p' $(MAKEFILE_LIST) | \
		while read -r make verb does; do printf '  make %-10s %s\n' "$$verb" "$$does"; done

env: ## make .venv from requirements.lock (every verb below does it first; costs nothing when done)
	@PYTHON='$(PYTHON)' sh .ci/environment

demo: env ## start the example platform on PostgreSQL and a live page of it, on loopback
	@echo '==> demo: a platform on PostgreSQL, its fleet and a live page; Ctrl-C ends it'
	@exec $(BIN)/python -m examples.demo $(ARGS)

test: env ## run the tests; what needs a missing part is skipped and said (ARGS='-k name')
	@echo '==> test: unit, integration and browser tests'
	@$(BIN)/python -m pytest $(ARGS)

lint: env ## ruff (rules and format) and the import contracts
	@echo '==> lint: ruff check'
	@$(BIN)/ruff check .
	@echo '==> lint: ruff format'
	@$(BIN)/ruff format --check .
	@echo '==> lint: import contracts'
	@$(BIN)/lint-imports --no-cache

format: env ## let ruff rewrite what it can
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

types: env $(TYPING)/node_modules/.package-lock.json $(PAGES)/node_modules/.package-lock.json ## mypy strict on the code, mypy and pyright on the public API, tsc on the browser client
	@echo '==> types: mypy strict on telemetry, ingest, examples, docs and $(TYPING)'
	@$(BIN)/mypy
	@echo '==> types: pyright strict on $(TYPING)'
	@$(TYPING)/node_modules/.bin/pyright --pythonpath $(BIN)/python --project $(TYPING)/pyrightconfig.json
	@echo '==> types: tsc strict on ingest/browser and a console that uses it'
	@$(PAGES)/node_modules/.bin/tsc -p $(PAGES)/tsconfig.json

%/node_modules/.package-lock.json: %/package-lock.json
	@command -v npm >/dev/null || { echo 'This verb needs Node.js with npm: install nodejs and npm.' >&2; exit 1; }
	@echo '==> npm ci in $* (once)'
	@npm ci --prefix $* --no-fund --no-audit --loglevel=error
	@touch $@

browser: env $(PAGES)/node_modules/.package-lock.json ## minify ingest/browser into what the service serves
	@echo '==> browser: ingest/browser/min'
	@$(BIN)/python tests/browser/minify.py

# A queue of the promised size is simulated by `.venv/bin/python -m tests.bench.fleet`, in about fifty minutes.
bench: env ## run the benchmarks side by side; writes docs/benchmarks/ (about five minutes)
	@echo '==> bench: writes tables, JSON and charts to docs/benchmarks/'
	@$(BIN)/python -m tests.bench $(ARGS)

fuzz: env ## hostile browser reports until something breaks (ARGS='-max_total_time=600', or 'bulk 1000000 7')
	@echo '==> fuzz: the core of the errors route under libFuzzer; Ctrl-C ends it'
	@$(BIN)/python -m tests.fuzz $(ARGS)

docs: env ## write docs/reference/ from the code and docs/alloy/ from its modules
	@echo '==> docs: reference pages'
	@$(BIN)/python docs/generate.py

dashboards: env ## write telemetry/grafana/dashboards/ from the records in telemetry/grafana/boards/
	@echo '==> dashboards: classic JSON for Grafana'
	@$(BIN)/python -c 'from telemetry.grafana import boards, classic; print(*classic.write(boards.BOARDS), sep="\n")'

backends: env ## build the test backends (VictoriaMetrics, OpenTelemetry Collector, node_exporter and others) once
	@echo '==> backends: Go programs for the integration tests, kept per user and rebuilt when their pins change'
	@$(BIN)/python tests/backends/build.py $(ARGS)
	@[ -n '$(ARGS)' ] || { echo '==> backends: Python packages that the lock can not hold beside ours'; \
		exec $(BIN)/python -m tests.backends.overlay; }

lock: env ## resolve pyproject.toml again into requirements.lock (ARGS=--upgrade takes newer versions)
	@echo '==> lock: requirements.lock'
	@$(BIN)/uv pip compile --universal --generate-hashes --no-header --no-annotate --no-emit-index-url \
		--python-version 3.11 --all-extras --group dev pyproject.toml -o requirements.lock --quiet $(ARGS)

clean: ## remove .venv, caches and node_modules (the built backends stay)
	@echo '==> clean'
	@rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis dist tests/*/node_modules
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
