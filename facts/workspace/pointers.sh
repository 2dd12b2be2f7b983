# Model and data files that are pointers of git-lfs, below some folders: `tree PATH END` and lines
# `FOLDER<tab>NAME`; FOLDER is the clone. END: 0, 1 (something could not be read), 137 (the time limit)
# or most. Root looks as the one account that can change the tree, or as the training user, or as
# nobody where that is root: others could put a device in the place of a file. So it does below each
# folder that others can change in a tree of root's; each such walk has an `end` of its own.
look='cd -P -- "$1/" || exit 1
newline="*
*"
walk=
! timeout --version >/dev/null 2>&1 || walk="timeout -s KILL @seconds@"
apart=
[ "$2" != root ] || apart="-type d ( ! -user 0 -o -perm -020 -o -perm -002 ) ! -path . -print -prune -o"
{ $walk find . -xdev -name "$newline" -prune -o $apart -type f -size -2 \( @suffixes@ \) -print 2>/dev/null
echo "end $?"; } | {
  seen=0 found=0 end=137
  while IFS= read -r name; do
    case $name in ("end "*) end=${name#end }; continue ;; esac
    [ "$((seen += 1))" -le @most@ ] && [ "$found" -le @shown@ ] || { end=most; break; }
    [ -z "$apart" ] || [ ! -d "$name" ] || { printf "below\t%s\n" "$name"; continue; }
    first=
    { IFS= read -r first; } 2>/dev/null <"$name"
    case $first in ("version https://git-lfs.github.com/spec/v1"*) ;; (*) continue ;; esac
    found=$((found + 1))
    clone=${name%/*}
    while [ "$clone" != . ] && [ ! -e "$clone/.git" ]; do clone=${clone%/*}; done
    [ -e "$clone/.git" ] || clone=${name%/*}
    printf "%s\t%s\n" "$3$clone" "$3$name"
  done
  printf "end\t%s\n" "$end"
}'
eval "$gn_owner"
# shellcheck disable=SC2034
owner_seconds=@all_seconds@
# look_in FOLDER PREFIX: as the account for it.
look_in() {
  who=${gn_me:-$(id -un)}
  [ "${gn_uid:-$(id -u)}" != 0 ] || who=$(owner_of "$1" 2>/dev/null) || {
    who=$user
    case $who in ('' | root) who=nobody ;; esac
  }
  as_account "$who" sh -c "$look" sh "$1" "$who" "$2" 2>/dev/null
}
tab=$(printf '\t')
for path; do
  [ -d "$path/" ] || continue
  printf 'tree\t%s\n' "$path"
  look_in "$path" '' | {
    count=0
    while IFS= read -r line; do
      # Another process of that account may write here, too: each line is about this folder.
      case $line in
        ("below$tab"*) ;;
        (".$tab"* | ./* | "end$tab"*) printf '%s\n' "$line"; continue ;;
        (*) continue ;;
      esac
      [ "$((count += 1))" -le 16 ] || { [ "$count" != 17 ] || printf 'end\tmost\n'; continue; }
      below=${line#*"$tab"}
      found=$(look_in "$path/$below" "$below/" | head -c 262144)
      printf '%s\n' "$found" | grep -e '^\./' -e "^end$tab"
      case $found in (*"end$tab"*) ;; (*) printf 'end\t1\n' ;; esac
    done
  }
done | tr -c '\11\12\40-\176' '?'
