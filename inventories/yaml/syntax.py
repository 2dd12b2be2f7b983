"""What is wrong with text that is not YAML, and with signs that only look like YAML's own."""

import re
import unicodedata
from collections.abc import Iterator

import yaml

from gpu_node.inventories.errors import Problem, quoted

_REMOVE, _QUOTE = "remove it", "put the value in quotes"
_TEXT, _SLASH = f"{_REMOVE}, or {_QUOTE}", "write / in its place, or single quotes"
_INDENT = "indent it as the keys beside it"
# The parser's words for a mistake, by their beginning; the reason, and what to do on its line.
_WORDS = (
    ("expected <block end>, but found '}'", "a } that closes nothing", _REMOVE),
    ("expected <block end>, but found ']'", "a ] that closes nothing", _REMOVE),
    ("expected <block end>, but found '-'", "a list where a key belongs", "write KEY: VALUE"),
    ("expected <block end>, but found ','", "a comma that separates nothing", _REMOVE),
    ("expected <block end>, but found '<scalar>'", "text behind the end of a value", _TEXT),
    ("expected <block end>, but found", "its indentation fits no line above", _INDENT),
    ("expected ',' or '}'", "no comma, or no closing }", f"add it, or {_QUOTE}"),
    ("expected ',' or ']'", "no comma, or no closing ]", f"add it, or {_QUOTE}"),
    ("expected the node content", "a value is missing", "write it"),
    ("found unexpected end of stream", "a quote is not closed", "close it"),
    ("found unknown escape character", "a backslash between double quotes", _SLASH),
    ("expected escape sequence of", "a backslash between double quotes", _SLASH),
    ("but found another document", "'---' begins a second document", _REMOVE),
    ("found character", "a character that no value begins with", _TEXT),
    ("expected alphabetic or numeric", "a character that no value begins with", _TEXT),
    ("sequence entries are not allowed", "a '-' that begins no list", f"{_REMOVE}, or write [A]"),
    ("expected '<document start>'", "text behind the end of a value", _TEXT),
    (
        "mapping values are not allowed here",
        "a second ':', or a deeper indentation than above",
        f"{_INDENT}; put a value with ': ' in quotes, a mapping in braces",
    ),
)
# What holds any letter: text in quotes, and comments.
_HARMLESS = re.compile(r"""\"[^"]*\"|'[^']*'|(?:^|\s)#.*""")
# Those of a Chinese keyboard, and what is meant by those of which YAML has no ASCII sign.
_WIDE = re.compile("[\uff01-\uff5e\u3001\u3002\u3010\u3011]")
_NARROW = {
    **{"\u3001": ",", "\u3002": ".", "\u3010": "[", "\u3011": "]", "\uff1b": ","},
    **{"\uff08": "{", "\uff09": "}"},
}


def unparsed(error: yaml.YAMLError, text: str) -> tuple[int, Problem]:
    """Return the line and the problem of an error of the parser.

    The line is where a bracket, a quote or a key begins that has no end.
    """
    if isinstance(error, yaml.reader.ReaderError):
        line = text.count("\n", 0, error.position) + 1
        then = "remove it, or save the file as UTF-8"
        return line, _problem(f"control character {error.character:#04x}", then)
    if not isinstance(error, yaml.MarkedYAMLError):
        return 1, _problem("", "correct it")
    begin, mark = error.context_mark, error.problem_mark
    first = mark or begin
    at, lines = first.line if first else 0, text.splitlines()
    before, tab, _ = "".join(lines[at : at + 1]).partition("\t")
    if mark and tab and len(before) <= mark.column:
        problem = _problem("YAML indents by blanks", "write two blanks for each tab")
        return at + 1, problem._replace(found=f"a tab in column {len(before) + 1}")
    if begin and (why := _unclosed(error, text)):
        return begin.line + 1, _problem(why, "close it")
    if mark and (key := _without_colon(error, lines)):
        then = "write it as KEY: VALUE, or remove it"
        return key[0] + 1, _problem(f"no ':' after {quoted(key[1])}", then)
    theirs = error.problem or ""
    for start, why, then in _WORDS:
        if theirs.startswith(start):
            return at + 1, _problem(why, then)
    return at + 1, _problem(" ".join(theirs.split()), "put its value in quotes")


def _problem(why: str, then: str) -> Problem:
    return Problem((), "text that is not YAML", why, "valid YAML", then, "syntax")


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


def odd_blanks(text: str) -> Iterator[tuple[int, Problem]]:
    """Yield the first sign of each line that looks like a blank, or like nothing."""
    for number, line in enumerate([] if text.isascii() else text.split("\n"), 1):
        for at, sign in enumerate(_outside(line)):
            kind = unicodedata.category(sign)
            if kind in ("Zs", "Cf") and sign != " ":
                name = unicodedata.name(sign, "odd sign").lower()
                found = f"{'an' if name[0] in 'aeio' else 'a'} {name} in column {at + 1}"
                then = "write a blank in its place" if kind == "Zs" else "remove it"
                why = "YAML takes it for a letter"
                yield number, Problem((), found, why, "valid YAML", then, "syntax")
                break


def with_wide_sign(problem: Problem, line: str) -> Problem:
    """Return a problem with the full-width sign of its line that may be the reason for it."""
    sign = _WIDE.search(_outside(line))
    if sign is None:
        return problem
    narrow = _NARROW.get(sign[0]) or unicodedata.normalize("NFKC", sign[0])
    why = f"YAML takes {sign[0]} in column {sign.start() + 1} for a letter"
    return problem._replace(
        why=f"{problem.why}; {why}" if problem.why else why,
        then=f"write {narrow!r} in place of {sign[0]!r}; else {problem.then}",
    )


def _outside(line: str) -> str:
    """Return a line with an x for each letter in a comment or in quotes."""
    return _HARMLESS.sub(lambda match: "x" * len(match[0]), line)
