# Lists shells at a terminal, servers of screen and tmux, and trainers: pid, start time, kind, then
# the variables they started with. Processes of containers have another pid namespace. `cat` skips
# processes that end meanwhile.
uid=$(id -u "$user") || exit 1
environ() { has=$({ tr '\n\0' '?\n' <"/proc/$1/environ"; } 2>/dev/null); }
# A process that is ending has no environment, and exists for a moment longer.
lives() {
  sleep 1
  state=$(sed -n 's/^State:[[:space:]]*//p' "/proc/$1/status" 2>/dev/null)
  case $state in [ZX]* | "") return 1 ;; esac
}
space=$(readlink /proc/self/ns/pid)
trainers=" "
written=$(at_home 'stat -L -c %Y "$home/.bashrc" @env_file@ 2>/dev/null' | sort -n | tail -n 1)
echo "${written:-0}"
boot=$(awk '$1 == "btime" { print $2 }' /proc/stat)
# A process can give itself a name with a newline: grep prefixes each line with the file. And a
# process may end meanwhile: awk itself would fail at that, or print an error.
grep '' /dev/null /proc/[0-9]*/stat 2>/dev/null | awk -v boot="$boot" '
  { at = index($0, ":"); file = substr($0, 1, at - 1); line = substr($0, at + 1)
    if (file in whole) whole[file] = whole[file] "?" line; else whole[file] = line }
  function look(text,   pid, comm, rest, field) {
    pid = text + 0; comm = text; sub(/^[0-9]+ \(/, "", comm); rest = comm
    sub(/\)[^)]*$/, "", comm); sub(/.*\) /, "", rest); split(rest, field, " ")
    began = int(boot + field[20] / 100); parent = field[2]
    if (comm ~ /^(bash|sh|zsh|fish|ksh|tcsh|dash)$/ && field[5] != 0) add(pid, comm, "shell")
    if ((comm ~ /^(screen|SCREEN)$/ && field[5] == 0) || comm ~ /^tmux: server/)
      add(pid, comm, "server")
    if (comm ~ /^(python|pt_main|deepspeed|accelerate|torchrun)/) add(pid, comm, "trainer")
  }
  function add(pid, comm, kind) {
    gsub(/[^!-~]/, "_", comm)
    line_of[pid] = pid " " parent " " began " " kind " " comm
  }
  # Oldest first: a trainer precedes the workers that it started.
  END {
    for (file in whole) look(whole[file])
    for (;;) {
      first = 0
      for (each in line_of) if (!first || each + 0 < first) first = each + 0
      if (!first) break
      print line_of[first]; delete line_of[first]
    }
  }
' | while read -r pid parent began kind comm; do
  case $trainers in *" $parent "*) continue ;; esac # a data loader's worker
  [ "$(awk '$1 == "Uid:" { print $2 }' "/proc/$pid/status" 2>/dev/null)" = "$uid" ] || continue
  [ "$(readlink "/proc/$pid/ns/pid")" = "$space" ] || continue
  environ "$pid" || { ! lives "$pid" || echo "$pid $began $kind $comm closed"; continue; }
  [ "$kind" != trainer ] || printf '%s\n' "$has" | grep -q -E '^(LOCAL_)?RANK=' || continue
  [ "$kind" != trainer ] || trainers="$trainers$pid "
  echo "$pid $began $kind $comm open"
  printf '%s\n' "$has" | awk -v names="$names" "$gn_hide"'
    BEGIN { wanted = "^(" names ")" }
    /^[A-Za-z_][A-Za-z0-9_]*=/ && $0 ~ wanted {
      gsub(/[^ -~]/, "?"); name = substr($0, 1, index($0, "=") - 1)
      print "\t" (secret(name) ? name "=@hidden@" : $0) }'
done
