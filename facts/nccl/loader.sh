# Prints what a launcher's non-interactive shell has: the probe runs in such a shell.
echo "$LD_LIBRARY_PATH"
echo "$gn_preload"
ldconfig=$(command -v ldconfig || echo /sbin/ldconfig)
[ -x "$ldconfig" ] || exit 0
cache=$("$ldconfig" -p 2>/dev/null) || exit 1
echo "$cache" | sed -n 's/^[[:space:]]*libnccl\.so\.2 .*=> //p'
