"""Secrets in what nodes send: one definition of what is hidden, in awk for the node and in Python.

Hidden, in upper and lower case, is
- the value after a name that `is_secret`: NAME=VALUE, NAME+=VALUE, NAME: VALUE, --name VALUE,
- what follows the word `bearer`, and both words of `Authorization: Basic ...`,
- what follows `password is` and a header such as x-api-key, unless it is a word of a message,
- user and password of a URL (https://user:password@host), a signature in its query, and the path of
  one of a webhook,
- the last word of a line of .pgpass, and what follows `password` in one of .netrc,
- a word of 20 characters or more that begins as tokens of well-known services do (`SHAPES`), and
  one of 40 hex digits beside the word wandb, but for a commit's,
- the lines of a private key,
- the password after -p, -a, -P or -w of sshpass, mysql, mariadb, redis-cli, zip, the programs of
  LDAP and of `docker login` and its like, the key of `wandb login`, and any -u USER:PASSWORD; also
  in the command of `sh -c`.

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
    "connectionstring",
)
_WORDS = r"(^|_)((key|pwd|pw)s?|pass)(_|$)|(^|_)(auth|pat|dsn|sas)$|[a-z](pass|pwd)$"
_PLAIN = (
    r"^(n|num|max|min)_|_(size|count|len|length|dim)$|(^|_)pass_thr(u|ough)(_|$)"
    r"|(^|_)(com|encom|by|tres|sur|over|under|multi|one|two|single|first|second|last|per|forward"
    r"|backward|fwd|bwd|low|high|band|all|test)_?pass$|oldpwd$"
)
# Tokens that a model reads are counted: tokens: 8192, pad_token_id=50256.
_COUNTED = r"tokens$|token_ids?$"
_COUNT = r"[0-9][0-9.,]*[kKMGB]?([^-0-9A-Za-z._]|$)"
# What is secret in the query of a URL alone; names before `is`; and headers without a colon.
_QUERY = r"(^|[-_])(sig|signature|hmac|jwt|session)$"
_BEFORE_IS = r"(^|[-_])(password|passwd|passphrase|passcode)$"
_HEADER = "x-"
# Words of messages about them: `a password is required`.
_MESSAGE = (
    "required|needed|necessary|mandatory|optional|not|never|no|wrong|incorrect|correct|invalid|valid"
    "|missing|absent|expired|empty|unset|set|too|an?|the|being|only|also|already|still|now|about|for"
    "|in|on|at|by|from|to|with|of|or|and|if|stored|sent|used|asked|read|hidden|disabled|enabled|allowed"
    "|locked|given|known|unknown|changed|written|accepted|rejected|refused|denied|displayed|shown|weak"
    "|short|same|printed|kept|prompted|header|headers|value|is|was|has|must|cannot|provided|supported"
)
_HEX_DIGITS = 40
_PRIVATE_KEY = "PRIVATE KEY"
# A program and its option before a password, or with it.
_APART = "sshpass -[ev]*p|login -p|redis-cli -a|ldap -w|zip -[A-Za-z0-9]*P"
_TOGETHER = "(sshpass|mysql|login) -[ev]*p.|ldap -w.|zip -P."
_OF_LDAP = "ldap(search|add|modify|delete|modrdn|passwd|whoami|compare|exop|vc)"
_OF_ZIP = "zip|unzip|zipcloak"
# A commit has 40 hex digits, too.
_COMMIT = r"commit|revision|sha1|hash|git[ :@\/]"
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
    "ASIA",
    "dckr_pat_",
    "pypi-AgE",
    "eyJ",
    "nvapi-",
    "AIza",
    "wandb_v",
)
_LONG = 20
# Lines of .netrc and of .pgpass, as a change of a file shows them as well.
_NETRC = (
    r"(^|[ \t])(machine|login|account)[ \t]+[^ \t]+[ \t]+password[ \t]+"
    r"|^[-+ \t]*password[ \t]+[^ \t]+[ \t]*$"
)
_PGPASS = r"^[-+]?[ \t]*[^-+: \t\/][^: \t\/]*:([0-9]+|\*):[^: \t]*:[^: \t]*:[^ \t]+$"
# A URL of Slack, Discord or Microsoft with which anybody posts.
_WEBHOOK = r"^:\/\/([^\/]*@)?hooks\.|webhook"
_SLACK = "hooks.slack.com"

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
    counted=_COUNTED,
    count=_COUNT,
    query=_QUERY,
    before_is=_BEFORE_IS,
    header=_HEADER,
    message=_MESSAGE,
    hex_digits=_HEX_DIGITS,
    private_key=_PRIVATE_KEY,
    apart=_APART,
    together=_TOGETHER,
    of_ldap=_OF_LDAP,
    of_zip=_OF_ZIP,
    commit=_COMMIT,
    slack=_SLACK,
    netrc=_NETRC,
    pgpass=_PGPASS,
)
# For Section.shared: sections that need `$gn_hide`.
SHARED = ("gn_hide", AWK)

_NAME = re.compile(r"(?P<before>-?)(?P<name>[A-Za-z_][A-Za-z0-9_.-]*)")
# A proxy may have no scheme: http_proxy=user:password@host.
_URL = re.compile(r"(://)[^/?#\s\"']*@|(_(?:proxy|PROXY)=[\"']?)[^=/?#\s\"']*@")
_PATH = re.compile(r"(://[^/\s\"']+/)([^\s\"']+)")
_SHAPE = re.compile(f"(?:{'|'.join(SHAPES)})")
_AFTER_NAME = re.compile(r"[\]\\\"')]*[ \t]*[+?!|=:]*[=:]>?[ \t]*|(?P<option>[ \t]+(?:--[ \t]+)*)")
# A word of a shell, whose quotes may have backslashes before them.
_VALUE = re.compile(
    r"(?:\\{1,8}\"[^\"]*\"?|\\{1,8}'[^']*'?|\"(?:\\.|[^\"\\])*\"?|'[^']*'?|\\.|[^\s\"'\\;&|])+"
)
_COUNT_AT = re.compile(_COUNT)
_IS = re.compile(r"[ \t]+is:?[ \t]+")
_BLANKS = re.compile(r"[ \t]+")
_PATH_OF_URL = re.compile(r"/[^\s\"']+")
_HEX = re.compile(rf"(?<![0-9A-Za-z])[0-9a-f]{{{_HEX_DIGITS}}}(?![0-9A-Za-z])")
_KEY_LINES = re.compile(
    rf"(BEGIN [A-Z0-9 ]{{0,40}}{_PRIVATE_KEY})(?:.*?(?=-----END)|.*)", re.DOTALL
)
_SCHEMES = ("bearer", "basic", "token", "digest", "negotiate", "apikey")
_COMMAND_WORD = re.compile(r"[^ \t;|&()`]+")
_LETTERS = {"ldap": "w", "zip": "P"}
_QUOTES = str.maketrans("", "", "\"'\\")
_MARKS = str.maketrans("", "", "\"'\\.,:!")
_OPTION = re.compile(r"--?[A-Za-z][A-Za-z0-9_.-]*:?")
_NUMBERS = re.compile(r"[0-9]+:[0-9]+")
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
    text = _KEY_LINES.sub(rf"\1{HIDDEN}", text)
    shown = _PATH.sub(_without_webhook, without_users(text))
    return "\n".join(map(_line, shown.split("\n")))


def without_users(text: str) -> str:
    """Return a text without user and password in its URLs."""
    return _URL.sub(rf"\1\2{HIDDEN}@", text)


def _without_webhook(url: re.Match[str]) -> str:
    return f"{url[1]}{HIDDEN}" if re.search(_WEBHOOK, url[0].lower()) else url[0]


def _line(text: str) -> str:
    text = _command(_login(text))
    if "wandb" in (lower := text.lower()) and not re.search(_COMMIT, lower):
        text = _HEX.sub(HIDDEN, text)
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
        after = _before_value(text, match)
        if after is None:
            continue
        done.append(after)
        position = end + len(after)
        if position < len(text):
            position = _end_of_value(text, position)
            done.append(HIDDEN)
    return "".join(done) + text[position:]


def _login(text: str) -> str:
    """Return a text without the password of a line of .netrc or .pgpass."""
    if re.search(_PGPASS, text):
        return f"{text[: text.rindex(':') + 1]}{HIDDEN}"
    done, position = "", 0
    while match := re.compile(_NETRC).search(text, position):
        begin = text.rindex("password", match.start(), match.end()) + len("password")
        word = re.compile(r"[ \t]+(\S*)").match(text, begin)
        if word is None:
            break
        is_plain = re.fullmatch(_MESSAGE, word[1].translate(_MARKS).lower())
        done += text[position : word.start(1)] + (word[1] if is_plain else HIDDEN)
        position = word.end()
    return done + text[position:]


def _before_value(text: str, match: re.Match[str]) -> str | None:
    """Return what is between a name and its value; None where the value is no secret.

    In the awk it is `before_value`.
    """
    name, end = match["name"], match.end()
    lower, before = name.lower(), text[match.start("name") - 1 : match.start("name")]
    if before in ("?", "&") and text[end : end + 1] == "=" and re.search(_QUERY, lower):
        return "="
    if lower == _SLACK and _PATH_OF_URL.match(text, end):
        return "/"
    after = _AFTER_NAME.match(text, end)
    if lower == "bearer":
        return after[0] if after and after["option"] else None
    if not is_secret(name):
        return None
    if after and (after["option"] is None or before == "-"):
        is_count = re.search(_COUNTED, lower) and _COUNT_AT.match(text, after.end())
        return None if is_count else after[0]
    found = _IS.match(text, end) if re.search(_BEFORE_IS, lower) else None
    if found is None and lower.startswith(_HEADER):
        found = _BLANKS.match(text, end)
    word = _COMMAND_WORD.match(text, found.end()) if found else None
    is_plain = word and re.fullmatch(_MESSAGE, word[0].translate(_MARKS).lower())
    return found[0] if found and word and not is_plain else None


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
    elif re.fullmatch(_APART, f"{state.program} {word}"):
        state.hides = "all"
    if was == "all" or (was == "pair" and ":" in word[:-1] and not _NUMBERS.fullmatch(word)):
        return HIDDEN
    if re.match(_TOGETHER, f"{state.program} {word}"):
        return f"-{_LETTERS.get(state.program, 'p')}{HIDDEN}"
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
        elif re.fullmatch(_OF_LDAP, base):
            self.program = "ldap"
        elif re.fullmatch(_OF_ZIP, base):
            self.program = "zip"
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
