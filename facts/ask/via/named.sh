[ -n "${SLURMD_NODENAME-}" ] || { echo '@unnamed@'; exit 1; }
