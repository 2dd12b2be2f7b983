"""What is wrong with text that is not YAML, and the line to write that makes it YAML."""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any

import yaml

from gpu_node.inventories.errors import Problem, quoted

# Each line that is tried costs a parse; libyaml's takes 5 ms for a text of this size.
_LONGEST = 50_000
_MOST_JUDGED = 8
_PARSER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# The parser's words for a mistake, by their beginning, and ours.
_WORDS = {
    "expected <block end>, but found '}'": "a } that closes nothing",
    "expected <block end>, but found ']'": "a ] that closes nothing",
    "expected <block end>, but found '-'": "a '-', as in a list, where a key belongs",
    "expected <block end>, but found ','": "a comma that separates nothing",
    "expected <block end>, but found '<scalar>'": "text behind the end of a value",
    "expected <block end>, but found": "its indentation fits no line above",
    "mapping values are not allowed here": "a second ':', or a deeper indentation than above",
    "expected ',' or '}'": "a comma, or the closing }, is missing",
    "expected ',' or ']'": "a comma, or the closing ], is missing",
    "expected the node content": "a value is missing",
    "found unexpected end of stream": "a quote is not closed",
    "found unknown escape character": "a backslash between double quotes",
    "expected escape sequence of": "a backslash between double quotes",
    "but found another document": "'---' begins a second document",
    "found character": "a character that no value begins with",
    "expected alphabetic or numeric character": "a character that no value begins with",
    "sequence entries are not allowed here": "a '-' that begins no list",
    "expected '<document start>'": "text behind the end of a value",
}
# What a file of INI, or of Ansible's hosts, begins with.
_SECTION = re.compile(r"\[[\w:. -]+\]")
# A line as it may have been meant: tried in this order on each line that the parser names.
_MENDS: tuple[Callable[[str], str], ...] = (
    lambda line: re.sub(r"(?<=[\w\"]):(?=[\w\[{\"'])", ": ", line, count=1),
    lambda line: re.sub(r"^(\s*(?:- )?[\w.-]+)\s*$", r"\1:", line),
    lambda line: re.sub(r"^(\s*|\s*[\w.-]+:\s+)-\s+", r"\1", line),
    lambda line: re.sub(
        r"(^\s*|[{,] *)([\w.-]+: +)[(<]?([\w-]+: [^()<>{},]+)[)>]?(?=$|[,}])", r"\1\2{\3}", line
    ),
    lambda line: line.replace("{{", "{"),
    lambda line: re.sub(r"^(\s*(?:- )?[\w-]+)\s*[=\s]\s*(?=[^\s:=])", r"\1: ", line),
    lambda line: re.sub(r";(?=\s)", ",", line),
    lambda line: re.sub(r"(?<=[\w\"'\]}])\s+(?=[\w-]+: )", ", ", line),
    *(partial(re.sub, r"\s*([\]}]+)$", rf"{sign}\1") for sign in "\"']}"),
    *(lambda line, end=end: line.rstrip(" ,") + end for end in ("}", "]", "]}", "}}", '"', "'")),
    lambda line: re.sub(r"[\]},;\uff1b]\s*$", "", line),
    lambda line: re.sub(r"(: +)([^,\"'{}\[\]]*\{node\}[^,\"'{}\[\]]*)", _in_quotes, line),
    lambda line: re.sub(r"(: +|, +|\[)([@%`*&!|>][^,{}\[\]]*)", _in_quotes, line),
    lambda line: re.sub(r"^(\s*[\w.-]+: +)([^\s\"{\[].*)$", _in_quotes, line),
    lambda line: line.replace("'", '"'),
    lambda line: line.replace("\\", "/"),
    lambda line: re.sub(r"^(\s*)//", r"\1#", line),
    lambda line: re.sub(r"^\s*(<<<<<<<|=======|>>>>>>>|---|\.\.\.).*", "", line),
)


def _in_quotes(match: re.Match[str]) -> str:
    text = match[2].rstrip().replace('"', "").replace("'", "")
    sign = "'" if "\\" in text else '"'
    return f"{match[1]}{sign}{text}{sign}"


def unparsed(
    error: yaml.YAMLError, text: str, problems_of: Callable[[str], Sequence[str]]
) -> tuple[int, Problem]:
    """Return the line and the problem of an error of the parser.

    The line is where a bracket, a quote or a key begins that has no end. `problems_of` returns
    the problems of a text that is YAML.
    """
    lines = text.splitlines() or [""]
    if isinstance(error, yaml.reader.ReaderError):
        at = text.count("\n", 0, error.position)
        why = f"control character {error.character:#04x}"
        return at + 1, _problem(why, f"remove it from line {at + 1}")
    if not isinstance(error, yaml.MarkedYAMLError):
        return 1, _problem("", "correct it")
    if _SECTION.fullmatch(lines[0].strip()):
        then = "gpu-node init DIR NAME=ADDRESS ... writes a cluster file"
        return 1, _problem("a [section], as in an INI file", then)
    at, found, why = _place(error, text, lines)
    begin, mark = error.context_mark, error.problem_mark
    near = [each.line for each in (mark, begin) if each]
    tried = [each for each in dict.fromkeys([at, *near, *(line - 1 for line in near)]) if each >= 0]
    mended = _mended(text, lines, tried) if len(text) <= _LONGEST else ()
    # The first of those with the fewest problems.
    best = min(
        islice(mended, _MOST_JUDGED), key=lambda each: len(problems_of(each[0])), default=None
    )
    then = f"correct line {at + 1}, or put its value in quotes"
    if why.startswith("no ':'"):
        then = f"write a ':' behind the key on line {at + 1}"
    then = best[1] if best else then
    problem = _problem(why, "replace each tab by blanks" if found and not best else then)
    return at + 1, problem._replace(found=found) if found else problem


