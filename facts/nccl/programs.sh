# Prints the usual paths of nccl-tests, which load the system's libnccl, and that library. ldd may
# run the program that it examines.
eval "$gn_owner"
# shellcheck disable=SC2034
owner_seconds=5
ldd=$(command -v ldd) || exit 0
for p in $(command -v all_reduce_perf) /opt/nccl-tests/build/all_reduce_perf \
  /usr/local/nccl-tests/build/all_reduce_perf "$HOME/nccl-tests/build/all_reduce_perf"; do
  [ -x "$p" ] || continue
  account=$(owner_of "$p") || exit 1
  taken=$(as_account "$account" env LD_PRELOAD="$gn_preload" \
    LD_LIBRARY_PATH="${LD_LIBRARY_PATH-}" sh -c 'exec "$@" 2>/dev/null' sh "$ldd" "$p")
  [ $? != 126 ] || exit 1
  taken=$(printf '%s\n' "$taken" | sed -n 's/.*libnccl\.so\.2 => \(\/[^ ]*\).*/\1/p')
  [ -z "$taken" ] || printf '%s\n%s\n' "$p" "$taken"
done
