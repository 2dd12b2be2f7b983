"""Permissions below a directory, added for real: root is led nowhere, nothing is taken away."""

from __future__ import annotations

import pytest
from pyinfra.api import StringCommand

from gpu_node.deploy.engine.scripts import script
from gpu_node.drift.workspace.rules import chmod_words
from gpu_node.facts.workspace.below import file_bits
from tests import node_scripts
from tests.node_scripts import Ended, run_apart
from tests.shells import SH

# Models after `chmod -R 766`, in a folder of root; a secret that a link leads to.
MACHINE = """mount -t tmpfs -o mode=755 tmpfs /mnt; cd /mnt
mkdir -p 'models/a/b c' models/mounted secret; echo key >secret/conf; chmod 600 secret/conf
chmod 700 secret
echo x >models/a/config.json; echo x >'models/a/b c/data.bin'; mkfifo models/pipe
printf x >models/run.sh; ln -s /mnt/secret models/link; ln -s /mnt/secret/conf models/a/conf
chmod -R 766 models; chmod 400 models/a/config.json; chmod 700 models/run.sh
chmod 755 models; : >models/setuid; chmod 4700 models/setuid"""
SECRET = '[ "$(stat -c %a secret secret/conf | tr "\\n" " ")" = "700 600 " ]'


def added(mode: str, shell: str, before: str, *after: str, path: str = "/mnt/models") -> Ended:
    """Add the bits of a mode on that machine, after more was done to it."""
    folders, files = chmod_words(mode)
    command = script(
        "directory_below",
        path=path,
        folders=mode,
        files=file_bits(mode),
        add_folders=folders,
        add_files=files,
        most="1000",
        patience="20",
    )
    return run_apart(command, shell, f"{MACHINE}\n{before}", [*after, SECRET])


def modes(wanted: str, *paths: str) -> str:
    """A test that these paths have these modes."""
    return f'[ "$(cd models; stat -c %a {" ".join(paths)} | tr "\\n" " ")" = "{wanted} " ]'


# A module of C may be a file, as `time` is in CentOS 7's Python 2.7: it is looked for in sys.path.
FILES_FIRST = """
cp -L /usr/bin/python3 /mnt/python
cat >/mnt/files-first <<'END'
#!/bin/sh
code=$4
shift 4
exec /mnt/python -E -s -c "import sys, importlib.machinery as machinery
sys.meta_path.insert(0, machinery.PathFinder)
del sys.modules['time']
$code" "$@"
END
chmod 755 /mnt/files-first
mount --bind /mnt/files-first "$(readlink -f /usr/bin/python3)"
for each in os stat sys time traceback linecache; do
  echo 'open("/mnt/ran", "w")' >models/$each.py
done
"""


def test_root_imports_nothing_of_that_folder(shell: str) -> None:
    """Python looks for modules in its working directory, where a user may have put one."""
    done = added("775", shell, FILES_FIRST, modes("777 664", "a", "a/config.json"), "[ ! -e ran ]")
    assert (done.code, done.err) == (0, "")


def test_missing_bits_are_added(shell: str) -> None:
    """Folders get x, files only to be read and written; what was more than wanted stays."""
    done = added(
        "775",
        shell,
        "",
        modes(
            "777 777 664 766 764 4700 755",
            "a",
            "'a/b c'",
            "a/config.json",
            "'a/b c/data.bin'",
            "run.sh",
            "setuid",
            ".",
        ),
    )
    assert (done.code, done.err) == (0, ""), done
    assert "u+rwx,g+rwx,o+rx: 3 changed" in done.out


def test_keys_stay(shell: str) -> None:
    """ssh and sshd refuse keys that others can read or write."""
    before = "mkdir -m 700 models/a/.ssh; echo key >models/a/.ssh/id; chmod 600 models/a/.ssh/id"
    done = added("777", shell, before, modes("700 600", "a/.ssh", "a/.ssh/id"))
    assert done.code == 0, done


