# libcuda: prints the libcuda that a program loads; nothing if there is none. LD_LIBRARY_PATH
# precedes the cache of the loader, $cache.
libcuda() (
  set -f; IFS=:
  for folder in ${LD_LIBRARY_PATH:-}; do
    [ -z "$folder" ] || [ ! -f "$folder/libcuda.so.1" ] || { echo "$folder/libcuda.so.1"; exit; }
  done
  echo "$cache" | sed -n 's/^[[:space:]]*libcuda\.so\.1 (libc6,[^)]*) => //p' | head -n 1
)
