# What a job's build of a CUDA extension finds, in the order of torch's cpp_extension.py. Only where
# there is an nvcc, the compilers are asked. Nothing is built. It runs in the shell of a launcher, as
# the user who trains: that user's variables and files may name any program, of any account. Needs
# as_owner of owner.sh, which then runs only what is root's or that user's.
# shellcheck disable=SC2034
owner_seconds=4
way=$PATH PATH=$PATH:/usr/bin:/bin
# find_program NAME: sets $at to a program in the PATH of the launcher's shell.
find_program() {
  at=
  case $1 in (/*) [ ! -x "$1" ] || at=$1; return ;; esac
  set -f; IFS=:
  for folder in $way; do
    case $folder in
      (/*) [ ! -f "$folder/$1" ] || [ ! -x "$folder/$1" ] || { at=$folder/$1; break; } ;;
    esac
  done
  set +f; unset IFS
}
# ask LABEL PATH ARGUMENT...: prints what a program prints, in one line, as `as_owner` runs it.
ask() {
  label=$1 at=$2
  shift 2
  real=$(readlink -f "$at" || echo "$at")
  output=$(as_owner "$at" "$at" "$@" 2>&1 | head -c 2000 | tr '\n\t' '  ')
  printf '%s\t%s\t%s\t%s\n' "$label" "$at" "$real" "$output"
}
# The last output of ~/.bashrc may have no newline at its end.
printf '\npath\t%s\n' "$way"
[ "${DS_SKIP_CUDA_CHECK-}" != 1 ] || echo skips
case ${TORCH_DONT_CHECK_COMPILER_ABI-} in (ON | 1 | YES | TRUE | Y) echo unchecked ;; esac
cuda=${CUDA_HOME:-${CUDA_PATH-}}
[ -n "$cuda" ] || {
  find_program nvcc
  cuda=${at%/*} cuda=${cuda%/*}
  [ -n "$cuda" ] || [ ! -d /usr/local/cuda ] || cuda=/usr/local/cuda
}
case $cuda in
  (/*) printf 'cuda\t%s\n' "$cuda" ;;
esac
if [ -f "$cuda/bin/nvcc" ] && [ -x "$cuda/bin/nvcc" ]; then
  ask nvcc "$cuda/bin/nvcc" -V
  header=${real%/bin/*}/include/crt/host_config.h
  [ ! -f "$header" ] || head -c 65536 "$header" |
    sed -n 's/.*gcc versions later than \([0-9]*\) are not supported.*/limit\t\1/p' | head -n 1
  # A value such as `ccache g++` names the compiler last.
  cxx=${CXX:-c++} host=${CC:-${NVCC_CCBIN:-gcc}}
  find_program "${cxx##* }"
  [ -z "$at" ] || ask cxx "$at" -dumpfullversion -dumpversion
  [ ! -d "$host" ] || host=$host/gcc
  find_program "${host##* }"
  [ -z "$at" ] || ask host "$at" -dumpfullversion -dumpversion
  find_program ninja
  [ -z "$at" ] || {
    # Another program of that name detects intruders: do not run it.
    kind=other
    IFS= read -r first <"$at" 2>/dev/null || first=
    case $first in
      ('#!'*)
        first=${first#??} first=${first# }
        ! head -c 4096 "$at" | grep -q 'ninja import' || kind=broken
        [ "$kind" = other ] || [ ! -x "${first%% *}" ] || kind=ninja ;;
      (*) ! head -c 4194304 "$at" | grep -q 'build stopped' || kind=ninja ;;
    esac
    printf 'ninja\t%s\t%s\n' "$at" "$kind"
  }
fi 2>/dev/null
for folder in /usr/local/cuda-*/bin/nvcc /opt/rh/*toolset-*/root/usr/bin/g++ /usr/bin/g++-[0-9]*; do
  [ ! -x "$folder" ] || printf 'there\t%s\n' "$folder"
done
find_program pdsh
[ -z "$at" ] || printf 'pdsh\t%s\n' "$at"
awk '/^(flags|Features)[ \t]*:/ { sub(/^[^:]*: */, ""); print "flags\t" $0; exit }' /proc/cpuinfo
built=${TORCH_EXTENSIONS_DIR:-${XDG_CACHE_HOME:-${HOME:-}/.cache}/torch_extensions}
# loads VARIABLE FOLDER: prints both, with the next folder above that exists, its links followed. It
# goes there.
loads() {
  folder=$2
  case $folder in (/*) ;; (*) return ;; esac
  while [ ! -d "$folder/" ]; do folder=${folder%/*}; done
  ! cd -P -- "$folder/" 2>/dev/null || printf '%s\t%s\t%s\n' "$1" "$2" "$PWD"
}
{
  loads TORCHINDUCTOR_CACHE_DIR "${TORCHINDUCTOR_CACHE_DIR:-${TMPDIR:-/tmp}}"
  loads TRITON_CACHE_DIR "${TRITON_CACHE_DIR:-${TRITON_HOME:-${HOME:-}}/.triton}"
  loads TORCH_EXTENSIONS_DIR "$built"
} | awk -F '\t' '
  FILENAME != "-" {
    split($0, word, " "); point = word[5]
    gsub(/\\040/, " ", point); gsub(/\\011/, "\t", point); gsub(/\\134/, "\\", point)
    flags[point] = word[6]
    next
  }
  {
    nearest = ""
    for (point in flags)
      if ((point == "/" || $3 == point || index($3, point "/") == 1) &&
        length(point) > length(nearest)) nearest = point
    if ("," flags[nearest] "," ~ /,noexec,/) print "noexec\t" $1 "\t" $2 "\t" nearest
  }' /proc/self/mountinfo -
[ -d "$built" ] || exit 0
for file in "$built"/*/build.ninja "$built"/*/*/build.ninja; do
  [ -f "$file" ] && [ -r "$file" ] || continue
  folder=${file%/*}
  set -- "$folder"/*.so
  [ -f "$1" ] || continue
  words=$(head -c 65536 "$file" | grep -o -E -e 'code=\[?(sm|compute)_[0-9]+[a-z]?' -e '-D__AVX[0-9]+__' |
    sort -u | tr '\n' ' ')
  printf 'built\t%s\t%s\n' "$folder" "$words"
done | head -n 64
