# Everything runs in .venv, which the first target makes, and again whenever a pin changes.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/installed
CHROMIUM = $(firstword $(shell command -v chromium chromium-browser google-chrome))
BOOK := _build/html/index.html

# CUDA 12 is for GPUs before Turing and drivers before R580, CUDA 13 for all others. Unless you say which (make CUDA=12),
# it is the one that .venv has, or else the one for the GPU and driver that nvidia-smi names.
HAS := $(shell cat .venv/cuda 2>/dev/null)
CUDA ?= $(or $(HAS),$(shell nvidia-smi --query-gpu=driver_version,compute_cap --format=csv,noheader 2>/dev/null | \
	awk -F ', ' '/not a valid field/ || (/^[0-9]/ && ($$1 + 0 < 580 || $$2 + 0 < 7.5)) { old = 1 } END { print old ? 12 : 13 }'))
$(if $(filter 12 13,$(CUDA)),,$(error CUDA: got $(CUDA), needs 12 or 13))

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
.PHONY: help book lab pdf test quick mutants compiled audit live test-gpu test-fresh record clean another-cuda

help:
	@echo 'make book   build the book and print where it starts'
	@echo 'make lab    open the book in JupyterLab, which it installs'
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
	@echo 'make test-fresh'
	@echo '            install the package with CUDA 12 as Colab would, and run what README.md promises of it: minutes'
	@echo 'make clean  remove what the others made'
	@echo
	@echo 'Each makes its own virtual environment first, in .venv, with $(PYTHON) (PYTHON=python3.12 picks another:'
	@echo '3.11 to 3.14). No CUDA toolkit and no compiler is needed, and no GPU but for the three that say so. The'
	@echo 'environment is for CUDA $(CUDA); CUDA=12 makes one for GPUs before Turing or drivers before R580.'

book: $(STAMP)
	$(BIN)/jupyter-book build book --config _config.yml --all -W -n --keep-going --quiet
	@echo
	@echo 'The book starts at $(CURDIR)/$(BOOK)'

lab: $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -r requirements/lab.txt
	$(BIN)/jupyter lab $(or $(ARGS),book/how_to_read.ipynb)

pdf: $(STAMP)
	@test -n '$(CHROMIUM)' || { echo 'make pdf prints with a browser: install chromium' >&2; exit 1; }
	$(BIN)/jupyter-book build book --config _config.yml --all -W -n --keep-going --quiet --builder singlehtml
	$(CHROMIUM) --headless --no-sandbox --disable-gpu --no-pdf-header-footer --generate-pdf-document-outline \
		--virtual-time-budget=100000 --print-to-pdf=_build/book.pdf 'file://$(CURDIR)/_build/singlehtml/intro.html'

# In this order: notebooks are many and short, so that coming last they leave no process with a long file.
test: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/pytest tests --ignore tests/gpu --ignore tests/fresh book/*.ipynb book/deeper/*.ipynb --nbval --nbval-current-env --nbval-cell-timeout=300 \
		-n 2 --dist loadfile --no-loadscope-reorder -ra -q

quick: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/pytest tests -m "not slow" --ignore tests/gpu --ignore tests/fresh -n 2 --dist loadfile -x -q
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

test-fresh: $(STAMP)
	$(BIN)/pytest tests/fresh -ra -q

record: $(STAMP)
	$(BIN)/python -m lab.experiments $(ARGS)
	$(BIN)/python -m tools.readme

clean:
	rm -rf .venv _build

# Of 5,651 modules most are never imported, and the others are compiled when they are: a fourth of the time.
$(STAMP): requirements.txt $(CUDA:%=requirements/cuda%.txt) $(CUDA:%=requirements/gpu%.txt) constraints.txt pyproject.toml
$(STAMP): $(if $(filter $(CUDA),$(HAS)),,another-cuda)
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))' 2>/dev/null || \
		{ echo "Python 3.11 to 3.14 is needed, and $(PYTHON) is not one: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || \
		{ echo "$(PYTHON) has no venv or no pip to put in one (Debian, Ubuntu: apt install python3-venv)" >&2; exit 1; }
	$(PYTHON) -m venv --clear .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt -r requirements.txt \
		-r requirements/cuda$(CUDA).txt $$(command -v nvidia-smi >/dev/null && echo -r requirements/gpu$(CUDA).txt)
	@echo $(CUDA) >.venv/cuda
	@touch $@
