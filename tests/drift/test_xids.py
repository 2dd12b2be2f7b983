"""The table of Xid errors: each row has words that are known, and each code one row."""

from __future__ import annotations

from collections import Counter

from gpu_node.diagnose.cause import causes
from gpu_node.drift import xids
from gpu_node.drift.tables import rows


def test_each_row_is_understood() -> None:
    """Whose it is, what a person does, the cause that `diagnose` names, and the page it is from."""
    for each in xids.table().values():
        assert each.whose in ("hardware", "driver", "application", "none"), each
        assert each.action in xids.DOES, each
        assert each.cause == "-" or each.cause in causes(), each
        assert each.source in (xids.CATALOG, xids.CATALOG.replace("analyzing-xid-catalog", "index"))


def test_a_code_has_one_row() -> None:
    """The last of two would count."""
    codes = Counter(code for row in rows("xids.tsv") for code in row["codes"].split())
    assert [code for code, times in codes.items() if times > 1] == []


def test_what_follows_from_another_error_is_no_alarm() -> None:
    """NVSentinel pull request 1629 and issue 1710: healthy nodes were taken out for Xid 45."""
    assert not any(xids.table()[code].is_alarm for code in (13, 31, 43, 45, 63, 94, 154))
    assert all(xids.table()[code].is_alarm for code in (48, 64, 74, 79, 95, 109, 119, 120, 140))
