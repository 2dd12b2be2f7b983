"""Secrets in what nodes send: one definition of what is hidden, in awk for the node and in Python.

Hidden, in upper and lower case, is
- the value after a name that `is_secret`: NAME=VALUE, NAME+=VALUE, NAME: VALUE, --name VALUE,
- what follows the word `bearer`, and both words of `Authorization: Basic ...`,
- user and password of a URL (https://user:password@host), and the path of one of a webhook,
- a word of 20 characters or more that begins as tokens of well-known services do (`SHAPES`),
- the password after -p or -a of sshpass, mysql, mariadb, redis-cli and of `docker login` and its
  like, the key of `wandb login`, and any -u USER:PASSWORD; also in the command of `sh -c`.

On the node the whole argument after such an option is hidden, and everything that follows such a
name or option within one argument. The controller hides one word, because it no longer knows where
an argument ends.
"""

from __future__ import annotations

import re

from gpu_node.facts.probe.shell import shell

HIDDEN = "..."
# Names of secrets: a part of the name without the separators of its words, or one of its words.
# `tokenizer` is not a secret, PWD is a folder, and num_keys is a number.
_PARTS = (
    *("token", "secret", "passw", "passphrase", "passcode", "credential", "apikey", "accesskey"),
    *("authkey", "privatekey", "accountkey", "amzsignature", "authorization", "cookie", "webhook"),
    *("connectionstring", "mypwd", "sqlpwd"),
)
_WORDS = r"(^|_)((key|pwd|pw)s?|pass)(_|$)|(^|_)(auth|pat|dsn|sas)$"
_PLAIN = r"^(n|num|max|min)_|_(size|count|len|length|dim)$|(^|_)pass_thr(u|ough)(_|$)"
_OTHERS = r"tokeni[sz]"
# Commands whose `login` takes a password after -p, and those whose `login` takes a key.
_LOGIN = "docker|podman|nerdctl|buildah|skopeo|helm|oras|crane|apptainer|singularity|az|oc"
_LOGIN_BY_KEY = "wandb|vault"
SHAPES = (
    "hf_",
    "gh[a-z]_",
    "github_pat_",
    "glpat-",
    "sk-",
    "xox[a-z]-",
    "AKIA",
    "eyJ",
    "nvapi-",
    "AIza",
)
_LONG = 20
# A URL of Slack, Discord or Microsoft with which anybody posts.
_WEBHOOK = r"^:\/\/([^\/]*@)?hooks\.|webhook"

AWK = shell(
    "probe/redaction.awk",
    words=_WORDS,
    plain=_PLAIN,
    others=_OTHERS,
    parts="|".join(_PARTS),
    webhook=_WEBHOOK,
    hidden=HIDDEN,
    login=_LOGIN,
    login_by_key=_LOGIN_BY_KEY,
    long=_LONG,
    shapes="|".join(SHAPES),
)
# For Section.shared: sections that need `$gn_hide`.
SHARED = ("gn_hide", AWK)

_NAME = re.compile(r"(?P<before>-?)(?P<name>[A-Za-z_][A-Za-z0-9_.-]*)")
_URL = re.compile(r"://[^/?#\s\"']*@")
_PATH = re.compile(r"(://[^/\s\"']+/)([^\s\"']+)")
_SHAPE = re.compile(f"(?:{'|'.join(SHAPES)})")
_AFTER_NAME = re.compile(r"[\]\\\"')]*[ \t]*[+?!|=:]*[=:]>?[ \t]*|(?P<option>[ \t]+(?:--[ \t]+)*)")
# A word of a shell, whose quotes may have backslashes before them.
_VALUE = re.compile(
    r"(?:\\{1,8}\"[^\"]*\"?|\\{1,8}'[^']*'?|\"(?:\\.|[^\"\\])*\"?|'[^']*'?|\\.|[^\s\"'\\;&|])+"
)
_SCHEMES = ("bearer", "basic")
_COMMAND_WORD = re.compile(r"[^ \t;|&()`]+")
_QUOTES = str.maketrans("", "", "\"'\\")
_OPTION = re.compile(r"--?[A-Za-z][A-Za-z0-9_.-]*:?")
_NUMBERS = re.compile(r"[0-9]+:[0-9]+")
_BEFORE_PASSWORDS = (("login", "-p"), ("redis-cli", "-a"))
_KNOWN = f"sshpass|redis-cli|{_LOGIN}|{_LOGIN_BY_KEY}"


