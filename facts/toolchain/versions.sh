# Prints `KIND<tab>PATH<tab>TEXT` for the CUDA toolkit, gcc and Python that a build would use. PATH is
# that of a launcher's non-interactive shell: the probe runs in such a shell.
eval "$gn_owner"
# shellcheck disable=SC2034
owner_seconds=5
say() { printf '%s\t%s\t%s\n' "$1" "$2" "$(printf '%s' "$3" | tr '\001-\037\177' '?' | cut -c 1-200)"; }
# of_program PATH: what it prints about its version.
of_program() {
  account=${gn_me:-$(id -un)}
  [ "$account" != root ] || account=$(owner_of "$1" 2>&1) || { echo "$account"; return; }
  as_account "$account" env LD_LIBRARY_PATH="${LD_LIBRARY_PATH-}" "$1" --version 2>&1
}
# In this order, as torch's cpp_extension does: CUDA_HOME, nvcc in PATH, /usr/local/cuda.
nvcc=$(command -v nvcc) || nvcc=/usr/local/cuda/bin/nvcc
home=${CUDA_HOME:-${CUDA_PATH:-}}
[ -n "$home" ] || [ ! -e "$nvcc" ] || home=${nvcc%/bin/*}
if [ -n "$home" ] && [ -e "$home/bin/nvcc" ]; then
  text=
  for file in "$home/version.json" "$home/version.txt" "$home"/targets/*/include/cuda.h \
    "$home/include/cuda.h"; do
    [ -f "$file" ] && [ -r "$file" ] || continue
    text=$(head -c 4194304 "$file" | awk '
      /"cuda"/ { within = 1 }
      within && /"version"/ { gsub(/[^0-9.]/, ""); print; exit }
      /^CUDA Version / { print $3; exit }
      /^#define CUDA_VERSION / { print "number " $3; exit }')
    [ -z "$text" ] || break
  done
  # Debian's own package has no such file.
  [ -n "$text" ] || text=$(of_program "$home/bin/nvcc" | sed -n 's/.*release \([0-9.]*\),.*/\1/p')
  say cuda "$home" "${text:-unknown}"
fi
path=$(command -v gcc) || path=
case $path in (/*) say gcc "$path" "$(of_program "$path" | head -n 1)" ;; esac
# The name of its real file has the version that matters, at no cost: python3.11.
path=$(command -v python3) || path=
real=$(readlink -f "$path" 2>/dev/null) || real=$path
case $path:$real in
  (/*:*/python3.[0-9]*) say python3 "$path" "Python ${real##*/python}" ;;
  (/*) say python3 "$path" "$(of_program "$path" | head -n 1)" ;;
esac
