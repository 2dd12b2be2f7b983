"""The section about the next boot, asked by root and by another user, in each kind of sh."""

from __future__ import annotations

import shlex
import shutil

import pytest
from pyinfra.api import StringCommand

from gpu_node.facts.driver.kernels import SECTIONS, Boot, parse_boot, parse_kernels
from gpu_node.facts.probe.frame import DEFAULT_BYTES
from gpu_node.facts.probe.protocol import Unreadable
from tests.node_scripts import run_apart
from tests.shells import SHELLS

(NEXT,) = (each for each in SECTIONS if each.name == "driver.next")
# A machine below /mnt, whose default is the entry that grubenv names. As grubby of Rocky does, the
# stand-in takes a grubenv that it cannot read for an empty one, and names the first entry.
MACHINE = r"""
mount -t tmpfs -o mode=755 tmpfs /mnt; cd /mnt; umask 022
mkdir -p boot/grub2 boot/loader/entries boot/efi etc/default bin
cat >boot/grub2/grub.cfg <<'END'
set default="${saved_entry}"
menuentry 'New' {
  linux /boot/vmlinuz-2
}
menuentry 'Old' {
  linux /boot/vmlinuz-1
}
END
echo saved_entry=1 >boot/grub2/grubenv
cat >bin/grubby <<'END'
#!/bin/sh
grep -qs saved_entry /mnt/boot/grub2/grubenv && echo /boot/vmlinuz-1 || echo /boot/vmlinuz-2
END
printf '#!/bin/sh\ncat /mnt/boot/grub2/grubenv\n' >bin/grub2-editenv
chmod 755 bin/*
"""
CLOSED = {
    "/mnt/boot": "chmod 700 boot",
    "/mnt/boot/grub2": "chmod 700 boot/grub2",
    "/mnt/boot/grub2/grub.cfg": "chmod 600 boot/grub2/grub.cfg",
    "/mnt/boot/grub2/grubenv": "chmod 600 boot/grub2/grubenv",
    "/mnt/boot/loader/entries": "chmod 700 boot/loader/entries",
    "/mnt/etc/grub2-efi.cfg": "mv boot/grub2/grub.cfg boot/efi; chmod 700 boot/efi; "
    "ln -s ../boot/efi/grub.cfg etc/grub2-efi.cfg",
}


def asked(shell: str, user: str, change: str = "") -> Boot:
    """What the section finds, asked as a user."""
    command = NEXT.command
    for path in ("/boot", "/etc/default", "/etc/grub2-efi.cfg"):
        command = command.replace(f" {path}", f" /mnt{path}")
    command = f"PATH=/mnt/bin:$PATH\n{command}"
    if user != "root":
        words = [str(shutil.which("setpriv")), f"--reuid={user}", "--clear-groups"]
        command = f"exec {shlex.join([*words, *SHELLS[shell], '-c', command])}"
    done = run_apart(StringCommand(command), shell, f"{MACHINE}\n{change}")
    assert (done.code, done.err) == (0, "")
    return parse_boot(done.out)


def test_any_user_may_read_it(shell: str) -> None:
    """As on Debian: nothing is closed, and grubby is believed."""
    boot = asked(shell, "nobody")
    assert (boot.closed, boot.grubby, boot.saved) == (None, "/boot/vmlinuz-1", "1")
    assert boot.default == "${saved_entry}"
    assert [each.kernel for each in boot.entries] == ["2", "1"]


@pytest.mark.parametrize("path", CLOSED)
def test_what_only_root_can_read(shell: str, path: str) -> None:
    """It is named, and grubby is not asked, as it would name the wrong kernel."""
    boot = asked(shell, "nobody", CLOSED[path])
    assert (boot.closed, boot.grubby) == (path, None)


@pytest.mark.parametrize("path", CLOSED)
def test_root_can_read_it(shell: str, path: str) -> None:
    """Nothing is closed to root."""
    boot = asked(shell, "root", CLOSED[path])
    assert (boot.closed, boot.grubby) == (None, "/boot/vmlinuz-1")


@pytest.mark.parametrize(
    "menu",
    [
        ["submenu 'a' $menuentry_id_option 'b' {"] * 15_000 + ["}"] * 15_000,
        ["menuentry 'a' $menuentry_id_option 'b c' {", "linux /boot/vmlinuz-1", "}"] * 12_000,
    ],
    ids=["deep", "long"],
)
def test_a_menu_that_no_node_has(menu: list[str]) -> None:
    """The places of its entries would fill the memory, and each is looked up among all."""
    text = "\n".join(f"menu {line}" for line in menu)
    assert len(text) < DEFAULT_BYTES
    with pytest.raises(Unreadable, match="a menu of more than"):
        parse_boot(text)


@pytest.mark.parametrize("name", ["6.1\x1b[8m", "a b", "../x", "-x", "x" * 200, ""])
def test_a_kernel_of_no_such_name(name: str) -> None:
    """Its name is in the names of operations, which pyinfra prints as they are."""
    of_one = "\tyes\tyes\t\t\t\t"
    assert parse_kernels(f"running\t6.1.0-1.el9~x+1\nkernel\t6.1.0_2{of_one}").installed
    for text in (f"running\t{name}", f"running\t6.1\nkernel\t{name}{of_one}"):
        with pytest.raises(Unreadable):
            parse_kernels(text)
