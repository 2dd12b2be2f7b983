# Prints the driver's libraries: their file names end in the version of the driver. libcuda may be
# from another driver: cuda-compat has one, and LD_LIBRARY_PATH precedes the cache of the loader.
ldconfig=$(command -v ldconfig || echo /sbin/ldconfig)
cache=$("$ldconfig" -p) || exit 1
path=$(echo "$cache" |
  sed -n 's/^[[:space:]]*libnvidia-ml\.so\.1 (libc6,[^)]*) => //p' | head -n 1)
[ -z "$path" ] || readlink -f "$path"
cuda=
set -f; IFS=:
for folder in ${LD_LIBRARY_PATH:-}; do
  [ -z "$folder" ] || [ ! -f "$folder/libcuda.so.1" ] || { cuda=$folder/libcuda.so.1; break; }
done
[ -n "$cuda" ] || cuda=$(echo "$cache" |
  sed -n 's/^[[:space:]]*libcuda\.so\.1 (libc6,[^)]*) => //p' | head -n 1)
[ -z "$cuda" ] || printf 'cuda %s\n' "$(readlink -f "$cuda")"
