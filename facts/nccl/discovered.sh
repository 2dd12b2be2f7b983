# Prints the Python environments with torch that no inventory names: of the python that a launcher
# finds, those of the training user's running trainers, and of conda's list. For each a line
# `environment<tab>FOLDER<tab>HOW`, then a line of JSON or `problem<tab>REASON`; `more<tab>N`: so
# many were not asked. Sets $user, $home and at_home before: env/training_user.sh.
eval "$gn_owner"
# shellcheck disable=SC2034 # of $gn_environment
named=yes
tab=$(printf '\t')
# Processes of containers have other files at the same paths.
space=$(readlink /proc/self/ns/mnt)
of_trainers() {
  parents=' ' looked=0 uid=${gn_uid-}
  [ "$user" = "${gn_me-}" ] || uid=$(id -u "$user") || return
  for process in /proc/[0-9]*; do
    read -r name 2>/dev/null <"$process/comm" || continue
    case $name in (python* | pt_main* | deepspeed* | accelerate* | torchrun* | ray*) ;; (*) continue ;; esac
    [ "$looked" -lt 32 ] || break
    pid=${process##*/}
    parent=$(sed -n 's/^PPid:[[:space:]]*//p; s/^Uid:[[:space:]]*/ /p' "$process/status" 2>/dev/null)
    # Another user's process decides nothing about the jobs of this one.
    owner=${parent#* } parent=${parent%%[!0-9]*}
    [ "${owner%%[!0-9]*}" = "$uid" ] || continue
    # A data loader's worker has the files of its trainer.
    case $parents in (*" $parent "*) parents="$parents$pid "; continue ;; esac
    [ "$(readlink "$process/ns/mnt" 2>/dev/null)" = "$space" ] || continue
    looked=$((looked + 1))
    folder=$(sed -n 's,^[^/]*\(/.*\)/lib[^/]*/python3[^/]*/[a-z]*-packages/torch/.*,\1,p' \
      "$process/maps" 2>/dev/null | head -n 1)
    if [ -z "$folder" ]; then
      line=$({ tr '\n\0' '?\n' <"$process/cmdline"; } 2>/dev/null | head -n 8)
      case $line in (*accelerate* | *deepspeed* | *torchrun* | *torch.distributed*) ;; (*) continue ;; esac
      folder=$(printf '%s\n' "$line" | sed -n '1s,^\(/.*\)/bin/[^/]*$,\1,p')
    fi
    parents="$parents$pid "
    [ -z "$folder" ] || printf '%s\tpid %s\n' "$folder" "$pid"
  done
}
of_launcher() {
  asked='command -v python3; command -v python'
  if [ "$user" = "${gn_me:-$(id -un)}" ]; then
    paths=$(eval "$asked")
  elif [ "${gn_uid:-$(id -u)}" = 0 ]; then
    paths=$(cd / && env -i PATH="$PATH" SSH_CLIENT='127.0.0.1 0 22' SHLVL=0 \
      su -s /bin/bash "$user" -c "$asked" 2>/dev/null 3>&- 9>&- | head -c 65536)
  fi
  printf '%s\n' "$paths" | while IFS= read -r path; do
    case $path in
      (*/shims/python*) path=$(of_shim "$path")/bin/python3 ;; # pyenv's
    esac
    case $path in (/*/bin/python*) ;; (*) continue ;; esac
    # Python finds its packages beside its real file, unless it is one of a venv.
    [ -e "${path%/bin/*}/pyvenv.cfg" ] || path=$(readlink -f "$path") || continue
    printf '%s\tPATH\n' "${path%/bin/*}"
  done
}
# runs ACCOUNT: prints who runs what that account owns. What another user's files and processes name
# runs as that user, never as the owner whom that user chose.
runs() {
  [ "$user" != "$me" ] || { printf '%s\n' "$1"; return; }
  case $1 in
    (root | "$user") printf '%s\n' "$user" ;;
    (*) echo "$1 owns it, and $user runs only what is root's or its own"; return 1 ;;
  esac
}
of_shim() (
  # shellcheck disable=SC2034 # of as_account
  owner_seconds=5
  account=$me
  [ "$me" != root ] || { account=$(owner_of "$1") && account=$(runs "$account"); } || exit 1
  as_account "$account" "$1" -I -c 'import sys; print(sys.prefix)'
)
of_conda() {
  at_home '[ ! -f "$home/.conda/environments.txt" ] ||
    head -c 65536 "$home/.conda/environments.txt" 2>/dev/null' |
    sed -n "s/^\(\/.*\)\$/\1${tab}conda/p" | head -n 100
}
has_torch() {
  [ -x "$1/bin/python3" ] || [ -x "$1/bin/python" ] || return 1
  set -- "$1"/lib*/python3*/*-packages/torch/version.py "$1"/local/lib*/python3*/*-packages/torch/version.py
  [ "${1%%/lib*}" != /usr ] || set -- "$@" "$home"/.local/lib/python3*/site-packages/torch/version.py
  for file; do [ ! -f "$file" ] || return 0; done
  return 1
}
began=$(date +%s) known=' ' count=0 more=0 most=@most@
{ of_launcher; of_trainers; of_conda; } | {
  while IFS=$tab read -r prefix how; do
    case $prefix in (*[!\ -~]*) continue ;; esac
    has_torch "$prefix" && real=$(cd -P -- "$prefix" 2>/dev/null && pwd) || continue
    case $known in (*"$tab$real$tab"*) continue ;; esac
    known="$known$tab$real$tab"
    # Conda lists what others own as well, and may be closed: no job is known to use it.
    if [ "$how" = conda ] && owner=$(owner_of "$prefix" 2>/dev/null); then
      case $owner in (root | "$user") ;; (*) [ "$user" = root ] || continue ;; esac
    fi
    [ "$count" -lt "$most" ] || { more=$((more + 1)); continue; }
    count=$((count + 1))
    printf 'environment\t%s\t%s\n' "$prefix" "$how"
    if [ $(($(date +%s) - began)) -ge "$found_seconds" ]; then
      printf 'problem\tnot asked: the others took %s s\n' "$found_seconds"
      continue
    fi
    if output=$( (eval "$gn_environment") 2>&1); then
      printf '%s\n' "$output" | tail -n 1
    else
      printf 'problem\t%s\n' "$(printf '%s\n' "$output" | tail -n 1 | cut -c 1-300)"
    fi
  done
  [ "$more" = 0 ] || printf 'more\t%s\n' "$more"
}
