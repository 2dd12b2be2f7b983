"""The probe: one script that asks a node everything, the bounds and forms of what it may answer."""