def test_no_mount_is_entered(shell: str) -> None:
    """Neither another file system nor another place of the same one."""
    before = """mkdir models/bound; mount --bind secret models/bound
mount -t tmpfs -o mode=700 tmpfs models/mounted; mkdir -m 700 models/mounted/x"""
    after = '[ "$(stat -c %a models/mounted models/mounted/x | tr "\\n" " ")" = "700 700 " ]'
    done = added("775", shell, before, after)
    assert done.code == 0, done


def test_a_users_link_to_the_directory(shell: str) -> None:
    """Who may change the way to it could lead root to any folder."""
    before = "mkdir home; ln -s ../secret home/l; chown -h _apt home home/l"
    done = added("775", shell, before, path="/mnt/home/l")
    assert done.code == 1 and "is reached by a link that others than root can change" in done.err


def test_a_users_own_folder(shell: str) -> None:
    before = "mv models home; chown -R -h _apt home"
    done = added("775", shell, before, '[ "$(stat -c %a:%U home/a)" = 777:_apt ]', path="/mnt/home")
    assert done.code == 0, done


def test_a_name_with_a_newline(shell: str) -> None:
    """A part of it is the name of a file that keeps its mode: the bits are those of folders."""
    before = """: >models/key; chmod 666 models/key; mkdir "models/z
."; mkdir -m 700 "models/z
./key" """
    done = added("775", shell, before, '[ "$(stat -c %a models/key)" = 666 ]')
    assert done.code == 0, done


def test_very_many_entries(shell: str) -> None:
    before = "cd models; seq -f 'many%g' 1100 | xargs touch; cd .."
    done = added("775", shell, before)
    assert done.code == 1 and "not complete, it has very many entries" in done.err, done


# A user who wins the race: after the walk, a file is a link to a secret.
SWAPPING = """mkdir fake; chown _apt models/a
printf '#!/bin/sh\\nPATH=%s\\nfind "$@"; code=$?
case "$*" in *"-type d"*) exit $code ;; esac
rm -f /mnt/models/a/config.json; ln -s /mnt/secret/conf /mnt/models/a/config.json
exit $code\\n' "$PATH" >fake/find; chmod 755 fake/find"""


@pytest.mark.parametrize("shell", [each for each in SH if each != "busybox"])
def test_a_file_that_is_swapped(shell: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The open file is not the one that was found: its mode stays."""
    monkeypatch.setattr(node_scripts, "FIRST_IN_PATH", "/mnt/fake:")
    done = added("775", shell, SWAPPING, "[ -L models/a/config.json ]")
    assert done.code == 1 and "./a/config.json and maybe others stay" in done.err, done


@pytest.mark.parametrize("made", ["mkfifo", "mknod-tty", "ln"])
def test_an_entry_that_is_replaced_after_the_walk(shell: str, made: str) -> None:
    """Root opens neither a pipe, for which it would wait, nor a device, nor follows a link."""
    made = {
        "mkfifo": "mkfifo -m 600",
        "mknod-tty": 'mknod_tty() { mknod -m 600 "$1" c 5 0; }; mknod_tty',
        "ln": "ln -s /mnt/secret/conf",
    }[made]
    folders, files = chmod_words("775")
    command = script(
        "directory_below",
        path="/mnt/models",
        folders="775",
        files=file_bits("775"),
        add_folders=folders,
        add_files=files,
        most="1000",
        patience="20",
    ).get_raw_value()
    walked = '  names=$(named "$@")\n'
    assert command.count(walked) == 1
    swap = f"  rm a/config.json; {made} a/config.json\n"
    only = walked + '  [ "$wanted" = 775 ] || {\n' + swap + "  }\n"
    kept = '[ -L models/a/config.json ] || [ "$(stat -c %a models/a/config.json)" = 600 ]'
    done = run_apart(StringCommand(command.replace(walked, only)), shell, MACHINE, [kept, SECRET])
    assert done.code == 1 and "stay as they are: they changed meanwhile" in done.err, done
