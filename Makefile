# Everything runs in .venv, which the first target makes, and again whenever a pin changes.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/installed
CHROMIUM = $(firstword $(shell command -v chromium chromium-browser google-chrome))
BOOK := _build/html/index.html

# The repository's address, for instance https://github.com/you/sgemm-tutorial. Where it is set, here or as make
# book REPOSITORY=…, the book's pages have links to it: open in Colab, edit this page, view source.
export REPOSITORY ?=

# Outputs must not hang on what the reader has set up elsewhere; nor must each process compile anew what it imports.
unexport PYTHONPATH PYTHONSTARTUP PYTHONDONTWRITEBYTECODE
export IPYTHONDIR := $(CURDIR)/.venv/ipython
export JUPYTER_CONFIG_DIR := $(CURDIR)/.venv/jupyter
export MPLCONFIGDIR := $(CURDIR)/.venv/matplotlib
export SGEMM_TUTORIAL_CACHE := $(CURDIR)/.venv/cache

# As many processes as processors: a second thread in each would mostly wait, and wait busily.
test quick mutants: export OPENBLAS_NUM_THREADS := 1

.DEFAULT_GOAL := help
.PHONY: help book pdf test quick mutants compiled audit live test-gpu record clean

help:
	@echo 'make book   build the book and print where it starts'
	@echo 'make pdf    print the whole book, with a Chromium, to _build/book.pdf'
	@echo 'make test   lint, unit tests, and every notebook re-executed and compared with what it shows'
	@echo 'make quick  lint, the tests of a minute, and a check of each kernel that differs from the last commit'
	@echo 'make mutants'
	@echo '            break every kernel in every known way, and see whether each mutant is caught: hours'
	@echo 'make compiled'
	@echo '            record what the compiler makes of kernels that have changed, for each architecture: minutes'
	@echo 'make audit  let axe look at every page of the book, with a Chromium, and record the clean ones'
	@echo 'make live   re-execute the notebooks in place on the GPU of this machine'
	@echo 'make test-gpu, make record'
	@echo '            test the kernels on the GPU of this machine; record what book/results lacks of it'
	@echo 'make clean  remove what the others made'
	@echo
	@echo 'Each makes its own virtual environment first, in .venv, with $(PYTHON) (PYTHON=python3.12 picks another:'
	@echo '3.11 to 3.13). No CUDA toolkit and no compiler is needed, and no GPU but for the three that say so.'

book: $(STAMP)
	$(BIN)/jupyter-book build book --config _config.yml --all -W -n --keep-going --quiet
	@echo
	@echo 'The book starts at $(CURDIR)/$(BOOK)'

pdf: $(STAMP)
	@test -n '$(CHROMIUM)' || { echo 'make pdf prints with a browser: install chromium' >&2; exit 1; }
	$(BIN)/jupyter-book build book --config _config.yml --all -W -n --keep-going --quiet --builder singlehtml
	$(CHROMIUM) --headless --no-sandbox --disable-gpu --no-pdf-header-footer --generate-pdf-document-outline \
		--virtual-time-budget=100000 --print-to-pdf=_build/book.pdf 'file://$(CURDIR)/_build/singlehtml/intro.html'

test: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/pytest tests --ignore tests/gpu book/*.ipynb book/deeper/*.ipynb --nbval --nbval-current-env --nbval-cell-timeout=300 \
		-n 2 --dist loadfile --no-loadscope-reorder -ra -q

quick: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/pytest tests --quick --ignore tests/gpu -n 2 --dist loadfile -x -q
	@for file in $$(git diff --name-only HEAD -- 'kernels/[0-9]*.cu'); do \
		$(BIN)/python -m lab check $$(basename $$file .cu) --simulate || exit 1; done

mutants: $(STAMP)
	$(BIN)/python -m tools.mutants $(ARGS)

compiled: $(STAMP)
	$(BIN)/python -m tools.compiled

audit: $(STAMP)
	@test -n '$(CHROMIUM)' || { echo 'make audit looks at the book with a browser: install chromium' >&2; exit 1; }
	$(BIN)/python -m tools.audit

live: $(STAMP)
	$(BIN)/python -m tools.live $(ARGS)

test-gpu: $(STAMP)
	$(BIN)/pytest tests/gpu -ra -q

record: $(STAMP)
	$(BIN)/python -m lab.measure $(ARGS)
	$(BIN)/python -m tools.readme

clean:
	rm -rf .venv _build

# Of 5,651 modules most are never imported, and the others are compiled when they are: a fourth of the time.
$(STAMP): requirements.txt requirements-gpu.txt constraints.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null || \
		{ echo "Python 3.11 to 3.13 is needed, and $(PYTHON) is not one: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || \
		{ echo "$(PYTHON) has no venv or no pip to put in one (Debian, Ubuntu: apt install python3-venv)" >&2; exit 1; }
	$(PYTHON) -m venv --clear .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt -r requirements.txt \
		$$(command -v nvidia-smi >/dev/null && echo -r requirements-gpu.txt)
	@touch $@
