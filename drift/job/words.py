"""Words of a shell script, with what the script itself assigned in place of $NAME.

Nothing is run. Every other expansion (another variable, $(...), `...`, ${NAME:-...}, *.txt, {a,b},
~user) makes the word unknown: it contains `UNKNOWN`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from gpu_node.drift.job.names import UNKNOWN

# Between the items of an array.
BETWEEN = "\x1f"
_BLANKS, _ENDS = " \t\r", "\n;()|&"
_PLAIN = re.compile(r"""[^\s\\'"$`;&|()<>\x00\x1f]+""")
_QUOTED = re.compile(r'[^\\"$`\x00\x1f]+')
_DIVIDES = re.compile(r"[\s\x1f]+")
# What a shell expands where no quotes are: files of these names, and {a,b}, {1..3} and ~user.
GLOB = re.compile(r"[*?]|\[[^\[\]]+\]")
EXPANDED = re.compile(rf"{GLOB.pattern}|\{{[^{{}}]*(,|\.\.|$)|^~[^/]")
_PARENTHESES, _BRACES = re.compile(r"[()\n]"), re.compile(r"[{}\n]")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_IN_BRACES = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\[[@*]\])?")
_ASSIGNED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?)=(.*)", re.DOTALL)
_HEREDOC = re.compile(r"<<-?[ \t]*([\"']?)([A-Za-z0-9_.]+)\1")
_REDIRECT = re.compile(r"&?[<>]+[&|]?")


class NotClosed(ValueError):
    """A quote, or a parenthesis, without its end; `line` is where it begins."""

    def __init__(self, what: str, line: int) -> None:
        super().__init__(f"{what} that is not closed")
        self.line = line


class Part(NamedTuple):
    """A part of a word: a text, the name of a variable, or what only the shell knows."""

    text: str
    kind: Literal["text", "name", "unknown"] = "text"
    is_quoted: bool = False


Word = tuple[Part, ...]


class Command(NamedTuple):
    """A simple command: the line on which it begins, its words, and && or || before it."""

    line: int
    words: tuple[Word, ...]
    joint: str = ""


def assigned(word: Word) -> tuple[str, str, Word] | None:
    """Return name, "+" or nothing, and the value, of a word that assigns a variable."""
    match = _ASSIGNED.fullmatch(word[0].text) if word[0].kind == "text" else None
    if match is None or word[0].is_quoted:
        return None
    return match[1], match[2], (Part(match[3]), *word[1:])


def value(word: Word, values: Mapping[str, str]) -> str:
    """Return a word as one text, as behind an assignment: it is not divided."""
    return "".join(_of(part, values) for part in word)


def texts(word: Word, values: Mapping[str, str]) -> list[str]:
    """Return the words that a word becomes: a variable without quotes is divided at blanks."""
    made: list[str] = []
    current, is_one = "", False
    for at, part in enumerate(word):
        text = _of(part, values)
        if part.kind != "name":
            is_expanded = not part.is_quoted and (at or part.text != "{") and EXPANDED.search(text)
            current, is_one = current + (UNKNOWN if is_expanded else text), True
            continue
        pieces = text.split(BETWEEN) if part.is_quoted else _DIVIDES.split(text)
        pieces = pieces[:-1] if text.endswith(BETWEEN) else pieces
        if not part.is_quoted:
            pieces = [UNKNOWN if GLOB.search(piece) else piece for piece in pieces]
        current += pieces[0]
        is_one = is_one or part.is_quoted or bool(pieces[0])
        for piece in pieces[1:]:
            made += [current] * is_one
            current, is_one = piece, part.is_quoted or bool(piece)
    return [*made, *([current] * is_one)]


def _of(part: Part, values: Mapping[str, str]) -> str:
    if part.kind == "text":
        return part.text
    return values.get(part.text, UNKNOWN) if part.kind == "name" else UNKNOWN


def commands(text: str) -> Iterator[Command]:
    """Yield the simple commands of a script in their order, without comments and redirections.

    Raises NotClosed.
    """
    return _Reader(text.replace("\r\n", "\n")).commands()


