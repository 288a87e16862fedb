#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# form.sh SOURCE_DIR VERSION
# The vcpkg port and the Conan recipe are of the right form, and every place that states the version states VERSION.
set -uo pipefail
source_dir=$1 version=$2 failed=0
packaging=$source_dir/docs/packaging
wrong() { echo "$*"; failed=1; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

grep -qF "inline constexpr std::string_view version = \"$version\";" "$source_dir/include/zero/core/version.hpp" ||
  wrong "zero/core/version.hpp does not say $version, the version of CMakeLists.txt"
grep -qF "zero-$version.tar.gz" "$packaging/README.md" || wrong "docs/packaging/README.md does not name zero-$version.tar.gz"
grep -qF "\`zero/$version\`" "$packaging/README.md" || wrong "docs/packaging/README.md does not name zero/$version"

python3 - "$packaging" "$version" "$dir" <<'PYTHON' || failed=1
import ast, json, py_compile, sys
packaging, version, scratch = sys.argv[1:]
wrong = []

port = json.load(open(packaging + "/vcpkg/vcpkg.json"))
for key, value in {"name": "zero", "version": version, "license": "Apache-2.0"}.items():
    if port.get(key) != value:
        wrong.append(f"vcpkg.json: {key} is {port.get(key)!r}, expected {value!r}")
for needed in ("vcpkg-cmake", "vcpkg-cmake-config"):
    if {"name": needed, "host": True} not in port["dependencies"]:
        wrong.append(f"vcpkg.json: {needed} is no host dependency")

recipe = packaging + "/conan/conanfile.py"
py_compile.compile(recipe, cfile=scratch + "/recipe.pyc", doraise=True)
classes = [n for n in ast.parse(open(recipe).read()).body if isinstance(n, ast.ClassDef)]
if len(classes) != 1 or [ast.unparse(b) for b in classes[0].bases] != ["ConanFile"]:
    wrong.append("conanfile.py: expected one class, a ConanFile")
else:
    values, methods = {}, set()
    for node in classes[0].body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            values[node.targets[0].id] = node.value.value
        if isinstance(node, ast.FunctionDef):
            methods.add(node.name)
    expected = {"name": "zero", "version": version, "license": "Apache-2.0", "package_type": "header-library"}
    for key, value in expected.items():
        if values.get(key) != value:
            wrong.append(f"conanfile.py: {key} is {values.get(key)!r}, expected {value!r}")
    for method in ("export_sources", "package", "package_id", "package_info"):
        if method not in methods:
            wrong.append(f"conanfile.py: no {method}")
print("\n".join(wrong))
sys.exit(1 if wrong else 0)
PYTHON
exit "$failed"
