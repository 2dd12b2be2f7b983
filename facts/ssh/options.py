"""Options of every ssh that we start: it trusts only pinned host keys and forwards nothing."""

from __future__ import annotations

STRICT = (
    *("-o", "BatchMode=yes"),
    *("-o", "StrictHostKeyChecking=yes"),
    *("-o", "ForwardAgent=no"),
    *("-o", "ForwardX11=no"),
    *("-o", "ClearAllForwardings=yes"),
    *("-o", "PermitLocalCommand=no"),
)
