# SPDX-License-Identifier: Apache-2.0
"""undocumented.py XML_DIR
Prints what has no text in the XML that Doxygen wrote, and fails where there is something: public classes, concepts, functions,
variables, aliases, enumerations and each of their values; and, in the rooms whose functions are a user's own formulas, a parameter
that neither a @param nor the text names. Doxygen's own warnings pass over concepts, values, empty classes and functions none of
whose parameters are documented."""
import re
import sys
import xml.etree.ElementTree as tree
from pathlib import Path

ROOMS = ("zero/optim/", "zero/policy/")  # of which every parameter is named


def text(node):
    return " ".join("".join(node.find(part).itertext()) for part in ("briefdescription", "detaileddescription")).strip()


def missing_of_member(owner, node):
    if node.get("prot") != "public" or node.get("kind") == "friend":
        return
    place = node.find("location")
    name = f"{place.get('file')}:{place.get('line')}: {owner}::{node.findtext('name')}"
    arguments = node.findtext("argsstring") or ""
    if arguments.endswith(("=delete", "=default")) or "::~" in name:
        return
    if not text(node):
        yield f"{name}{arguments} has no text"
    for value in node.findall("enumvalue"):
        if not text(value):
            yield f"{name}::{value.findtext('name')} has no text"
    if node.get("kind") == "function" and place.get("file").startswith(ROOMS):
        words = set(re.findall(r"\w+", text(node)))
        for parameter in node.findall("param/declname"):
            if parameter.text not in words:
                yield f"{name}{arguments} does not say what {parameter.text} is"


def missing_of_compound(compound):
    kind, name = compound.get("kind"), compound.findtext("compoundname")
    if kind not in ("class", "struct", "union", "concept", "namespace") or "detail" in name.split("::"):
        return
    if compound.get("prot", "public") != "public":
        return
    if kind != "namespace" and not text(compound):
        yield f"{compound.find('location').get('file')}: {kind} {name} has no text"
    for node in compound.findall("sectiondef/memberdef"):
        yield from missing_of_member(name, node)


compounds = [c for file in Path(sys.argv[1]).glob("*.xml") for c in tree.parse(file).getroot().iter("compounddef")]
if len(compounds) < 100:
    sys.exit(f"{sys.argv[1]} has {len(compounds)} descriptions; expected those of the whole reference")
found = sorted({line for compound in compounds for line in missing_of_compound(compound)})
print("\n".join(found), end="\n" if found else "")
sys.exit(1 if found else 0)
