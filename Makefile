# Set-up, checks and the built-in models; `make` alone lists the targets.
#
#   PYTHON=python3.12   the interpreter that makes .venv (3.11 or later)
#   FAIRSEQ=no          leave fairseq out (no C++ compiler needed; its tests skip)
#   ARGS="-k gradient"  further arguments for pytest in `make test`; ARGS="-m 'not slow'" leaves
#                       out simulations, browsers and processes
#   JOBS=4              processes that run the tests (as many as cores)
#   BENCH=help          run one benchmark in `make bench`

PYTHON  ?= $(shell command -v python3.11 || command -v python3)
FAIRSEQ ?= yes
ARGS    ?=
JOBS    ?= auto
BENCH   ?= *

VENV  := .venv
BIN   := $(VENV)/bin
PIP   := $(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt
READY := $(VENV)/.ready
WITH_FAIRSEQ := $(VENV)/.ready-fairseq

ifeq ($(FAIRSEQ),yes)
INSTALLED := $(WITH_FAIRSEQ)
else ifeq ($(FAIRSEQ),no)
INSTALLED := $(READY)
else
$(error FAIRSEQ=$(FAIRSEQ): write yes or no)
endif

# Nothing below asks the Hugging Face hub for anything.
export HF_HUB_OFFLINE := 1

.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:
.PHONY: help interpreter setup demo test check lint types format tables trust docs notebooks picture bench builtin clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-9s%s\n", $$1, $$2 }' Makefile

# --- set-up -------------------------------------------------------------------------------------

setup: $(INSTALLED) ## make .venv with the pinned versions and headtool, editable

interpreter:
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	|| { echo "PYTHON='$(PYTHON)' is not a Python 3.11 or later; name one: make PYTHON=python3.12" >&2; exit 1; }
	@if [ -x $(BIN)/python ]; then \
	  version='import sys; print("%d.%d" % sys.version_info[:2])'; \
	  wanted=$$("$(PYTHON)" -c "$$version") && found=$$($(BIN)/python -c "$$version") \
	  && [ "$$wanted" = "$$found" ] \
	  || { echo "$(VENV) has Python $$found, PYTHON=$(PYTHON) is $$wanted; make clean first" >&2; exit 1; }; \
	fi

# A stamp is touched last, so that an interrupted set-up is taken up again by the next make.
$(READY): pyproject.toml constraints.txt | interpreter
	"$(PYTHON)" -m venv $(VENV)
	$(PIP) --upgrade pip setuptools setuptools-scm  # the build of seqeval asks for the latter
	$(PIP) --no-build-isolation -e '.[dev]'
	@touch $@

# Against the torch just installed (an isolated build fetches another one), and without torchaudio.
$(WITH_FAIRSEQ): $(READY)
	$(PIP) --no-build-isolation -e '.[dev,fairseq-deps]'
	$(PIP) --no-build-isolation --no-deps fairseq-fixed \
	|| { echo "fairseq did not build: it needs a C++ compiler and Python's headers. FAIRSEQ=no leaves it out" >&2; exit 1; }
	@touch $@

clean: ## remove .venv and everything that was built
	rm -rf $(VENV) build *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis

# --- use and checks -----------------------------------------------------------------------------

# These models are tiny: with more threads torch mostly waits, for minutes on a busy machine.
demo test notebooks: export OMP_NUM_THREADS ?= 1

demo: $(INSTALLED) ## compare four methods on the built-in model and two data sets
	$(BIN)/headtool compare --method gradient,ablation,gates,confidence --limit 400 \
	  --data builtin:nli/matched --data builtin:nli/mismatched --out demo --force
	@echo 'Open demo/report.html for the report. manifest.json beside it says what made it.'

test: $(INSTALLED) ## run the tests
	$(BIN)/pytest --numprocesses $(JOBS) --dist worksteal $(ARGS)

check: lint types test ## format check, lint, strict types, tests

lint: $(INSTALLED) ## format check and lint
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

# mypy needs to see the rooms under the names they are imported by.
types: $(INSTALLED) ## strict types
	@rm -rf build/view && mkdir -p build/view/headtool
	@for path in toolkit/* analysis cli methods reports; do ln -s "../../../$$path" build/view/headtool/; done
	$(BIN)/mypy build/view/headtool

format: $(INSTALLED) ## write the format and the fixes that ruff can make
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

tables: $(INSTALLED) ## write docs/tables.md, the catalogue of methods and the schema of study files again
	$(BIN)/python -m headtool.schema > docs/tables.md
	$(BIN)/python -m headtool.methods > methods/catalogue.json
	$(BIN)/python -m headtool.studies > toolkit/studies/study.schema.json

# The tutorials run on the built-in models; what they put out is kept in build/docs until something changes.
docs: export NO_MKDOCS_2_WARNING := 1
docs: $(INSTALLED) ## build the documentation: build/site/index.html, strictly, tutorials run
	$(BIN)/mkdocs build --strict --quiet

trust: $(INSTALLED) ## try all methods on the planted models, and write the table of docs/trust.md again
	$(BIN)/headtool validate --out build/trust --force
	$(BIN)/python docs/hooks/trust.py build/trust docs/trust.md

notebooks: $(INSTALLED) ## run the notebooks in examples/ and save them with their outputs
	$(BIN)/python docs/hooks/save_notebooks.py examples/*.ipynb

picture: $(INSTALLED) ## take the picture of the demo's report that README shows
	$(BIN)/python docs/hooks/picture.py demo/report.html docs/pictures/report.png

bench: $(INSTALLED) ## run the benchmarks; each prints a ratio, both sides measured in one run
	@failed=; for script in benchmarks/bench_$(BENCH).py; do \
	  echo "== $$script"; $(BIN)/python "$$script" || failed="$$failed $$script"; \
	done; [ -z "$$failed" ] || { echo "failed:$$failed" >&2; exit 1; }

builtin: $(INSTALLED) ## train the built-in models again, from their seeds
	$(BIN)/python -m headtool.builtin.train_nli --out toolkit/builtin/assets/nli
	$(BIN)/python -m headtool.builtin.train_mt --out toolkit/builtin/assets/mt
