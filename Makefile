# Two commands matter: `make demo` and `make test`. Each sets up what it needs.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check
# One worker a core with one thread each; which tests stay together is told in tests/conftest.py.
SPREAD := -n auto --maxprocesses 8 --dist loadgroup --no-loadscope-reorder
export PYTHONUNBUFFERED = 1

.PHONY: help setup demo test test-slow test-peers test-lowest test-newest check bench clean

help:
	@echo "make demo       set up, then train, evaluate, diagnose and report on embedded data"
	@echo "make test       set up, then check (style, types, layers) and run the tests"
	@echo "make test-slow  the tests that take minutes or need real data"
	@echo "make test-lowest, make test-newest   the tests with the lowest and the newest versions (several GB each)"
	@echo "make test-peers encoders beside timm, torchvision, transformers, open_clip (own environment, several GB)"
	@echo "make check      ruff, mypy --strict, settings page, import layers"
	@echo "make bench      every benchmark, side by side with peers (own environment, several GB; DATA=folder adds the race)"

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Eigenview needs Python 3.11 or newer; call make PYTHON=python3.11")'
	@echo "[setup] virtual environment in $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@echo "[setup] installing Eigenview and what it needs (about a minute the first time)"
	@$(INSTALL) -c constraints.txt hatchling editables  # what builds it, pinned too
	@$(INSTALL) -c constraints.txt --no-build-isolation -e ".[dev]"
	@touch $(READY)
	@echo "[setup] done"

demo: $(READY)
	@$(BIN)/python examples/demo.py

check: $(READY)
	@echo "[check] ruff";            $(BIN)/ruff check .
	@echo "[check] format";          $(BIN)/ruff format --check .
	@echo "[check] mypy --strict";   $(BIN)/mypy
	@echo "[check] settings page";   $(BIN)/python docs/make_settings.py --check
	@echo "[check] import layers";   $(BIN)/pytest tests/test_layers.py

test: check
	@echo "[test] the whole suite, without the slow tests"
	@OMP_NUM_THREADS=1 $(BIN)/pytest $(SPREAD) --durations=10

test-slow: $(READY)
	@OMP_NUM_THREADS=1 $(BIN)/pytest -m slow $(SPREAD) --durations=10

# The lowest versions that pyproject.toml allows, and the newest: an environment of several GB each. The registry's
# torch comes with CUDA, so that neither depends on a wheel that is at hand.
TOOLS := pytest pytest-xdist hypothesis torchmetrics uv

test-lowest: RESOLUTION := lowest-direct
test-newest: RESOLUTION := highest
test-lowest test-newest: test-%:
	@echo "[test] the $* versions, in .venv-$*: several GB"
	@$(PYTHON) -m venv --clear .venv-$*
	@grep -E "^($$(echo $(TOOLS) | tr ' ' '|'))==" constraints.txt > .venv-$*/tools.txt
	@.venv-$*/bin/pip install --quiet --disable-pip-version-check -c constraints.txt uv
	@.venv-$*/bin/uv pip install --quiet --native-tls --python .venv-$*/bin/python --resolution $(RESOLUTION) \
	  -e ".[all,faiss]" -r .venv-$*/tools.txt
	@.venv-$*/bin/uv pip list --quiet --python .venv-$*/bin/python | tail -n +3 | tr -s ' \n' '= ' ; echo
	@OMP_NUM_THREADS=1 .venv-$*/bin/python -m pytest $(SPREAD) --durations=10

PEERS := .venv-peers

bench: $(PEERS)/.ready
	@$(PEERS)/bin/python benchmarks/together.py $(if $(DATA),--data $(DATA))

test-peers: $(PEERS)/.ready
	@OMP_NUM_THREADS=1 $(PEERS)/bin/python -m pytest tests/nn/test_libraries.py tests/nn/test_hugging_face.py \
	  tests/nn/test_text_libraries.py tests/losses/test_open_clip.py tests/search/test_embed_by_name.py

# Peers need torchvision, which fits only the torch it was built for: the registry's newest pair, not the pinned one.
$(PEERS)/.ready: benchmarks/requirements.txt
	@echo "[bench] environment of the peers in $(PEERS): about 5 GB, several minutes"
	@$(PYTHON) -m venv $(PEERS)
	@env -u PIP_FIND_LINKS $(PEERS)/bin/pip install --quiet -r benchmarks/requirements.txt
	@$(PEERS)/bin/pip install --quiet --no-deps -e .
	@touch $(PEERS)/.ready

clean:
	rm -rf $(VENV) $(PEERS) .venv-lowest .venv-newest .pytest_cache .mypy_cache .ruff_cache dist build
