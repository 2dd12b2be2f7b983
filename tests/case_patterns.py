"""Finds the `case` patterns in a shell script at which bash 4.2 may end a command substitution.

Within `$(...)` that shell, CentOS 7's, takes the `)` of `case $x in pattern)` for the end of the
substitution: behind `do`, `then` or `{`, not where `case` is the first word. `(pattern)` is the
same to every shell and parses everywhere, so it is wanted in each substitution.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_BLANKS = " \t"
_ENDS_A_WORD = " \t\n;&|()<>"
# After these the next word is a command's first, where `case` is no argument.
_BEFORE_A_COMMAND = {"then", "do", "else", "elif", "if", "while", "until", "!", "{", "time"}
_HERE_DOCUMENT = re.compile(r"<<(-?)[ \t]*")
_BACKTICKS = re.compile(r"`((?:[^`\\]|\\.)*)`", re.DOTALL)


@dataclass(frozen=True)
class Found:
    """A pattern without its opening parenthesis, and its line in the script."""

    line: int
    pattern: str


def found(script: str) -> list[Found]:
    """Return such patterns; ValueError where the script ends within a quote or a bracket."""
    reader = _Reader(script)
    reader.commands()
    if reader.at < len(script):
        raise ValueError(f"line {reader.line()}: what is {script[reader.at :][:20]!r} to end?")
    if reader.awaited:
        raise ValueError(f"no {reader.awaited[0][0]} ends the here-document")
    return reader.found


@dataclass
class _Reader:
    """Reads a script once; `within` counts the substitutions around `at`."""

    text: str
    at: int = 0
    within: int = 0
    found: list[Found] = field(default_factory=list)
    # The here-documents that begin at the next line: end, quoted, without leading tabs.
    awaited: list[tuple[str, bool, bool]] = field(default_factory=list)

    def line(self) -> int:
        return self.text.count("\n", 0, self.at) + 1

    def sees(self, text: str) -> bool:
        return self.text.startswith(text, self.at)

    def take(self, text: str) -> None:
        if not self.sees(text):
            raise ValueError(f"line {self.line()}: no {text!r}")
        self.at += len(text)

    def until(self, text: str) -> str:
        """Go past the next `text`, and return what stands before it."""
        end = self.text.find(text, self.at)
        if end < 0:
            raise ValueError(f"line {self.line()}: no {text!r}")
        passed, self.at = self.text[self.at : end], end + len(text)
        return passed

    def commands(self, is_clause: bool = False) -> None:
        """Read commands up to the `)` or the end that is not theirs, or to a clause's end."""
        is_first = True
        while self.blanks() and not self.sees(")"):
            if self.sees("\n"):
                self.newline()
                is_first = True
            elif self.sees("("):
                self.bracketed()
                is_first = True  # it was the `()` of a function
            elif is_clause and self.sees(";;"):
                return
            elif self.text[self.at] in ";&|":
                self.at += 1
                is_first = True
            elif self.text[self.at] in "<>":
                self.redirection()
            elif is_first and is_clause and self.keyword() == "esac":
                return
            elif is_first and self.keyword() == "case":
                self.case()
                is_first = False
            else:
                word = self.word()
                is_first = is_first and word in _BEFORE_A_COMMAND

    def blanks(self) -> bool:
        """Pass blanks, continued lines and a comment; return whether anything is left."""
        while self.at < len(self.text):
            if self.text[self.at] in _BLANKS:
                self.at += 1
            elif self.sees("\\\n"):
                self.at += 2
            elif self.sees("#"):
                end = self.text.find("\n", self.at)
                self.at = end if end >= 0 else len(self.text)
            else:
                break
        return self.at < len(self.text)

    def newline(self) -> None:
        self.take("\n")
        awaited, self.awaited = self.awaited, []
        for end, is_quoted, is_indented in awaited:
            tabs = r"\t*" if is_indented else ""
            match = re.compile(rf"^{tabs}{re.escape(end)}$", re.MULTILINE).search(
                self.text, self.at
            )
            if match is None:
                raise ValueError(f"line {self.line()}: no {end} ends the here-document")
            while not is_quoted and self.at < match.start():
                self.quoted_character()
            self.at = match.end()

    def redirection(self) -> None:
        if match := not self.sees("<<<") and _HERE_DOCUMENT.match(self.text, self.at):
            self.at = match.end()
            word = self.word()
            end = re.sub(r"[\\'\"]", "", word)
            self.awaited.append((end, end != word, bool(match[1])))
        elif self.sees("<(") or self.sees(">("):
            self.at += 1
            self.substitution()
        else:
            self.at += 1

    def bracketed(self) -> None:
        self.take("(")
        self.commands()
        self.take(")")

    def substitution(self) -> None:
        """Read the `(...)` of a substitution, from its bracket on."""
        self.within += 1
        self.bracketed()
        self.within -= 1

    def case(self) -> None:
        """Read from `case` to `esac`."""
        self.take("case")
        while self.lines() and self.keyword() != "in":
            self.word()
        self.take("in")
        while self.lines() and self.keyword() != "esac":
            self.pattern()
            self.commands(is_clause=True)
            while self.at < len(self.text) and self.text[self.at] in ";&":
                self.at += 1
        self.take("esac")

    def pattern(self) -> None:
        line, start = self.line(), self.at
        if self.sees("("):
            self.at += 1
            start = -1
        while self.blanks() and not self.sees(")"):
            if self.sees("|"):
                self.at += 1
            else:
                self.word()
        if start >= 0 and self.within:
            self.found.append(Found(line, self.text[start : self.at].strip()))
        self.take(")")

    def lines(self) -> bool:
        """Pass blanks, comments and ends of lines; return whether anything is left."""
        while self.blanks() and self.sees("\n"):
            self.newline()
        return self.at < len(self.text)

    def keyword(self) -> str:
        """Return the bare word that comes next, and stay before it."""
        match = re.compile(r"[a-z]+(?=[ \t\n;&|()<>]|$)").match(self.text, self.at)
        return match[0] if match else ""

    def word(self) -> str:
        """Read a word with its quotes and expansions, and return it as it is written."""
        start = self.at
        while self.at < len(self.text) and self.text[self.at] not in _ENDS_A_WORD:
            self.character()
        if self.at == start:
            raise ValueError(f"line {self.line()}: no word at {self.text[start:][:20]!r}")
        return self.text[start : self.at]

    def character(self) -> None:
        """Read a character outside of quotes, or what it begins."""
        if self.sees("\\"):
            self.at += 2
        elif self.sees("$'"):
            self.at += 2
            while not self.sees("'"):
                self.at += 2 if self.sees("\\") else 1
                if self.at >= len(self.text):
                    raise ValueError("no end of $'")
            self.at += 1
        elif self.sees("'"):
            self.at += 1
            self.until("'")
        elif self.sees('"'):
            self.at += 1
            while not self.sees('"'):
                self.quoted_character()
            self.at += 1
        else:
            self.expansion()

    def quoted_character(self) -> None:
        """Read a character of a double-quoted text or a here-document, or what it begins."""
        if self.at >= len(self.text):
            raise ValueError('no end of "')
        if self.sees("\\"):
            self.at += 2
        else:
            self.expansion(is_quoted=True)

    def expansion(self, is_quoted: bool = False) -> None:
        if self.sees("$(("):
            self.arithmetic()
        elif self.sees("$("):
            self.at += 1
            self.substitution()
        elif self.sees("${"):
            self.at += 2
            self.parameter(is_quoted)
        elif self.sees("`"):
            self.backticks()
        else:
            self.at += 1

    def arithmetic(self) -> None:
        """Read `$((...))`; a subshell at the start of a substitution needs a blank before it."""
        self.take("$((")
        depth = 0
        while depth or not self.sees("))"):
            depth += self.sees("(") - self.sees(")")
            if depth < 0:
                raise ValueError(f"line {self.line()}: $(( ends with one bracket")
            self.quoted_character()
        self.take("))")

    def parameter(self, is_quoted: bool) -> None:
        """Read the rest of `${...}`; after # and % quotes are quotes within a quoted text, too."""
        name = re.compile(r"#?[A-Za-z0-9_@*?!$-]*").match(self.text, self.at)
        self.at = name.end() if name else self.at
        is_quoted = is_quoted and not (self.sees("#") or self.sees("%"))
        while not self.sees("}"):
            if self.at >= len(self.text):
                raise ValueError("no end of ${")
            if is_quoted and not self.sees('"'):
                self.quoted_character()
            else:
                self.character()
        self.at += 1

    def backticks(self) -> None:
        """Read what is between backticks as a script of its own: their end is found first."""
        match = _BACKTICKS.match(self.text, self.at)
        if match is None:
            raise ValueError(f"line {self.line()}: no end of a backtick")
        before = self.line() - 1
        inner = re.sub(r"\\([\\`$])", r"\1", match[1])
        self.found += [Found(before + each.line, each.pattern) for each in found(inner)]
        self.at = match.end()
