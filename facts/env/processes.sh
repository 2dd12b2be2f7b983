# Lists shells at a terminal, servers of screen and tmux, and trainers: pid, start time, kind, then
# the variables they started with. Processes of containers have another pid namespace. Needs
# $gn_process.
eval "$gn_process"
uid=$(id -u "$user") || exit 1
environ() { has=$({ tr '\n\0' '?\n' <"/proc/$1/environ"; } 2>/dev/null); }
# No program is started for a process that is not listed: a node may have thousands.
# shellcheck disable=SC3013
of_user() {
  while read -r key real _; do
    [ "$key" = Uid: ] || continue
    [ "$real" = "$uid" ] && [ "/proc/$1/ns/pid" -ef /proc/self/ns/pid ]
    return
  done <"/proc/$1/status"
  return 1
} 2>/dev/null
lives() {
  state=$(sed -n 's/^State:[[:space:]]*//p' "/proc/$1/status" 2>/dev/null)
  case $state in ([ZX]* | "") return 1 ;; esac
}
trainers=" " ending=
newline='
'
written=$(at_home 'stat -L -c %Y "$home/.bashrc" @env_file@ 2>/dev/null' | sort -n | tail -n 1)
echo "${written:-0}"
boot=$(awk '$1 == "btime" { print $2 }' /proc/stat)
rows=$({ process_stat && echo whole; } | awk -v boot="$boot" '
  $0 == "whole" { whole = 1; next }
  { name = $0; sub(/^[^\t]*\t/, "", name) }
  name ~ /^(bash|sh|zsh|fish|ksh|tcsh|dash)$/ && $6 != 0 { add("shell") }
  (name ~ /^(screen|SCREEN)$/ && $6 == 0) || name ~ /^tmux: server/ { add("server") }
  name ~ /^(python|pt_main|deepspeed|accelerate|torchrun)/ { add("trainer") }
  function add(kind) {
    gsub(/ /, "_", name)
    digits = length($1)
    row_of[digits, ++rows[digits]] = $1 " " $3 " " int(boot + $21 / 100) " " kind " " name
  }
  # Oldest first: a trainer precedes the workers that it started. The rows come sorted as text.
  END {
    for (digits = 1; digits <= 10; digits++)
      for (row = 1; row <= rows[digits]; row++) print row_of[digits, row]
    exit !whole
  }
') || { echo 'the processes cannot be listed'; exit 1; }
while read -r pid parent began kind comm; do
  [ -n "$pid" ] || continue # no such process
  case $trainers in (*" $parent "*) continue ;; esac # a data loader's worker
  of_user "$pid" || continue
  environ "$pid" || { ending="$ending$pid $began $kind $comm closed$newline"; continue; }
  if [ "$kind" = trainer ]; then
    case $newline$has in
      (*"$newline"RANK=* | *"$newline"LOCAL_RANK=*) trainers="$trainers$pid " ;;
      (*) continue ;;
    esac
  fi
  printf '%s\n' "$pid $began $kind $comm open"
  printf '%s\n' "$has" | awk -v names="$names" "$gn_hide"'
    BEGIN { wanted = "^(" names ")" }
    /^[A-Za-z_][A-Za-z0-9_]*=/ && $0 ~ wanted {
      gsub(/[^ -~]/, "?"); name = substr($0, 1, index($0, "=") - 1)
      print "\t" (secret(name) ? name "=@hidden@" : $0) }'
done <<END
$rows
END
# A process that is ending has no environment, and exists for a moment longer.
[ -z "$ending" ] || sleep 1
printf %s "$ending" | while read -r pid line; do ! lives "$pid" || printf '%s\n' "$pid $line"; done
