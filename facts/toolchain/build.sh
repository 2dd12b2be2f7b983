# What a job's build of a CUDA extension finds: the shell is that of a launcher (see env/launcher.sh),
# and the order is that of torch's cpp_extension.py. Only where there is an nvcc, the compilers are
# asked. Nothing is built. Needs $user, $me, $home and at_home of training_user.sh,
# and $gn_owner.
# shellcheck disable=SC2034,SC2154
eval "$gn_owner"
owner_seconds=4
names='PATH CUDA_HOME CUDA_PATH CXX CC NVCC_CCBIN TORCH_EXTENSIONS_DIR XDG_CACHE_HOME DS_SKIP_CUDA_CHECK TORCH_DONT_CHECK_COMPILER_ABI'
way=$PATH
if [ "$user" != "$me" ]; then
  [ "${gn_uid:-$(id -u)}" = 0 ] || { echo "only root and $user can tell what a shell of $user has"; exit 1; }
  given=$(cd / && env -i PATH="$PATH" SSH_CLIENT='127.0.0.1 0 22' SHLVL=0 \
    su -s /bin/bash "$user" -c "for name in $names; do printf '\ngn:%s=%s' \$name \"\${!name}\"; done" \
    2>/dev/null) || { echo "cannot start a shell of $user"; exit 1; }
  for name in $names; do
    value=$(printf '%s\n' "$given" | sed -n "s/^gn:$name=//p" | tail -n 1)
    if [ "$name" = PATH ]; then way=$value; else eval "$name=\$value"; fi
  done
fi
# find_program NAME: sets $at to a program in the PATH of the launcher's shell.
find_program() {
  at=
  case $1 in /*) [ ! -x "$1" ] || at=$1; return ;; esac
  set -f; IFS=:
  for folder in $way; do
    case $folder in
      /*) [ ! -f "$folder/$1" ] || [ ! -x "$folder/$1" ] || { at=$folder/$1; break; } ;;
    esac
  done
  set +f; unset IFS
}
# ask LABEL PATH ARGUMENT...: prints what a program prints, in one line, as its owner runs it.
ask() {
  label=$1 at=$2
  shift 2
  real=$(readlink -f "$at" || echo "$at")
  output=$(as_owner "$at" "$at" "$@" 2>&1 | head -c 2000 | tr '\n\t' '  ')
  printf '%s\t%s\t%s\t%s\n' "$label" "$at" "$real" "$output"
}
printf 'path\t%s\n' "$way"
[ "${DS_SKIP_CUDA_CHECK-}" != 1 ] || echo skips
case ${TORCH_DONT_CHECK_COMPILER_ABI-} in ON | 1 | YES | TRUE | Y) echo unchecked ;; esac
cuda=${CUDA_HOME:-${CUDA_PATH-}}
[ -n "$cuda" ] || {
  find_program nvcc
  cuda=${at%/*} cuda=${cuda%/*}
  [ -n "$cuda" ] || [ ! -d /usr/local/cuda ] || cuda=/usr/local/cuda
}
case $cuda in
  /*) printf 'cuda\t%s\n' "$cuda" ;;
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
      '#!'*)
        first=${first#??} first=${first# }
        ! head -c 4096 "$at" | grep -q 'ninja import' || kind=broken
        [ "$kind" = other ] || [ ! -x "${first%% *}" ] || kind=ninja ;;
      *) ! head -c 4194304 "$at" | grep -q 'build stopped' || kind=ninja ;;
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
built=${TORCH_EXTENSIONS_DIR:-${XDG_CACHE_HOME:-$home/.cache}/torch_extensions}
[ "$user" != "$me" ] || [ -d "$built" ] || exit 0
# shellcheck disable=SC2016 # the owner of the home reads it
at_home "built=$(owner_quoted "$built")"'
[ -d "$built" ] || exit 0
for file in "$built"/*/build.ninja "$built"/*/*/build.ninja; do
  [ -f "$file" ] && [ -r "$file" ] || continue
  folder=${file%/*}
  set -- "$folder"/*.so
  [ -f "$1" ] || continue
  words=$(head -c 65536 "$file" | grep -o -E -e "code=\[?(sm|compute)_[0-9]+[a-z]?" -e "-D__AVX[0-9]+__" |
    sort -u | tr "\n" " ")
  printf "built\t%s\t%s\n" "$folder" "$words"
done | head -n 64'
