"""Checks whether pip's settings make it use data that others can change, in transit or locally.

It runs in an environment's own Python, 3.6 or newer, with `-I`, as the account that runs pip. Its
arguments are pip's next command, install or download, and the options before that.
"""

import ast
import grp
import os
import pwd
import re
import shlex
import stat
import subprocess
import sys
from urllib.parse import urlsplit
from urllib.request import url2pathname

SECONDS = 60
# Settings that name servers or folders, that name files with more settings, and that install more
# than requested, or with another Python. Their section does not matter: each may be used.
PLACES = ("index-url", "extra-index-url", "pypi-url", "find-links", "cert")
SINGLE = ("index-url", "pypi-url", "cert")
FILES = ("constraint", "requirement", "build-constraint")
REFUSED = ("trusted-host", "editable", "group", "python", "requirements-from-script")
ON = ("1", "true", "yes", "on", "t", "y")
# What pip regards as a URL, and the URLs whose server is authenticated.
SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
PROVED = re.compile(r"(?:(?:git|hg|svn|bzr)\+)?(?:https|ssh)://", re.IGNORECASE)
# Options of a requirements file, in pip's full spelling: all others are refused.
HARMLESS = ("--no-index", "--prefer-binary", "--require-hashes", "--pre")
HARMLESS_WITH_VALUE = ("--hash", "--only-binary", "--use-feature")
SHORT = {"-i": "--index-url", "-f": "--find-links", "-c": "--constraint", "-r": "--requirement"}
# Another server anywhere in a requirement, and the place that a requirement names.
PLAIN = re.compile(r"(^|[+\s=@])(http|ftp|git|svn|bzr)://", re.IGNORECASE)
REFERENCE = re.compile(r"[\w.-]+\s*(?:\[[^]]*\])?\s*@\s*(.*)")
COMMENT = re.compile(r"(^|\s+)#.*$")
OTHER_CODING = re.compile(r"^[ \t\f]*#.*?coding[:=][ \t]*(?!utf-?8\b)", re.IGNORECASE)
DEEPEST, LARGEST, MOST_FILES, MOST_LINKS = 5, 1 << 20, 20000, 40


