# loader_cache: prints the lines of the loader's cache about the driver's libraries.
loader_cache() {
  { "$(command -v ldconfig || echo /sbin/ldconfig)" -p || echo failed; } | awk '
    $0 == "failed" { exit 1 }
    /^[ \t]*lib(nvidia-ml|cuda)\.so\.1 \(libc6,[^)]*\) => /'
}
# in_cache NAME: prints the first path of a library in $cache.
in_cache() {
  while read -r line; do
    case $line in ("$1 "*) printf '%s\n' "${line#*") => "}"; return ;; esac
  done <<END
$cache
END
}
# libcuda: prints the libcuda that a program loads; nothing if there is none. LD_LIBRARY_PATH
# precedes the cache of the loader, $cache.
libcuda() (
  set -f; IFS=:
  for folder in ${LD_LIBRARY_PATH:-}; do
    [ -z "$folder" ] || [ ! -f "$folder/libcuda.so.1" ] || { echo "$folder/libcuda.so.1"; exit; }
  done
  unset IFS
  in_cache libcuda.so.1
)
