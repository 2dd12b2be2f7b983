# Prints the driver's libraries: their file names end in the version of the driver. libcuda may be
# from another driver: cuda-compat has one, and LD_LIBRARY_PATH precedes the cache of the loader.
ldconfig=$(command -v ldconfig || echo /sbin/ldconfig)
cache=$("$ldconfig" -p) || exit 1
path=$(echo "$cache" |
  sed -n 's/^[[:space:]]*libnvidia-ml\.so\.1 (libc6,[^)]*) => //p' | head -n 1)
[ -z "$path" ] || readlink -f "$path"
cuda=$(libcuda)
[ -z "$cuda" ] || printf 'cuda %s\n' "$(readlink -f "$cuda")"
