# Every verb sets up what it needs by itself: `make demo` and `make test` work on a fresh clone.

PYTHON ?= python3
BIN := .venv/bin
# Kafka's tools and Spark find their Java through java.env (empty where the machine has one), and
# Spark's workers find their Python, which is the `python3` on the PATH, in .venv.
IN_VENV := PATH="$$PWD/$(BIN):$$PATH"
RUN := . .venv/java.env; $(IN_VENV)

# Tests start hundreds of Pythons: each would compile our sources again if none kept the byte code.
unexport PYTHONDONTWRITEBYTECODE

# Most tests wait for a process, so that more of them than there are cores run side by side.
JOBS ?= 4
SIDE_BY_SIDE := --dist=loadgroup --no-loadscope-reorder

# Files that need PySpark or Go, and have tests without the mark `kafka` or `spark`.
NOT_IN_LIGHT := tests/spark tests/arrow/test_hashes.py tests/arrow/test_rows.py \
	tests/client/test_other_kinds.py tests/documents/test_types.py tests/examples/test_flights.py \
	tests/examples/test_spark_examples.py tests/foreign/test_franz_go.py \
	tests/foreign/test_kafka_transactions.py tests/test_benchmark_end.py \
	tests/test_benchmark_report.py tests/test_extras.py

.DEFAULT_GOAL := help
.PHONY: help setup setup-light demo demo-cluster test test-fast test-light test-older-kafka
.PHONY: test-older-spark soak soak-cluster soak-spark fuzz simulate lint bench docs site release
.PHONY: clean lock

help:  ## Show this list
	@sed -n 's/^\([a-z-]*\):.*## /\1	/p' $(MAKEFILE_LIST) | expand -t 13

setup:  ## Make .venv from the lock files (done by every other verb, quick when nothing changed)
	@$(PYTHON) scripts/setup_environment.py

setup-light:  ## The same without Spark, Kafka, Java, Go and a C compiler, for `make test-light`
	@$(PYTHON) scripts/setup_environment.py --light

demo: setup  ## Flights through a broker, a share group and Spark, checked at the end
	@$(RUN) $(BIN)/python examples/flights.py

demo-cluster: setup  ## A part of them with three brokers in front of three of Apache Kafka
	@$(RUN) $(BIN)/python examples/flights.py --cluster --quick

test: setup  ## All tests, the fast ones first (ARGS="-k name" for some of them, JOBS=1 one by one)
	@$(RUN) $(BIN)/python -m pytest -n $(JOBS) $(SIDE_BY_SIDE) $(ARGS)

test-fast: setup  ## The tests that need no process, Kafka or Spark
	@$(RUN) $(BIN)/python -m pytest -n $(JOBS) $(SIDE_BY_SIDE) \
		-m "not process and not kafka and not spark" $(ARGS)

test-light: setup-light  ## All tests that need no Spark, Kafka, Java or Go
	@$(IN_VENV) $(BIN)/python -m pytest -n $(JOBS) $(SIDE_BY_SIDE) \
		-m "not kafka and not spark" $(addprefix --ignore=,$(NOT_IN_LIGHT)) \
		--deselect="tests/documents/test_pages.py::test_a_page[docs/security.md]" $(ARGS)

test-older-kafka: setup  ## In front of earlier versions of Apache Kafka (VERSIONS="3.3.2")
	@export SHAREGROUP_CLUSTERS="$(or $(VERSIONS),2.8.2 3.3.2 3.9.2 4.1.1)"; \
		$(RUN) $(BIN)/python -m pytest -n $(JOBS) $(SIDE_BY_SIDE) tests/upstream $(ARGS)

test-older-spark: setup  ## Every option of the Spark source on PySpark 4.2, and what 4.1 is told
	@$(RUN) SHAREGROUP_SPARK=4.2 $(BIN)/python -m pytest -n $(JOBS) $(SIDE_BY_SIDE) \
		tests/spark/every_option tests/spark/test_starting.py -k "case or given or older" $(ARGS)

soak: setup  ## A broker for an hour among clients that come, go and die (ARGS="--minutes 5")
	@$(RUN) $(BIN)/python scripts/soak.py $(ARGS)

soak-cluster: setup  ## Brokers in front of a Kafka cluster die, stand still and restart under load
	@$(RUN) $(BIN)/python scripts/soak_cluster.py $(ARGS)

soak-spark: setup  ## The crash test of the Spark source over 200 seeds (ARGS="--seeds 9 --kafka")
	@$(RUN) $(BIN)/python scripts/soak_spark.py $(ARGS)

fuzz: setup  ## Bytes that break what reads bytes of others, for an hour (ARGS="--seconds 20")
	@$(RUN) $(BIN)/python scripts/fuzz.py $(ARGS)

simulate: setup  ## Seeds of the whole broker under faults (ARGS="--seeds 0..100000")
	@$(RUN) $(BIN)/python -m sharegroup simulate $(or $(ARGS),--seeds 0..1000)

lint: setup  ## Format, ruff, types, import contracts, house rules
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python scripts/write_sync_admin.py --check
	$(BIN)/python -m pytest -q tests/test_tidy.py

bench: setup  ## One table, ours and Apache Kafka side by side (ARGS="--quick")
	@$(RUN) $(BIN)/python -m benchmarks $(ARGS)

docs: setup  ## Write the generated pages of docs/ anew, then the site
	@set -e; for page in scripts/docs_*.py; do $(BIN)/python $$page; done
	@$(MAKE) --no-print-directory site

site: setup  ## The pages as a site in build/site, its links checked (needs no network)
	@$(BIN)/python scripts/site.py

release: setup  ## Build the files of a release and try them, up to the upload (ARGS="--rehearse")
	@$(IN_VENV) $(BIN)/python -m scripts.release $(ARGS)

clean:  ## Remove everything that the other verbs made
	rm -rf .venv .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	rm -rf .cache build dist demo-output sharegroup-data spark-warehouse
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

lock:  ## Resolve the dependencies anew into the lock files (needs uv)
	@scripts/lock.sh
