"""Redaction: what is hidden of a command line and of a text, on the node and on the controller."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_node.facts.probe import redaction
from gpu_node.facts.probe.process import PROCESS
from gpu_node.facts.probe.redaction import AWK, HIDDEN, is_secret, redacted
from gpu_node.inventories.nccl_variables import table
from tests.case_files import load
from tests.shells import run

# Those of them that a machine has.
_KNOWN = (["gawk"], ["mawk"], ["busybox", "awk"], ["original-awk"])
AWKS = {each[0]: each for each in _KNOWN if shutil.which(each[0])}
SECRET = "s3cr3t-Value"
TOKEN = "hf_AbCdEfGhIjKlMnOpQrStUvWx"


def lines(awk: str, program: str, text: str) -> str:
    """What an awk makes of a text with these functions."""
    done = subprocess.run(
        [*AWKS[awk], f"{AWK}{program}"],
        input=text.encode(),
        capture_output=True,
        env={**os.environ, "LC_ALL": "C"},
        check=True,
    )
    assert done.stderr == b""
    return done.stdout.decode().removesuffix("\n")


def command(awk: str, *arguments: str) -> str:
    """What an awk makes of a command line."""
    return lines(awk, '{ printf "%s%s", (NR > 1 ? " " : ""), argument($0) }', "\n".join(arguments))


COMMANDS = [
    (("train.py", "--api-key", SECRET, "--lr", "1"), "train.py --api-key ... --lr 1"),
    (("train.py", f"--api-key={SECRET}", "--lr", "1"), "train.py --api-key=... --lr 1"),
    (("train.py", f"--HF-Token={SECRET}"), "train.py --HF-Token=..."),
    (("train.py", "-token", SECRET), "train.py -token ..."),
    (("train.py", "--token", "--password", SECRET), "train.py --token ... ..."),
    (("env", f"HF_TOKEN={SECRET}", "python"), "env HF_TOKEN=... python"),
    (("env", f"hf_token={SECRET}"), "env hf_token=..."),
    (("env", f"DB_PASSWD={SECRET}"), "env DB_PASSWD=..."),
    (("env", f"AWS_SECRET_ACCESS_KEY={SECRET}"), "env AWS_SECRET_ACCESS_KEY=..."),
    (
        ("env", f"WANDB_API_KEY={SECRET}", f"MYSQL_PWD={SECRET}"),
        "env WANDB_API_KEY=... MYSQL_PWD=...",
    ),
    (("login", "--password", f"two {SECRET}"), "login --password ..."),
    (("sh", "-c", f"export TOKEN='{SECRET} 2'; train"), "sh -c export TOKEN=..."),
    (("curl", "-H", f"Authorization: Bearer {SECRET}"), "curl -H Authorization: ..."),
    (("curl", "-H", f"authorization: basic {SECRET}"), "curl -H authorization: ..."),
    (("say", f"bearer {SECRET}"), "say bearer ..."),
    (("curl", "-u", f"me:{SECRET}", "https://a"), "curl -u ... https://a"),
    (("git", f"https://me:{SECRET}@host/a@v1"), "git https://...@host/a@v1"),
    (("git", f"https://me:{SECRET}@x@host"), "git https://...@host"),
    (("a", f"http://{SECRET}@one", f"https://b:{SECRET}@two"), "a http://...@one https://...@two"),
    (
        ("curl", f"https://hooks.slack.com/services/T0/{SECRET}", "-d", "x"),
        "curl https://hooks.slack.com/... -d x",
    ),
    (
        ("a", "https://b/c", f"https://Discord.com/api/WebHooks/1/{SECRET}?wait=true"),
        "a https://b/c https://Discord.com/...",
    ),
    (("curl", f"https://a.webhook.office.com/b/{SECRET}"), "curl https://a.webhook.office.com/..."),
    (("sshpass", "-p", SECRET, "ssh", "-p", "22"), "sshpass -p ... ssh -p 22"),
    (("/usr/bin/mysql", f"-p{SECRET}"), "/usr/bin/mysql -p..."),
    (("redis-cli", "-a", SECRET), "redis-cli -a ..."),
    (("huggingface-cli", "login", TOKEN), "huggingface-cli login ..."),
    (
        ("python", "-c", f'os.environ["HF_TOKEN"]="{SECRET}"'),
        'python -c os.environ["HF_TOKEN"]=...',
    ),
    (("x", f"credentials: {SECRET}"), "x credentials: ..."),
    (("x", f"?api_key={SECRET}&b=1"), "x ?api_key=..."),
    (
        ("bash", "-c", f'curl -d "{{\\"password\\":\\"{SECRET}\\"}}" h'),
        'bash -c curl -d "{\\"password\\":...',
    ),
    (("x", f"PASSWORD+={SECRET}"), "x PASSWORD+=..."),
    (("x", f"token => {SECRET}"), "x token => ..."),
    (("x", f"OPENAI_KEY_PROD={SECRET}", "a"), "x OPENAI_KEY_PROD=... a"),
    (("x", f"KEY1={SECRET}", f"MY_PASS_1={SECRET}"), "x KEY1=... MY_PASS_1=..."),
    (("x", f"--keys={SECRET}", "--pw", SECRET), "x --keys=... --pw ..."),
    (("x", "--token", "--", SECRET, "a"), "x --token -- ... a"),
    (("x", "--password", "=", SECRET, "a"), "x --password = ... a"),
    (("x", "--apikey:", SECRET, "a"), "x --apikey: ... a"),
    (("x", f"--token\t{SECRET}"), "x --token ..."),
    (("curl", f"-uuser:{SECRET}", "https://a"), "curl -u... https://a"),
    (("curl", f"--user=user:{SECRET}", "https://a"), "curl --user=... https://a"),
    (("docker", "login", "-u", "me", "-p", SECRET, "h"), "docker login -u me -p ... h"),
    (("podman", "login", f"-p{SECRET}", "h"), "podman login -p... h"),
    (("wandb", "login", "--relogin", SECRET), "wandb login --relogin ..."),
    (("python", "-m", "wandb", "login", SECRET), "python -m wandb login ..."),
    (
        ("sudo", "sshpass", "-v", "-p", SECRET, "ssh", "-p", "22"),
        "sudo sshpass -v -p ... ssh -p 22",
    ),
    (("sshpass", "-P", "word", f"-p{SECRET}", "ssh"), "sshpass -P word -p... ssh"),
    (("bash", "-c", f"sshpass -p {SECRET} ssh h"), "bash -c sshpass -p ..."),
    (("bash", "-c", f"cd /a; sshpass -p '{SECRET} 2' ssh h"), "bash -c cd /a; sshpass -p ..."),
    (("bash", "-c", f"mysql -u root -p{SECRET} -e x"), "bash -c mysql -u root -p..."),
    (("bash", "-c", f'mysql -p"{SECRET} 2"'), "bash -c mysql -p..."),
    (
        ("bash", "-c", f"ProxyCommand=sshpass -p {SECRET} ssh"),
        "bash -c ProxyCommand=sshpass -p ...",
    ),
    (("bash", "-c", f"x && curl -u me:{SECRET} h"), "bash -c x && curl -u ..."),
]
# Nothing of these is hidden.
PLAIN = [
    ("python", "train.py", "--tokenizer", "gpt2", "--tokenizer-path=/data/t", "--lr", "1e-4"),
    ("env", "PWD=/home/train", "OLDPWD=/", "NCCL_DEBUG=INFO", "-p", "29500"),
    ("ssh", "-p", "22", "train@node", "deepspeed", "--hostfile", "/job/hosts"),
    ("a", "https://host/path@v1", "user@host", "sudo: a password is required"),
    ("a", "--num-keys", "4", "--num_key_value_heads", "8", "--key-size", "2048", "MONKEY=1"),
    ("a", "--keyboard", "us", "--pass-through", "x", "COMPASS=n", "passthrough=1", "PATH=/bin:/x"),
    ("docker", "run", "-p", "80:80", "-u", "1000:1000", "--user=root", "image"),
    ("sshpass", "-e", "ssh", "-p", "22", "mysql", "-P", "3306", "-p"),
    ("ssh", "login", "-p", "22"),
    ("git", "clone", "https://host/hooks.d/x", "webhook.py", "https://webhook.host"),
    ("python", "-u", "train.py", "bash", "-c", "ssh -p 22 -l me n && python -u x.py -p 1"),
]


CORPUS = load((Path(__file__).parent / "secrets.yml").read_text())
PLANTED = {"secret": SECRET, "hex": "0f8a" * 10, "long": "Ab3dEf6h" * 4}
HIDDEN_LINES, WHOLE_LINES = (
    [(line.format(**PLANTED), shown) for line, shown in CORPUS[key]] for key in ("hidden", "whole")
)


def assert_no_secret(text: str) -> None:
    """No secret of the corpus is in a text."""
    assert not [each for each in PLANTED.values() if each in text]


@pytest.mark.parametrize(("line", "wanted"), [*HIDDEN_LINES, *WHOLE_LINES])
def test_a_line_with_a_secret(line: str, wanted: str) -> None:
    """In a log, and of what a node sends, which has it up to its first secret."""
    assert redacted(line) == wanted and redacted(wanted) == wanted
    for awk in AWKS:
        shown = lines(awk, "{ print shown($0) }", line)
        assert_no_secret(shown)
        assert shown.split(HIDDEN)[0] == wanted.split(HIDDEN)[0]


def test_lines_that_stay() -> None:
    """All that is no secret is shown: a reason that is hidden helps no one."""
    stays = CORPUS["stays"]
    assert list(map(redacted, stays)) == stays
    for awk in AWKS:
        assert lines(awk, "{ print shown($0) }", "\n".join(stays)).split("\n") == stays


def test_the_lines_of_a_key() -> None:
    """All of them, also where the text ends before the key does."""
    begin, end = (f"-----{each} EC PRIVATE KEY" for each in ("BEGIN", "END"))
    body = f"{PLANTED['long']}\n" * 3
    assert redacted(f"a\n{begin}-----\n{body}{end}-----\nb") == f"a\n{begin}...{end}-----\nb"
    assert_no_secret(redacted(f"a\n{begin}-----\n{body}"))


@pytest.mark.parametrize("awk", AWKS)
@pytest.mark.parametrize(("given_one", "wanted"), COMMANDS)
def test_a_command_line_on_a_node(awk: str, given_one: tuple[str, ...], wanted: str) -> None:
    """Every argument that has a secret is shown without it."""
    assert command(awk, *given_one) == wanted


@pytest.mark.parametrize("awk", AWKS)
@pytest.mark.parametrize("words", PLAIN)
def test_what_is_no_secret_stays(awk: str, words: tuple[str, ...]) -> None:
    """A tokenizer is no token, and a port no password."""
    assert command(awk, *words) == " ".join(words) == redacted(" ".join(words))


TEXTS = [words for words, _ in COMMANDS]


@pytest.mark.parametrize("words", TEXTS)
def test_a_text_on_the_controller(words: tuple[str, ...]) -> None:
    """What a node did not hide is hidden there, one word at least."""
    shown = redacted(" ".join(words))
    assert HIDDEN in shown
    # A node knows where an argument ends.
    if f"two {SECRET}" not in words:
        assert SECRET not in shown and TOKEN not in shown


@pytest.mark.parametrize(("_words", "wanted"), COMMANDS)
def test_what_is_hidden_stays_hidden(_words: tuple[str, ...], wanted: str) -> None:
    """The controller looks again at what the node has shown."""
    assert SECRET not in redacted(wanted) and redacted(redacted(wanted)) == redacted(wanted)


@pytest.mark.parametrize("awk", AWKS)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_no_secret_passes(awk: str, data: st.DataObject) -> None:
    """Whatever stands around it, in any case of letters."""
    words = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=12)
    rows = []
    for _ in range(20):
        name = data.draw(st.sampled_from(["TOKEN", "API-KEY", "api_key", "Password", "SECRET"]))
        name = data.draw(st.sampled_from([name, name.lower(), f"X_{name}", f"hf-{name}"]))
        form = data.draw(st.sampled_from(["{n}={s}", "--{n}={s}", "--{n}\n{s}", "{n}: {s}"]))
        before, after = data.draw(words), data.draw(words)
        rows.append(f"{before}\n {form.format(n=name, s='PLANTED')}\n{after}".replace("\n ", "\n"))
    assert "PLANTED" not in command(awk, *"\n".join(rows).split("\n"))
    for row in rows:
        assert "PLANTED" not in redacted(row.replace("\n", " "))


@pytest.mark.parametrize("words", ["bearer API-KEY: {}", "bearer token= {}", "token: password: {}"])
def test_a_name_in_the_place_of_a_secret(words: str) -> None:
    """What follows that name is one as well."""
    assert "PLANTED" not in redacted(words.format("PLANTED"))


WORDS = [
    *(
        "sshpass",
        "A=sshpass",
        "/usr/bin/mysql",
        "docker",
        "login",
        "wandb",
        "redis-cli",
        "curl",
        "ssh",
        "a/b",
        "x://hooks.y/Z",
        "x://u:p@y/webhook/Z",
    ),
    *("-p", "-vp", "-pX", "-P", "-a", "-u", "me:X", "-ume:X", "--user=me:X", "--token", "--", "="),
    *(
        "--num-keys",
        "KEY1=X",
        "PASS+=X",
        "'X Y'",
        '\\"X\\"',
        "1:2",
        "&&",
        ";",
        "token:",
        '"',
        "$(a",
    ),
]


@pytest.mark.parametrize("awk", AWKS)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_nodes_and_controller_hide_the_same(awk: str, data: st.DataObject) -> None:
    """What the awk shows of a text, up to the first secret, Python shows as well."""
    rows = st.lists(st.lists(st.sampled_from(WORDS)).map(" ".join), min_size=40, max_size=40)
    given_rows = [f"x {row}" for row in data.draw(rows)]
    output = lines(awk, "{ print shown($0) }", "\n".join(given_rows)).split("\n")
    for row, shown in zip(given_rows, output, strict=True):
        assert redacted(row).split(HIDDEN)[0] == shown.split(HIDDEN)[0], row
        assert redacted(shown).startswith(shown.split(HIDDEN)[0])


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=200))
def test_any_text_can_be_looked_at(text: str) -> None:
    """It never fails, and what it returns it would return again."""
    assert redacted(redacted(text)) == redacted(text)


def test_it_takes_time_by_the_length_alone() -> None:
    """A long text of a hostile node costs no more than its length."""
    for text in ("a" * 300_000, "://" * 100_000, "token=" * 50_000, "-" * 300_000, '"' * 300_000):
        redacted(text)
    for text in ("BEGIN " * 50_000, "BEGIN PRIVATE KEY" * 20_000, "password is " * 30_000):
        redacted(text)
    for text in ("token=" + "\\" * 300_000, "sshpass -p " * 30_000, "token=" + '\\"' * 99_999):
        redacted(text)


def test_nodes_and_controller_mean_the_same_names() -> None:
    """One list, in two languages; and none of NCCL's or PyTorch's variables is on it."""
    names = ["HF_TOKEN", "tokenizer", "PWD", "OLDPWD", "MYSQL_PWD", "sort.key", "_pass", "author"]
    names += [*table(), "hfToken", "x-api-key", "--secret", "compass", "monkey", "TOKENISER_KEY"]
    names += ["KEY1", "key_2_", "OPENAI_KEY_PROD", "pw", "MY_PASS_1", "pass_through", "num_keys"]
    names += ["max_pass", "key_size", "keys", "keyboard", "oauth2_token", "--pwds", "auth_type"]
    names += [
        "MYPASS",
        "userpass",
        "dbpwd",
        "userPwd",
        "bypass",
        "forwardpass",
        "single_pass",
        "spwd",
    ]
    for awk in AWKS:
        output = lines(awk, "{ print secret($0) }", "\n".join(names)).split("\n")
        assert [each == "1" for each in output] == [is_secret(each) for each in names]
    assert not [name for name in table() if is_secret(name)]


def test_the_command_line_of_a_process(tmp_path: Path, shell: str) -> None:
    """As /proc has it: arguments with NULs between them, and newlines inside."""
    folder = tmp_path / "12"
    folder.mkdir()
    (folder / "cmdline").write_bytes(
        b"python\0train\n9\x1b.py\0--api-key\0" + SECRET.encode() + b"\0"
    )
    script = f"{PROCESS}command_line {folder}; command_line {tmp_path}/none"
    done = run(shell, script, env={redaction.SHARED[0]: AWK})
    assert done.stdout.decode().rstrip("\n") == "python train 9?.py --api-key ..."
    assert done.stderr == b""
