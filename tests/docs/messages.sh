#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# messages.sh SOURCE_DIR
# What docs/troubleshooting.md quotes as messages are words of the sources, and each error of the library is quoted there.
set -uo pipefail
exec python3 - "$1" <<'PYTHON'
import glob, re, sys
root = sys.argv[1]
page = open(root + "/docs/troubleshooting.md").read()

def literals(text):
    # The texts of a source, those that stand beside each other joined; a quote within a text, and a backtick, as the page writes them.
    text = re.sub(r"^\s*(//.*|#include.*)$", "", text, flags=re.M)
    text = re.sub(r'"\s*\n?\s*"', lambda m: "" if "\n" in m[0] else m[0], text)
    return [t.replace('\\"', '"').replace("`", "'") for t in re.findall(r'"((?:[^"\\\n]|\\.)*)"', text)]

sources = sorted([path for folder in ("include", "examples") for end in ("hpp", "cuh", "cu")
                  for path in glob.glob(f"{root}/{folder}/**/*.{end}", recursive=True)] + glob.glob(root + "/examples/gpt2/main.cpp"))
texts = {path: open(path).read() for path in sources + [root + "/CMakeLists.txt"]}
said = "\n".join(l for path in sources for l in literals(texts[path]))
said += "\n" + texts[root + "/CMakeLists.txt"]
wrong = []

# Of each row its first cell, unless that is about what is seen rather than said.
quoted = []
for part in re.split(r"^\| (?:message|the compiler says|what you see) ", page, flags=re.M)[1:]:
    for row in part.split("\n\n")[0].splitlines():
        if row.startswith("| ") and " `" in row.split(" | ")[0] + " `":
            quoted += re.findall(r"`([^`]*)`", row.split(" | ")[0])
if len(quoted) < 60:
    sys.exit(f"docs/troubleshooting.md: only {len(quoted)} messages are quoted: has its form changed?")
plain = {"skipped", "pthread_create", "find_package(zero)"}
for message in quoted:
    if message in plain:
        continue
    rest = message[len("gpt2: "):] if message.startswith("gpt2: ") else message
    rest = rest[len("model: "):] if rest.startswith("model: ") else rest
    whole = rest in said
    # What a sentence of a Problem is put together from.
    fragments = [f.strip(" ,;:()'") for f in re.split("[.]{3}|: found |; expected ", rest)]
    for fragment in [] if whole else [f for f in fragments if len(f) > 2]:
        pieces = [fragment] if fragment in said else [p.strip(" ,;:()'") for p in re.split(r"[,:;(] ", fragment)]
        for piece in pieces:
            if len(piece) > 2 and piece not in said:
                wrong.append(f"troubleshooting.md quotes '{message}', but no source says '{piece}'")

# Each throw, refusal and static_assert with a sentence of its own.
for path in sources:
    text = re.sub(r"//.*", "", texts[path])
    for m in re.finditer(r"\b(?:throw \w[\w:]*\(|refuse\(|[. ]fail\(|static_assert\(|\brequire(?:_argument)?\()", text):
        depth, end = 1, m.end()
        while end < len(text) and depth > 0:
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
        words = [w.strip(" ,;:()'") for w in literals(text[m.end():end])]
        words = [w for w in words if len(w) > 7]
        # What takes its words from elsewhere has none but names, such as LearningRate::cosine: power, that say where; a handler's lock
        # is no matter of the user's.
        words = [w for w in words if not re.fullmatch(r"[\w.]+(?:::[\w:.]+(?:: \w+)?)?", w)]
        if not words or words == ["a handler may write it"]:
            continue
        # Of a sentence in pieces the longest: the others may stand in any other.
        longest = max(words, key=len)
        if longest in page:
            continue
        line = text.count("\n", 0, m.start()) + 1
        wrong.append(f"{path[len(root) + 1:]}:{line}: '{longest}' is not in docs/troubleshooting.md")
print("\n".join(wrong))
sys.exit(1 if wrong else 0)
PYTHON