def settings(*options):
    """The output of `pip config list`, which includes files and variables, as pairs."""
    done = subprocess.run(
        [sys.executable, "-I", "-m", "pip", *options, "config", "list"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        timeout=SECONDS,
    )
    if done.returncode:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise ValueError(lines[-1] if lines else "pip ended with %d" % done.returncode)
    pairs = []
    for line in done.stdout.decode("utf-8", "replace").splitlines():
        name, equals, value = line.partition("=")
        if not equals:
            continue  # of a start file that prints: each setting is NAME='VALUE'
        try:
            pairs.append((name, str(ast.literal_eval(value))))
        except (SyntaxError, ValueError) as error:
            raise ValueError(
                "pip config list printed %r, which is no setting: if a start file of Python (.pth, "
                "sitecustomize) prints it, remove that" % shown(line)
            ) from error
    return pairs


def shown(value):
    """A value without its password."""
    return re.sub(r"//[^/@\s]*@", "//...@", " ".join(value.split()))[:200]


def is_alone(gid):
    """Whether only this account and root are in a group."""
    own, known = pwd.getpwuid(os.geteuid()), pwd.getpwall()
    try:
        members = set(grp.getgrgid(gid).gr_mem)
    except KeyError:
        return False
    members.update(each.pw_name for each in known if each.pw_gid == gid and each.pw_uid)
    return gid in (0, own.pw_gid) and members <= {own.pw_name, "root"}


def writer(path):
    """Who may write at a path, besides root and this account: as text, or nothing."""
    status = os.lstat(path)
    if status.st_uid not in (0, os.geteuid()):
        return "uid %d owns %s" % (status.st_uid, path)
    if stat.S_ISLNK(status.st_mode):
        return ""
    if status.st_mode & stat.S_IWOTH:
        return "everyone may write %s" % path
    if status.st_mode & stat.S_IWGRP and not is_alone(status.st_gid):
        return "the group %d may write %s" % (status.st_gid, path)
    # With an access list, the group's bits are the maximum that one of its entries may grant.
    if status.st_mode & stat.S_IWGRP and has_list(path):
        return "an access list lets others write %s" % path
    return ""


def has_list(path):
    """Whether a file has an access list; False on a file system without them."""
    try:
        return "system.posix_acl_access" in os.listxattr(path)
    except OSError:
        return False


def on_way(path):
    """Follow a path from /: who else may change its target (or nothing), and the target.

    In a sticky folder no account replaces another's file, and any account creates a missing one.
    """
    here, links = "/", 0
    rest = os.path.join(os.getcwd(), path).split("/")
    while rest:
        part = rest.pop(0)
        if part == "..":
            here = os.path.dirname(here)
        if part in ("", ".", ".."):
            continue
        folder, here = here, os.path.join(here, part)
        if not os.path.lexists(here):
            why = writer(folder)
            return "%s is missing, and %s" % (here, why) if why else "", here
        mode = os.lstat(here)
        if stat.S_ISLNK(mode.st_mode):
            links += 1
            if links > MOST_LINKS:
                return "%s has too many links" % path, here
            why, target = writer(here), os.readlink(here)
            rest = target.split("/") + rest
            here = "/" if target.startswith("/") else folder
        else:
            is_kept = mode.st_mode & stat.S_ISVTX and mode.st_uid in (0, os.geteuid())
            why = "" if is_kept else writer(here)
        if why:
            return why, here
    return writer(here), here


def changeable(path):
    """Who else may change a file or a folder, or its content: as text, or nothing."""
    waiting, seen, count = [path], set(), 0
    while waiting:
        why, here = on_way(waiting.pop())
        if why:
            return why
        if here in seen:
            continue
        seen.add(here)
        for parent, folders, files in os.walk(here):
            for each in (os.path.join(parent, name) for name in folders + files):
                count += 1
                why = writer(each) if count <= MOST_FILES else "%s has too many files" % path
                if why:
                    return why
                if os.path.islink(each):
                    waiting.append(each)
    return ""


def local(place):
    """The local path that pip uses for a place; None for a URL of another machine."""
    scheme = SCHEME.match(place)
    if scheme is None:
        return os.path.expanduser(place)
    return url2pathname(urlsplit(place).path) if scheme.group(1).lower() == "file" else None


def wrong(place):
    """Why others can change the files fetched from a place; or nothing."""
    path = local(place)
    if path is not None:
        why = changeable(path)
        return "%s (%s)" % (shown(place), why) if why else ""
    return "" if PROVED.match(place) else shown(place)


def lines_of(path):
    """The lines of a requirements file, joined and without comments, as by pip."""
    with open(path, "rb") as source:
        text = source.read(LARGEST + 1)
    if len(text) > LARGEST:
        raise ValueError("%s has more than %d bytes" % (path, LARGEST))
    lines = text.decode("utf-8-sig").splitlines()
    if b"\0" in text or any(OTHER_CODING.match(line) for line in lines[:2]):
        raise ValueError("%s is not UTF-8 text" % path)
    joined = ""
    for line in [*lines, ""]:
        if line.endswith("\\") and not COMMENT.match(line):
            joined += line.strip("\\")
            continue
        line = joined + (" " + line if COMMENT.match(line) else line)
        joined = ""
        yield re.sub(r"\$\{([A-Z0-9_]+)\}", variable, COMMENT.sub("", line).strip())


def variable(match):
    """The value of a variable in a requirements file; pip does not replace an empty one."""
    return os.environ.get(match.group(1)) or match.group(0)


def option(words):
    """Take an option and its value from a line's words: its full name, and the value or None."""
    word = words.pop(0)
    if word[:2] in SHORT:
        value = word[2:] or (words.pop(0) if words else "")
        return SHORT[word[:2]], value
    name, equals, value = word.partition("=")
    if equals:
        return name, value
    if name.startswith("--") and name not in HARMLESS:
        return name, words.pop(0) if words else ""
    return name, None


def of_option(name, value, path, depth):
    """What is wrong with an option of a requirements file; or nothing."""
    target = os.path.join(os.path.dirname(path), value or "")
    if name in (HARMLESS if value is None else HARMLESS_WITH_VALUE):
        return ""
    if name in ("--index-url", "--extra-index-url", "--pypi-url"):
        return wrong(value)
    if name == "--find-links":
        return wrong(target if not SCHEME.match(value) and os.path.exists(target) else value)
    if name in ("--constraint", "--requirement"):
        return within(value if SCHEME.match(value) else target, depth + 1)
    return "the option %s, which may be unsafe" % shown(name)


def of_line(line, path, depth):
    """What is wrong with a line of a requirements file; or nothing."""
    begun = re.search(r"(?:^|\s)-", line)
    requirement = line[: begun.start()] if begun else line
    reference = REFERENCE.match(requirement)
    for text in (requirement, reference.group(1) if reference else ""):
        place = re.sub(r"\[[^]]*\]$", "", re.split(r"\s", text)[0])
        is_place = SCHEME.match(place) or "/" in place or place[:1] == "." or os.path.isfile(place)
        problem = wrong(place) if is_place else ""
        if problem:
            return problem
    if PLAIN.search(requirement):
        return shown(requirement)
    words = shlex.split(line[len(requirement) :])
    while words:
        name, value = option(words)
        problem = of_option(name, value, path, depth)
        if problem:
            return problem
    return ""


def within(place, depth=0):
    """What in a requirements file makes pip trust what it should not; or nothing."""
    problem = wrong(place)
    path = local(place)
    if problem or path is None:
        return problem
    if depth > DEEPEST:
        return "%s names too many others" % place
    try:
        for line in lines_of(path):
            problem = of_line(line, path, depth)
            if problem:
                return "%s: %s" % (path, problem)
    except ValueError as error:
        return "%s: %s" % (path, error)
    return ""


def asks_no_index(pairs, command):
    """Whether a command of pip uses no index: the last source that sets it decides."""
    answer = False
    for section in ("global", command, ":env:"):
        for name, value in pairs:
            if name == section + ".no-index" and value:
                answer = value.lower() in ON
    return answer


def problems(pairs, command="install"):
    """What in the settings makes pip trust what it should not."""
    without_index = asks_no_index(pairs, command)
    for name, value in pairs:
        key = name.rpartition(".")[2].replace("_", "-").lower()
        is_unused = without_index and ("index-url" in key or key == "pypi-url")
        if not value or is_unused:
            continue
        if key in REFUSED:
            yield "%s = %s" % (name, shown(value))
        check = wrong if key in PLACES else within if key in FILES else None
        for place in ([value] if key in SINGLE else value.split()) if check else ():
            problem = check(place)
            if problem:
                yield "%s = %s" % (name, problem)


if __name__ == "__main__":
    try:
        refused = list(problems(settings(*sys.argv[2:]), *sys.argv[1:2]))
    except (OSError, ValueError, KeyError, subprocess.SubprocessError) as error:
        sys.exit("its settings cannot be read: %s" % error)
    if refused:
        sys.exit("its settings name %s" % "; ".join(refused))
