# Model and data files that are pointers of git-lfs, below some folders: `tree PATH END` and lines
# `FOLDER<tab>NAME`; FOLDER is the clone. END: 0, 1 (something could not be read), 137 (the time limit)
# or most. Root looks as the one account that can change the tree, or as the training user.
look='cd -P -- "$1/" || exit 1
newline="*
*"
walk=
! timeout --version >/dev/null 2>&1 || walk="timeout -s KILL @seconds@"
{ $walk find . -xdev -name "$newline" -prune -o -type f -size -2 \( @suffixes@ \) -print 2>/dev/null
echo "end $?"; } | {
  seen=0 found=0 end=137
  while IFS= read -r name; do
    case $name in "end "*) end=${name#end }; continue ;; esac
    [ "$((seen += 1))" -le @most@ ] && [ "$found" -le @shown@ ] || { end=most; break; }
    first=
    { IFS= read -r first; } 2>/dev/null <"$name"
    case $first in "version https://git-lfs.github.com/spec/v1"*) ;; *) continue ;; esac
    found=$((found + 1))
    clone=${name%/*}
    while [ "$clone" != . ] && [ ! -e "$clone/.git" ]; do clone=${clone%/*}; done
    [ -e "$clone/.git" ] || clone=${name%/*}
    printf "%s\t%s\n" "$clone" "$name"
  done
  printf "end\t%s\n" "$end"
}'
eval "$gn_owner"
# shellcheck disable=SC2034
owner_seconds=@all_seconds@
for path; do
  [ -d "$path/" ] || continue
  who=
  [ "${gn_uid:-$(id -u)}" != 0 ] || who=$(owner_of "$path" 2>/dev/null) || who=$user
  printf 'tree\t%s\n' "$path"
  case $who in
    '' | root) sh -c "$look" sh "$path" 2>/dev/null ;;
    *) as_account "$who" sh -c "$look" sh "$path" 2>/dev/null ;;
  esac
done | tr -c '\11\12\40-\176' '?'
