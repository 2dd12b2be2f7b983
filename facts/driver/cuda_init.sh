# cuda_init: prints how cuInit ends for the training user, $user, in `cuda` lines; or why it is not
# called. nvidia-smi can work where no program can use CUDA. $output: what nvidia-smi says of each GPU,
# by key. $prefixes: Python environments, for a node that has no other Python. Needs $gn_as_user,
# $gn_owner, $ask_cuda, limited.
cuda_untried() { printf 'cuda untried %s\n' "$1"; exit 0; }
# cuda_python: prints a Python with ctypes that root, or the training user, may run.
cuda_python() {
  for each in /usr/bin/python3 /usr/libexec/platform-python /usr/bin/python /usr/bin/python2; do
    [ ! -x "$each" ] || { echo "$each"; return; }
  done
  for prefix in $prefixes; do
    each=$prefix/bin/python3
    [ -x "$each" ] || continue
    account=$(environment_owner "$prefix" "$each" 2>/dev/null) || continue
    [ "$account" != root ] && [ "$account" != "$user" ] || { echo "$each"; return; }
  done
}
cuda_init() (
  eval "$gn_as_user$gn_owner"
  state=$(printf '%s\n' "$output" | awk -F': ' '
    $1 == "GPU UUID" && $2 ~ /^GPU-/ { gpus++ }
    $1 == "Persistence Mode" && $2 == "Enabled" { on++ }
    $1 == "Compute Mode" && $2 ~ /^(Exclusive|Prohibited)/ { mode = $2 }
    END { print gpus + 0, gpus - on, mode }')
  read -r gpus off mode <<ROWS
$state
ROWS
  [ "$gpus" -gt 0 ] || cuda_untried 'nvidia-smi shows no GPU'
  uid=$(id -u "$user" 2>/dev/null) || cuda_untried "no user $user"
  lacks=
  if [ ! -d /sys/module/nvidia_uvm ]; then lacks=module
  elif [ ! -c /dev/nvidia-uvm ]; then lacks=device; fi
  if [ -n "$lacks" ]; then
    # libcuda runs it by this path; for another user than root it must be setuid.
    helper=/usr/bin/nvidia-modprobe may=
    [ "$uid" != 0 ] || [ ! -x "$helper" ] || may=yes
    [ -z "$(find -L "$helper" -user 0 -perm -4001 2>/dev/null)" ] || may=yes
    printf 'cuda lacks %s%s\n' "$lacks" "${may:+ helped}"
    exit 0
  fi
  [ -z "$mode" ] || cuda_untried "the compute mode is $mode"
  if [ "$off" -gt 0 ]; then
    held=$(ls -l /proc/[0-9]*/fd 2>/dev/null | awk '/ \/dev\/nvidia[0-9]+$/ && !seen[$NF]++ { held++ }
      END { print held + 0 }')
    [ "$held" -ge "$gpus" ] || cuda_untried 'it would wake idle GPUs: persistence mode is off'
  fi
  # shellcheck disable=SC2034 # for libcuda
  cache=$(loader_cache) || cuda_untried 'ldconfig fails'
  library=$(libcuda)
  [ -n "$library" ] || { echo 'cuda missing'; exit 0; }
  printf 'cuda library %s\n' "$library"
  python=$(cuda_python)
  [ -n "$python" ] || cuda_untried 'there is no Python to call it with'
  if [ "$uid" = 0 ]; then
    account=$(owner_of "$library" "$python" 2>&1) || cuda_untried "$account"
    [ "$account" = root ] || cuda_untried "$account may change $library, and root does not load it"
  fi
  words=$(owner_quoted env -i PATH=/usr/bin:/bin LC_ALL=C "$python" -E -s -S -B -c "$ask_cuda" \
    "$library")
  # The shell under the limit holds the pipe of a process that the user may stop.
  limited 15 env user="$user" sh -c 'eval "$gn_as_user"; answer=$(as_user "$1" 2>&1)
    printf "%s\n" "$answer"' sh "cd / && exec $words" </dev/null
  answer=$output
  [ "$code" != 137 ] || cuda_untried "no answer of a process of $user within 15 s"
  case $answer in
    (*'cuda '*) printf '%s\n' "$answer" | grep '^cuda ' ;;
    (*) cuda_untried "cannot run it as $user: $(printf '%s\n' "$answer" | tail -n 1)" ;;
  esac
)
