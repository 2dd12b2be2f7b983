"""Options of every ssh that we start: trust only pinned host keys, and forward nothing."""

from __future__ import annotations

STRICT = (
    *("-o", "BatchMode=yes"),
    *("-o", "StrictHostKeyChecking=yes"),
    *("-o", "ForwardAgent=no"),
    *("-o", "ForwardX11=no"),
    *("-o", "ClearAllForwardings=yes"),
    *("-o", "PermitLocalCommand=no"),
)
