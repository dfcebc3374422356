"""Check the English of docstrings, comments, messages and test names; CONTRIBUTING.md has the rules.

Usage: python .ci/check_english.py [FILE OR FOLDER ...]. The default is [tool.sliceport.english] of pyproject.toml.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
HEADLESS = frozenset("what that those where how nothing see which it there these this they".split())
# A docstring that begins with one of these words begins with a noun phrase or a clause, not with a verb.
NO_VERB = HEADLESS | frozenset(
    "a an the all any each every some both either no none one two its their of by for from in on to with without "
    "at as if is are only also when while because not another other such same given".split()
)
VERBS_IN_S_OR_ED = frozenset("pass process discuss express compress focus cross miss embed".split())
BANNED = {
    r"\b(?:is|are|be) (?-i:none)\b": "name what is missing, or say `is not a`",
    r"\bwhich (?:is|are) no\b": "say what is wrong with it",
    r"\b(?:of|by) which\b": "make it two sentences",
    r"(?<!there) is no (?!longer|larger|more than|such|\d)\w+": "say `is not a`",
    r"\b0 for any\b": "say `0 disables the limit`",
    r"\bsees? to\b": "name the action",
    r"\bwhat (?:became|becomes|is known|is left) of\b": "use a noun",
    r"\bwhatever it\b": "repeat the noun",
    r"\bwithout a word\b": "say `silently`",
}
# An entry of Args, Attributes or Raises in a docstring, such as `value: What is given for it.`
HEADLESS_ENTRY = r"(?m)^ +[\w, ]+: (?:What|That|Those|Where|How|Nothing|See what|It|There|They|None)\b"
TEST_VERBS = frozenset(
    "is are was were be has have had do does did can cannot may must need keep give take say stay make become run "
    "come go get hold lie end fit agree differ match fail pass read write lower raise refuse name find follow leave "
    "lead share start compute select return use work begin stop import load move".split()
)
DANGLING_END = r"_(?:not|do|does|have|has)$|(?<!_it)_is$|(?<!_they)_are$"


def check_file(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the line and the broken rule of each finding in a Python file."""
    source = path.read_text(encoding="utf-8")
    tree = ast.parse(source)
    for line, kind, text in _list_docstrings(tree):
        for rule in filter(None, [_check_beginning(kind, text)]):
            yield line, rule
        for match in re.finditer(HEADLESS_ENTRY, text):
            yield line + text[: match.start()].count("\n"), f"{match[0].strip()!r}: describe the entry with a noun"
    text_tokens = (tokenize.COMMENT, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", -1))
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        for pattern, advice in BANNED.items() if token.type in text_tokens else ():
            for match in re.finditer(pattern.replace(" ", r"\s+"), token.string, re.IGNORECASE):
                line = token.start[0] + token.string[: match.start()].count("\n")
                yield line, f"{' '.join(match[0].split())!r}: {advice}"
    for node in ast.walk(tree) if path.name.startswith("test_") else ():
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_") and not _is_claim(node.name):
            yield node.lineno, f"{node.name}: the name of a test is a claim, with a subject and a verb"


def _list_docstrings(tree: ast.Module) -> Iterator[tuple[int, str, str]]:
    """Yield the line, the kind (`function` or `noun`) and the text of each docstring, also of attributes."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        for before, statement in zip([None, *body], body, strict=False) if isinstance(body, list) else ():
            value = statement.value if isinstance(statement, ast.Expr) else None
            is_text = isinstance(value, ast.Constant) and isinstance(value.value, str)
            if is_text and (before is None or isinstance(before, ast.Assign | ast.AnnAssign)):
                yield statement.lineno, _kind_of(node) if before is None else "noun", value.value


def _kind_of(node: ast.AST) -> str:
    decorators = [ast.unparse(one) for one in getattr(node, "decorator_list", ())]
    # The docstring of a test explains the claim in its name.
    is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("test_")
    return "function" if is_function and not any(name.endswith("property") for name in decorators) else "noun"


def _check_beginning(kind: str, text: str) -> str:
    """Return the rule that the first word breaks, or an empty string."""
    match = re.match(r"\s*([A-Za-z]+(?:-[a-z]+)?)(?=[\s,;:.]|$)", text)
    word = match[1].lower() if match else ""
    if word == "whether" or word in VERBS_IN_S_OR_ED:
        return ""
    if word in HEADLESS:
        return f"a docstring does not begin with {word!r}"
    is_verb = word not in NO_VERB | {""} and not re.search(r"(?<!s)s$|(?<!e)ed$|ing$", word) and match[1][1:].islower()
    if kind == "function" and not is_verb:
        return f"the docstring of a function begins with an imperative verb, not with {text.split(maxsplit=1)[0]!r}"
    return ""


def _is_claim(name: str) -> bool:
    words = name.split("_")[1:]
    has_verb = any(word in TEST_VERBS or re.search(r"(?<!s)s$|ed$", word) for word in words[1:])
    return has_verb and words[0] not in HEADLESS - {"nothing", "what"} and not re.search(DANGLING_END, name)


def main() -> int:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["sliceport"]["english"]
    skipped = {ROOT / name for name in settings["skip"]}
    findings = []
    for top in [Path(name).absolute() for name in sys.argv[1:]] or [ROOT / name for name in settings["check"]]:
        for path in sorted(top.rglob("*.py")) if top.is_dir() else [top]:
            if skipped.isdisjoint([path, *path.parents]):
                findings += [f"{path.relative_to(ROOT)}:{line}: {rule}" for line, rule in check_file(path)]
    print("\n".join(findings) or "English: no findings")
    return int(bool(findings))


if __name__ == "__main__":
    sys.exit(main())