@dataclass
class _Reader:
    text: str
    at: int = 0
    line: int = 1
    parts: list[Part] = field(default_factory=list)
    is_word: bool = False
    words: list[Word] = field(default_factory=list)
    begun: int = 1
    # Of the command that begins, and the operators since the last one.
    joint: str = ""
    operators: str = ""
    # Of an array whose end is not read.
    array: int = 0
    # The next word is the target of a redirection.
    is_target: bool = False
    heredocs: list[str] = field(default_factory=list)

    def commands(self) -> Iterator[Command]:
        while self.at < len(self.text):
            character = self.text[self.at]
            if not self._ends_word(character) and not self._ends_command(character):
                self._read(character)
                continue
            if character in _ENDS and not self.array and self.words:
                yield self._command()
            if character == "\n":
                self._next_line()
        if self.array:
            raise NotClosed("a parenthesis", self.array)
        self._end_word()
        if self.words:
            yield self._command()

    def _ends_word(self, character: str) -> bool:
        """Take a blank, or a parenthesis of an array."""
        if character == "(" and self.is_word and self.parts[-1].text.endswith("="):
            self.array = self.line
        elif character == ")" and self.array:
            self._end_word()
            self.array = 0
            self._end_word()
        elif character in _BLANKS:
            self._end_word()
        else:
            return False
        self.at += 1
        return True

    def _ends_command(self, character: str) -> bool:
        """Take a character that ends a command; within an array it ends a word."""
        if character not in _ENDS or self.text.startswith("&>", self.at):
            return False
        self.at += 1
        self._end_word()
        self.operators = f"{self.operators}{character}"[:2]
        return True

    def _read(self, character: str) -> None:
        """Take what is no end of a command."""
        begin = self.at
        if character == "#" and (not self.is_word or self.parts[-1].text == BETWEEN):
            end = self.text.find("\n", begin)
            self.at = len(self.text) if end < 0 else end
        elif character == "\\":
            self.at += 2
            if self.text[begin + 1 : self.at] == "\n":
                self.line += 1
            else:
                self._add(Part(self.text[begin + 1 : self.at], is_quoted=True))
        elif character == "'":
            end = self._find("'", begin + 1, "a quote")
            self._add(Part(self.text[begin + 1 : end], is_quoted=True))
            self.at = end + 1
        elif character == '"':
            self._double()
        elif character in "$`":
            self._expansion(is_quoted=False)
        elif character == UNKNOWN:
            self._add(Part("", "unknown"))
            self.at += 1
        elif character in "<>&":
            self._redirection()
        elif plain := _PLAIN.match(self.text, begin):
            self._add(Part(plain[0]))
            self.at = plain.end()
        elif begin == self.at:  # a control character
            self.at += 1

    def _double(self) -> None:
        line = self.line
        self.at += 1
        self._add(Part("", is_quoted=True))
        while self.at < len(self.text):
            character = self.text[self.at]
            if character == '"':
                self.at += 1
                return
            if character in "$`":
                self._expansion(is_quoted=True)
            elif character == "\\":
                escaped = self.text[self.at + 1 : self.at + 2]
                self.line += escaped == "\n"
                text = escaped if escaped in '$`"\\' else "" if escaped == "\n" else f"\\{escaped}"
                self._add(Part(text, is_quoted=True))
                self.at += 2
            elif plain := _QUOTED.match(self.text, self.at):
                self.line += plain[0].count("\n")
                self._add(Part(plain[0], is_quoted=True))
                self.at = plain.end()
            else:
                self._add(Part("", "unknown" if character == UNKNOWN else "text", is_quoted=True))
                self.at += 1
        raise NotClosed("a quote", line)

    def _expansion(self, is_quoted: bool) -> None:
        begin = self.at
        opening = self.text[begin : begin + 2]
        if self.text[begin] == "`":
            self.at = self._find("`", begin + 1, "a command") + 1
        elif opening == "$(":
            self._skip("(", ")")
        elif opening == "${":
            self._skip("{", "}")
            if named := _IN_BRACES.fullmatch(self.text, begin + 2, self.at - 1):
                self._add(Part(named[1], "name", is_quoted))
                return
        elif named := _NAME.match(self.text, begin + 1):
            self.at = named.end()
            self._add(Part(named[0], "name", is_quoted))
            return
        elif opening[1:] and (opening[1].isalnum() or opening[1] in "@*#?$!-"):
            self.at += 2
        else:
            self.at += 1
            self._add(Part("$", is_quoted=is_quoted))
            return
        self._add(Part("", "unknown", is_quoted))

    def _skip(self, opening: str, closing: str) -> None:
        """Go behind the end of an expansion that may have others in it."""
        line, depth = self.line, 0
        pattern = _PARENTHESES if opening == "(" else _BRACES
        for found in pattern.finditer(self.text, self.at):
            self.line += found[0] == "\n"
            depth += (found[0] == opening) - (found[0] == closing)
            if found[0] == closing and depth == 0:
                self.at = found.end()
                return
        raise NotClosed("an expansion", line)

    def _redirection(self) -> None:
        if self.parts and self.parts[-1].text.isdecimal() and len(self.parts) == 1:
            self.parts, self.is_word = [], False  # the descriptor
        self._end_word()
        if heredoc := _HEREDOC.match(self.text, self.at):
            self.heredocs.append(heredoc[2])
            self.at = heredoc.end()
            return
        match = _REDIRECT.match(self.text, self.at)
        self.at = match.end() if match else self.at + 1
        self.is_target = True

    def _next_line(self) -> None:
        """Count a line, and go behind the texts of its commands (<<EOF)."""
        self.line += 1
        for end in self.heredocs:
            while self.at < len(self.text):
                found = self.text.find("\n", self.at)
                found = len(self.text) if found < 0 else found
                line, self.at = self.text[self.at : found], found + 1
                self.line += 1
                if line.strip("\t") == end:
                    break
        self.heredocs = []

    def _find(self, character: str, begin: int, what: str) -> int:
        end = self.text.find(character, begin)
        if end < 0:
            raise NotClosed(what, self.line)
        self.line += self.text.count("\n", begin, end)
        return end

    def _add(self, part: Part) -> None:
        if not self.words and not self.is_word:
            self.begun = self.line
            self.joint = self.operators if self.operators in ("&&", "||") else ""
            self.operators = ""
        self.parts.append(part)
        self.is_word = True

    def _end_word(self) -> None:
        if self.is_word and self.array:
            if self.parts[-1].text != BETWEEN and len(self.parts) > 1:
                self.parts.append(Part(BETWEEN, is_quoted=True))
        elif self.is_word:
            if not self.is_target:
                self.words.append(tuple(self.parts))
            self.parts, self.is_word, self.is_target = [], False, False

    def _command(self) -> Command:
        made = Command(self.begun, tuple(self.words), self.joint)
        self.words = []
        return made