def _problem(why: str, then: str) -> Problem:
    return Problem((), "text that is not YAML", why, "valid YAML", then, "syntax")


def _place(error: yaml.MarkedYAMLError, text: str, lines: list[str]) -> tuple[int, str, str]:
    """Return the line, counted from 0, what is found there where it has a name, and why."""
    begin, mark = error.context_mark, error.problem_mark
    first = mark or begin
    at = first.line if first else 0
    before, tab, _ = "".join(lines[at : at + 1]).partition("\t")
    if mark and tab and len(before) <= mark.column:
        return at, f"a tab in column {len(before) + 1}", "YAML indents by blanks"
    if begin and (open_at := _unclosed(error, text)):
        return begin.line, "", open_at
    if mark and (key := _without_colon(error, lines)):
        return key[0], "", f"no ':' after {quoted(key[1])}"
    theirs = error.problem or ""
    plain = next((ours for start, ours in _WORDS.items() if theirs.startswith(start)), theirs)
    return at, "", " ".join(plain.split())


def _mended(text: str, lines: list[str], tried: list[int]) -> Iterator[tuple[str, str]]:
    """Yield texts that are YAML, in which one line differs, and what to write for it."""
    if "\t" in text and _is_yaml(new := text.expandtabs(2)):
        yield new, "write two blanks in place of each tab"
    for at in tried:
        if at >= len(lines) or not lines[at].strip():
            continue
        mended = [mend(lines[at]) for mend in _MENDS]
        item = lines[at].strip().removeprefix("- ")
        for line in dict.fromkeys((*_indented(lines, at), *mended, *_indented(lines, at, item))):
            new = "\n".join([*lines[:at], line, *lines[at + 1 :], ""])
            if line != lines[at] and _is_yaml(new):
                yield new, _instead(at + 1, line, lines[at])


def _indented(lines: list[str], at: int, written: str = "") -> Iterator[str]:
    """Yield a line, or what is written in its place, with the indentations of the lines around."""
    others = [*reversed(lines[:at]), *lines[at + 1 :]]
    widths = [len(each) - len(each.lstrip()) for each in others[:4] if each.strip()]
    for width in widths[:2]:
        yield f"{' ' * width}{written or lines[at].strip()}"


def _instead(number: int, line: str, before: str) -> str:
    if not line:
        return f"remove line {number}"
    blanks, old = (len(each) - len(each.lstrip()) for each in (line, before))
    if line.strip() == before.strip():
        return f"begin line {number} with {blanks} blanks"
    behind = "" if blanks == old else f", behind {blanks} blanks"
    return f"write line {number} as {line.strip()}{behind}"


def _is_yaml(text: str) -> bool:
    """Whether both parsers read a text: libyaml is quicker, and takes some that PyYAML refuses."""
    try:
        roots = [yaml.compose(text, Loader=each) for each in (_PARSER, yaml.SafeLoader)]
    except (yaml.YAMLError, RecursionError):
        return False
    return all(isinstance(root, yaml.MappingNode) for root in roots)


def _unclosed(error: yaml.MarkedYAMLError, text: str) -> str:
    """Return what is wrong if a bracket or a quote is not closed; empty for other errors."""
    begin, mark = error.context_mark, error.problem_mark
    is_open = "flow" in (error.context or "") or "quoted" in (error.context or "")
    if not begin or not mark or not is_open or mark.line == begin.line:
        return ""
    sign = text[begin.index : begin.index + 1]
    end = "the end of the file" if not text[mark.index :].strip() else f"line {mark.line + 1}"
    return f"the {sign} in column {begin.column + 1} is not closed before {end}"


def _without_colon(error: yaml.MarkedYAMLError, lines: list[str]) -> tuple[int, str] | None:
    """Return the line and the text of a key that has no colon; None for other errors."""
    begin, mark = error.context_mark, error.problem_mark
    problem = error.problem or ""
    if mark and begin and problem == "could not find expected ':'" and begin.line < mark.line:
        return begin.line, lines[begin.line].strip()
    is_comment_between = problem.startswith("expected <block end>, but found '<block mapping")
    if not mark or not (is_comment_between or problem == "mapping values are not allowed here"):
        return None
    for at in range(mark.line - 1, -1, -1):
        written = lines[at].partition(" #")[0].strip()
        if written and not written.startswith("#"):
            # A text without a colon goes on in the next line, whose colon is then one too many.
            is_other = re.search(r":(\s|$)", written) or (is_comment_between and written[0] == "-")
            return None if is_other else (at, written)
    return None
