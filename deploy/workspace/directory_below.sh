# Add the missing permission bits below one directory; no bit is taken away. It follows no link and
# no other file system. A file with several names, setuid or setgid stays: others may have given it
# its name here.
# Variables: path; folders and files (octal bits); add_folders and add_files (what chmod adds, or
# empty); most (the limit for entries); patience (the seconds after which it stops).
# Needs: private_group copier
# shellcheck shell=sh disable=SC2154
set -u
# A part of such a name would be the name of another entry.
newline='*
*'
{ cd -P -- "$path" && real=$(env pwd -P); } 2>/dev/null || no "cannot be entered; nothing was changed"
way "$path"
# A link that a user can change could lead root to any folder.
[ -z "$theirs$open" ] || [ "$real" = "${path%/}" ] ||
  no "is reached by a link that others than root can change; nothing was changed: name $real in the \
inventory"
end=$(($(date +%s) + patience))
limit="timeout -s KILL $patience"
timeout --version >/dev/null 2>&1 || limit=
# The names of find, without mount points and what is below them, and how the walk ended.
named() {
  # shellcheck disable=SC2086 # into words
  { $limit find . -xdev -name "$newline" -prune -o "$@" 2>/dev/null; echo "end $?"; } |
    awk -v real="$real" -v most="$most" '
      FILENAME != "-" {
        at = $5; gsub(/\\040/, " ", at); gsub(/\\011/, "\t", at); gsub(/\\134/, "\\", at)
        if (index(at, real "/") == 1) mounted["." substr(at, length(real) + 1)]
        next
      }
      /^end / { print; next }
      {
        for (each in mounted) if ($0 == each || index($0, each "/") == 1) next
        if (++count > most) { print "end most"; exit }
        print
      }' /proc/self/mountinfo -
}
# given WORDS: adds WORDS to what descriptor 3 is, if that is still $name in this folder. A path
# may mean another file at any moment, an open descriptor cannot.
given() {
  [ "$(readlink /proc/self/fd/3)" = "$real/${name#./}" ] || return 1
  # shellcheck disable=SC2046 # into words: links, mode, kind
  set -- "$1" $(stat -L -c '%h %a %F' /proc/self/fd/3)
  case $4:$3:$2 in
    directory:*) ;;
    regular:[2-7]???:*) return 1 ;;
    regular:*:1) ;;
    *) return 1 ;;
  esac
  chmod -- "$1" /proc/self/fd/3
}
# all WORDS FIND...: gives WORDS to each name of find.
all() {
  words=$1 changed=0 stay='' ended=0
  shift
  while IFS= read -r name; do
    case $name in 'end '*) ended=${name#end }; continue ;; esac
    # A pipe in the place of a file would make the shell wait for its other end.
    if [ -f "$name" ] || [ -d "$name" ]; then
      { given "$words"; } 2>/dev/null 3<"$name" && changed=$((changed + 1)) || stay=$name
    fi
    [ $((changed % 100)) != 0 ] || [ "$(date +%s)" -lt "$end" ] || { ended=late; break; }
  done <<END
$(named "$@")
END
  echo "gpu-node: $path: $words: $changed changed"
  case $ended in
    0) ;;
    1) no "some entries below it could not be read; $changed changed" ;;
    *) no "not complete, it has very many entries: $changed changed; run the deploy again" ;;
  esac
  [ -z "$stay" ] || no "$stay and maybe others stay as they are: they changed meanwhile, or their \
file server refuses root; look at them, and run chmod as their owner"
}
[ -z "$add_folders" ] || all "$add_folders" -type d ! -perm "-$folders" ! -path . -print
[ -z "$add_files" ] || all "$add_files" -type f -links 1 ! -perm -4000 ! -perm -2000 ! -perm "-$files" -print
