# The way back of files through the records of runs, the same for `gpu-node restore` and for restore.sh.
# Variables: top (the folder of all runs), runs (their names, the newest first), as_user (see as_user_within.sh).
# Needs: writers closed sound as_user_within
# shellcheck shell=sh disable=SC2154,SC2034
cd / || exit 1
for run in $runs; do
  sound "$top" "$top/$run/manifest" || [ ! -e "$top/$run/manifest" ] ||
    { echo "gpu-node: $why; no file is put back (only root can do it)" >&2; exit 1; }
done
# Lines of replace.sh, each behind the name of its run; the last change is the first line.
lines=$(for run in $runs; do
  [ ! -e "$top/$run/manifest" ] || awk -v run="$run" 'NF == 6 { line[++count] = $0 }
    END { for (; count; count--) print run, line[count] }' "$top/$run/manifest"
done)
# Prints `USER PATH` of each file, as the records have them.
changed_files() { printf '%s\n' "$lines" | awk 'NF && !seen[$7]++ { print $6, $7 }'; }

# way_back NOW PATH: prints what becomes of a file that holds NOW: `left WHY`, `same`, or `back AFTER MODE
# OWNERS RUN`, where AFTER is what it held before the runs, and RUN has the copy.
way_back() {
  printf '%s\n' "$lines" | now=$1 path=$2 awk '
    BEGIN { holds = now = ENVIRON["now"] }
    $7 != ENVIRON["path"] { next }
    # The copy of a run is what the file held at first.
    $2 != "absent" { copy[$1] = $2 }
    holds == $3 { holds = $2; kind = $4 " " $5; run = $1; next }
    # What a run has undone by itself holds what it held before; this is neither.
    holds != $2 {
      print "left another program changed it", holds == now ? "after run " $1 : "between run " $1 " and the one after it"
      left = 1
      exit
    }
    END {
      if (left) exit
      if (holds == now) print "same"
      else if (holds == "absent" || copy[run] == holds) print "back", holds, kind, run
      else print "left no run has a copy of what it held"
    }'
}

# The word as it was before record.sh.
# shellcheck disable=SC2059
plain() { printf "$(printf '%s\n' "$1" | sed 's/%/%%/g')"; }
sum() { sha256sum | cut -c 1-64; }

# look_at USER PATH: sets file, user and of the file: how (back, same, left, or refused: root cannot tell), why, before
# (what it holds now, read as its user, because a mounted home may be closed to root), after, mode, owners, copy.
look_at() {
  user=$(plain "$1") file=$(plain "$2") why='' folder=/ copy=/dev/null
  case $user in (root) user= ;; (*) folder=${file%/*} ;; esac
  at=$(quoted "$file") folder=$(quoted "$folder")
  before=$(as_user_within 60 "if [ -f $at ]; then sha256sum <$at | cut -c 1-64
    elif [ -d $folder ] && [ ! -e $at ] && [ ! -L $at ]; then echo absent; fi" 'head -c 64' </dev/null 2>/dev/null)
  [ -n "$before" ] ||
    { how=refused why="${user:-root} cannot read it (is it a regular file, and its file system mounted?)"; return; }
  read -r how after mode owners run rest <<END
$(way_back "$before" "$2")
END
  case $how in
    (left) why="$after $mode $owners $run $rest" ;;
    (back)
      [ "$after" != absent ] || return 0
      copy=$top/$run$file
      sound "$top" "$copy" && { [ "$(sum <"$copy")" = "$after" ] || why="$copy is not the copy that the run made"; }
      [ -z "$why" ] || how=refused
      ;;
  esac
}