def is_secret(name: str) -> bool:
    """Whether the value of a variable, an option or a field with this name is a secret."""
    words = re.sub(r"[-_.]+", "_", name.lower()).removeprefix("_")
    if words in ("pwd", "oldpwd"):
        return False
    words = re.sub(r"__+", "_", re.sub(r"[0-9]+", "", words)).removesuffix("_")
    if re.search(_WORDS, words) and not re.search(_PLAIN, words):
        return True
    plain = re.sub(f"_|{_OTHERS}", "", words)
    return any(part in plain for part in _PARTS)


def redacted(text: str) -> str:
    """Return a text without its secrets; what is already hidden stays as it is."""
    shown = _PATH.sub(_without_webhook, without_users(text))
    return "\n".join(map(_line, shown.split("\n")))


def without_users(text: str) -> str:
    """Return a text without user and password in its URLs."""
    return _URL.sub(f"://{HIDDEN}@", text)


def _without_webhook(url: re.Match[str]) -> str:
    return f"{url[1]}{HIDDEN}" if re.search(_WEBHOOK, url[0].lower()) else url[0]


def _line(text: str) -> str:
    text = _command(text)
    done: list[str] = []
    position = 0
    while match := _NAME.search(text, position):
        name, end = match["name"], match.end()
        done.append(text[position : match.start("name")])
        position = end
        if len(name) >= _LONG and _SHAPE.match(name):
            done.append(HIDDEN)
            continue
        done.append(name)
        after = _AFTER_NAME.match(text, end)
        if after is None:
            continue
        scheme = name.lower() == "bearer" and after["option"] is not None
        named = is_secret(name) and (after["option"] is None or bool(match["before"]))
        if not (scheme or named):
            continue
        done.append(after[0])
        position = after.end()
        if position < len(text):
            position = _end_of_value(text, position)
            done.append(HIDDEN)
    return "".join(done) + text[position:]


def _command(text: str) -> str:
    """Return a text without the words that are secrets because of the words before them."""
    done: list[str] = []
    position, state = 0, _State()
    while match := _COMMAND_WORD.search(text, position):
        shown = _hidden(match[0].translate(_QUOTES), state)
        end = match.end()
        if shown:
            end = max(end, _end_of_value(text, match.start()))
        done += [text[position : match.start()], shown or match[0]]
        position = end
    return "".join(done) + text[position:]


def _hidden(word: str, state: _State) -> str:
    """Return what replaces a word that is a secret; empty for all others.

    In the awk it is `hidden`.
    """
    was, state.hides = state.hides, ""
    if was == "all" and re.fullmatch(r"--|[=:]+", word):
        state.hides = was
        return ""
    if _OPTION.fullmatch(word) and is_secret(word[1:].removesuffix(":")):
        state.hides = "all"
    elif word in ("-u", "-U", "--user", "--proxy-user"):
        state.hides = "pair"
    elif (state.program == "sshpass" and re.fullmatch("-[ev]*p", word)) or (
        state.program,
        word,
    ) in _BEFORE_PASSWORDS:
        state.hides = "all"
    if was == "all" or (was == "pair" and ":" in word[:-1] and not _NUMBERS.fullmatch(word)):
        return HIDDEN
    if re.match("-[ev]*p.", word) and state.program in ("sshpass", "mysql", "login"):
        return f"-p{HIDDEN}"
    if pair := re.match(r"(-[uU]|--(?:proxy-)?user=)[^:]*:.", word):
        return f"{pair[1]}{HIDDEN}"
    if state.program == "key" and not word.startswith("-"):
        return HIDDEN
    state.take(word)
    return ""


class _State:
    """What the words of a command line mean for the words after them."""

    def __init__(self) -> None:
        self.program = self.hides = self.last = ""

    def take(self, word: str) -> None:
        """Continue with the next word."""
        base = re.split("[/=]", word)[-1]
        if base == "login" and re.fullmatch(_LOGIN, self.program):
            self.program = "login"
        elif base == "login" and re.fullmatch(_LOGIN_BY_KEY, self.program):
            self.program = "key"
        elif base.startswith(("mysql", "mariadb")):
            self.program = "mysql"
        elif re.fullmatch(_KNOWN, base):
            self.program = base
        elif self.program == "sshpass" and word[:1] != "-" and self.last not in ("-P", "-f", "-d"):
            self.program = ""
        self.last = word


def _end_of_value(text: str, start: int) -> int:
    """Return where a value ends; after a scheme, or the name of a secret, with the next word."""
    match = _VALUE.match(text, start)
    end = match.end() if match else len(text)
    word = text[start:end].lower()
    if word in _SCHEMES or (word[-1:] in (":", "=") and is_secret(word.strip("-:="))):
        following = re.compile(r"[ \t]+\S+").match(text, end)
        end = following.end() if following else end
    return end
