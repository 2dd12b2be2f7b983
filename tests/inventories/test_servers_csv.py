"""Lists of new servers: what is read, and the message about each bad line."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpu_node.inventories.errors import InventoryError
from gpu_node.inventories.servers_csv import Newcomer, read_csv

KEY = f"SHA256:{'aB3/+' * 8}xyz"
ONE = Newcomer("a", "192.0.2.1", None, 1)
GOOD = {
    "name and address": ("a,192.0.2.1\n", [ONE]),
    "no newline at the end": ("a,192.0.2.1", [ONE]),
    "a group, and blanks around": (
        " v100-02 , 192.0.2.2 , v100 \n",
        [Newcomer("v100-02", "192.0.2.2", "v100", 1)],
    ),
    "a spreadsheet's: its mark, line ends, quotes, empty cells and rows": (
        '\ufeff"Name","Address","Group"\r\n"a","192.0.2.1",\r\n,,\r\nb,node.example,v100,,\r\n',
        [
            Newcomer("a", "192.0.2.1", None, 2),
            Newcomer("b", "node.example", "v100", 4),
        ],
    ),
    "comments and blank lines, before the columns' names too": (
        "# rack 2\n\nname,address\n  # a,192.0.2.9\na,192.0.2.1\n",
        [Newcomer("a", "192.0.2.1", None, 5)],
    ),
    "columns in another order, by their names": (
        "Address, name\n192.0.2.1,a\n",
        [Newcomer("a", "192.0.2.1", None, 2)],
    ),
    "a fingerprint, with and without a group": (
        f"a,192.0.2.1,,{KEY}\nb,192.0.2.2,v100,{KEY}\nc,192.0.2.3\n",
        [
            Newcomer("a", "192.0.2.1", None, 1, KEY),
            Newcomer("b", "192.0.2.2", "v100", 2, KEY),
            Newcomer("c", "192.0.2.3", None, 3),
        ],
    ),
    "a fingerprint and no column of groups": (
        f"name,address,fingerprint\na,192.0.2.1,{KEY}\nb,192.0.2.2\n",
        [Newcomer("a", "192.0.2.1", None, 2, KEY), Newcomer("b", "192.0.2.2", None, 3)],
    ),
    "IPv6": ("a,2001:db8::1\n", [Newcomer("a", "2001:db8::1", None, 1)]),
}

COLUMNS = "allowed: name,address[,group[,fingerprint]]"
HEADER = "allowed: name and address, and if wanted group and fingerprint, once each"
NAME = "allowed: a host name: lower-case letters, digits, - and ., such as a100-01"
ADDRESS = "allowed: an IP address or a host name"
FINGERPRINT = "allowed: SHA256: and 43 base64 characters, as ssh-keygen -lf shows it"
GROUP = "allowed: lower-case letters, digits and -, such as a100-01"
BAD = {
    "nothing": ("# none\nname,address\n", [f"1: found no line with a machine; {COLUMNS}"]),
    "too few and too many": (
        "a\nb;192.0.2.1\nb,192.0.2.1,g,,root\n",
        [
            f"1: found 'a' (1 column); {COLUMNS}",
            f"2: found 'b;192.0.2.1' (1 column; separate columns by a comma, not ;); {COLUMNS}",
            f"3: found 'b,192.0.2.1,g,,root' (5 columns); {COLUMNS}",
        ],
    ),
    "a spreadsheet's of another country, and tabs": (
        "name;address\na\t192.0.2.1\tv100\n",
        [
            f"1: found 'name;address' (1 column; separate columns by a comma, not ;); {COLUMNS}",
            "2: found 'a\\t192.0.2.1\\tv100' (1 column; separate columns by a comma, not a tab); "
            f"{COLUMNS}",
        ],
    ),
    "names that mean this machine": (
        "localhost,192.0.2.1\nlocalhost.localdomain,192.0.2.2\nip6-localhost,192.0.2.3\n"
        "gpu.localhost,192.0.2.4\n",
        [
            f"{line}: name: found '{name}' (reserved: it resolves to the local machine); {NAME}"
            for line, name in enumerate(
                ("localhost", "localhost.localdomain", "ip6-localhost", "gpu.localhost"), 1
            )
        ],
    ),
    "each wrong in itself": (
        "V100_02,192.0.2.2\nb,192.0.2.256,-g\n,192.0.2.3\nb,192.0.2.4:22\n",
        [
            f"1: name: found 'V100_02'; {NAME}",
            f"2: address: found '192.0.2.256' (not an IPv4 address); {ADDRESS}; next: write four "
            "numbers, each 0 to 255, without leading zeros",
            f"2: group: found '-g' (a leading - would be read as an option); {GROUP}",
            f"3: name: found ''; {NAME}",
            f"4: address: found '192.0.2.4:22' (a list has no port); {ADDRESS}; next: write "
            "192.0.2.4, and give --port 22 for all lines",
            "4: name: found 'b' (also on line 2); allowed: one line each",
        ],
    ),
    "a login in place of an address": (
        "a,root@192.0.2.4:2311\n",
        [
            f"1: address: found 'root@192.0.2.4:2311' (a list has no user and no port); {ADDRESS}; "
            "next: write 192.0.2.4, and give --user root --port 2311 for all lines",
        ],
    ),
    "more than the columns that are named": (
        "address,name\n192.0.2.1,a,v100\n192.0.2.2\n",
        [
            "2: found '192.0.2.1,a,v100' (3 columns); allowed: address,name",
            "3: found '192.0.2.2' (1 column); allowed: address,name",
        ],
    ),
    "a quote that does not end": (
        f"{'x' * 140_000},192.0.2.1\n",
        [f"1: found '{'x' * 77}...' (0 columns); {COLUMNS}"],
    ),
    "columns that lack one": ("name,group\n", [f"1: found 'name,group'; {HEADER}"]),
    "a column twice": (
        "name,address,name\na,192.0.2.1\n",
        [f"1: found 'name,address,name'; {HEADER}"],
    ),
    "a column that is none": (
        "name,address,rack\na,192.0.2.1\n",
        [f"1: found 'name,address,rack'; {HEADER}"],
    ),
    "a column that is misspelt": (
        "name,adress,group\na,192.0.2.1,v100\n",
        [f"1: found 'name,adress,group'; {HEADER}"],
    ),
    "names that are none, and fingerprints": (
        f"192.0.2.1,a\nfe80::1,b\n{'x' * 64},c\nd,192.0.2.4,,MD5:aa:bb\ne,192.0.2.5,,{KEY}=\n",
        [
            f"1: name: found '192.0.2.1' (an address, not a name); {NAME}",
            f"2: name: found 'fe80::1' (an address, not a name); {NAME}",
            f"3: name: found '{'x' * 64}'; {NAME}",
            f"4: fingerprint: found 'MD5:aa:bb'; {FINGERPRINT}",
            f"5: fingerprint: found '{KEY}='; {FINGERPRINT}",
        ],
    ),
    "an address in two spellings": (
        "a,2001:db8::1\nb,2001:DB8:0::1\n",
        [
            "2: address: found '2001:DB8:0::1' (a has it too, on line 1); "
            "allowed: one address a host"
        ],
    ),
    "columns' names further down": (
        "a,192.0.2.1\nname,address_\n",
        [f"2: address: found 'address_'; {ADDRESS}"],
    ),
}


@pytest.mark.parametrize(("text", "found"), GOOD.values(), ids=GOOD)
def test_a_good_list(text: str, found: list[Newcomer], tmp_path: Path) -> None:
    path = tmp_path / "new.csv"
    path.write_bytes(text.encode())
    assert read_csv(path) == found


@pytest.mark.parametrize(("text", "messages"), BAD.values(), ids=BAD)
def test_a_bad_list(text: str, messages: list[str], tmp_path: Path) -> None:
    """All at once, line by line."""
    path = tmp_path / "new.csv"
    path.write_bytes(text.encode())
    with pytest.raises(InventoryError) as error:
        read_csv(path)
    assert str(error.value).splitlines() == [f"{path}:{line}" for line in messages]


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "new.csv"
    with pytest.raises(InventoryError, match=r"new\.csv: found no such file or directory; allowed"):
        read_csv(path)
    with pytest.raises(InventoryError, match=f"^{tmp_path}: found a directory; allowed: a file"):
        read_csv(tmp_path)
    # As Excel saves a CSV in Chinese, and its "Unicode text".
    for raw in (b"a,\xff\n", "集群".encode("gbk"), "a,10.0.0.4".encode("utf-16")):
        path.write_bytes(raw)
        with pytest.raises(InventoryError, match=r"new\.csv: found bytes .* UTF-8 text \(byte "):
            read_csv(path)
