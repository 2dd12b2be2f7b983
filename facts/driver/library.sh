# Prints the driver's libraries: their file names end in the version of the driver. libcuda may be
# from another driver: cuda-compat has one, and LD_LIBRARY_PATH precedes the cache of the loader.
# shellcheck disable=SC2034 # for in_cache
cache=$(loader_cache) || exit 1
path=$(in_cache libnvidia-ml.so.1)
[ -z "$path" ] || readlink -f "$path"
cuda=$(libcuda)
[ -z "$cuda" ] || printf 'cuda %s\n' "$(readlink -f "$cuda")"
