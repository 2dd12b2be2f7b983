"""The text of a PAM stack to which a line is added: once, at its end, and nothing else changes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_node.deploy.limits.operations import with_module
from gpu_node.drift.limits.rules import PAM_LINE


@pytest.mark.parametrize(
    ("text", "is_added"),
    [
        ("", True),
        ("auth required pam_unix.so\n", True),
        ("auth required pam_unix.so", True),
        ("# session required pam_limits.so\n", True),
        ("session required pam_unix.so # not pam_limits\n", True),
        ("session required pam_limits.so\n", False),
        ("-session\toptional\t/lib/security/pam_limits.so conf=/etc/x\n", False),
    ],
)
def test_the_line_is_added_unless_it_is_there(text: str, is_added: bool) -> None:
    """A comment loads no module."""
    new = with_module(text, PAM_LINE)
    assert (new != text) == is_added
    assert new.count(f"\n{PAM_LINE}\n") == is_added


@given(st.text(st.characters(max_codepoint=255, exclude_characters="\r")))
def test_the_users_bytes_stay(text: str) -> None:
    """What was there is in front, whole; a second run adds nothing."""
    new = with_module(text, PAM_LINE)
    assert new.startswith(text)
    assert with_module(new, PAM_LINE) == new
