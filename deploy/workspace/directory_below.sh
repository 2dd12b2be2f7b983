# Add the missing permission bits below one directory; no bit is taken away. It follows no link,
# no other file system and no .ssh. A file with several names, setuid or setgid stays: others may have given it
# its name here.
# Variables: path; folders and files (octal bits); add_folders and add_files (what chmod adds, or
# empty); most (the limit for entries); patience (the seconds after which it stops).
# Needs: writers copier
# shellcheck shell=sh disable=SC2154
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
limit=$patience
timeout --version >/dev/null 2>&1 || limit=
# The names of find, without mount points and what is below them, and how the walk ended.
named() {
  { ${limit:+timeout -s KILL "$limit"} find . -xdev \( -name "$newline" -o -name .ssh \) -prune -o "$@" 2>/dev/null; echo "end $?"; } |
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
# The shell can only open a name, and at that moment the name may be a pipe or a device that a user
# has put there. Python, as root's own program, gets a handle of each entry without opening it (O_PATH).
python=
for each in /usr/bin/python3 /usr/libexec/platform-python /usr/bin/python /usr/bin/python2; do
  [ ! -x "$each" ] || { python=$each; break; }
done
[ -n "$python" ] || no "root's python is missing, and a safe change needs it; nothing was changed: \
run chmod as the owner of what is below it"
# given BITS: adds permission bits to what stdin names, if that is still there: `stay NAME` for
# others, `late`, and at last `changed N`.
given() {
  "$python" -E -s -c '
import sys
# -c has put the working directory in front, where a user may have put a module.
sys.path = [folder for folder in sys.path if folder]
import os, stat, time
O_PATH, bits, real, end = 0o10000000, int(sys.argv[1], 8), sys.argv[2], int(sys.argv[3])
def give(name):
    handle = os.open(name, O_PATH | os.O_NOFOLLOW)
    try:
        path = "/proc/self/fd/%d" % handle
        if os.readlink(path) != real.rstrip("/") + "/" + name[2:]:
            return False
        seen = os.fstat(handle)
        mode = stat.S_IMODE(seen.st_mode)
        plain = stat.S_ISREG(seen.st_mode) and seen.st_nlink == 1 and not mode & 0o6000
        if not (plain or stat.S_ISDIR(seen.st_mode)):
            return False
        os.chmod(path, mode | bits)
        return True
    finally:
        os.close(handle)
changed = 0
for line in sys.stdin:
    name = line.rstrip("\n")
    try:
        if give(name):
            changed += 1
        else:
            print("stay " + name)
    except EnvironmentError:
        print("stay " + name)
    if time.time() >= end:
        print("late")
        break
print("changed %d" % changed)
' "$1" "$real" "$end"
}
# all WORDS BITS FIND...: gives BITS to each name of find; the message has WORDS.
all() {
  words=$1 wanted=$2
  shift 2
  names=$(named "$@")
  ended=${names##*"end "}
  done=$(printf '%s\n' "$names" | sed '/^end /d' | given "$wanted")
  changed=${done##*"changed "}
  case $changed in (*[!0-9]* | '') no "its permissions cannot be changed ($python failed)" ;; esac
  stay=$(printf '%s\n' "$done" | sed -n 's/^stay //p' | tail -n 1)
  ! printf '%s\n' "$done" | grep -qx late || ended=late
  echo "gpu-node: $path: $words: $changed changed"
  case $ended in
    (0) ;;
    (1) no "some entries below it could not be read; $changed changed" ;;
    (*) no "not complete, it has very many entries: $changed changed; run the deploy again" ;;
  esac
  [ -z "$stay" ] || no "$stay and maybe others stay as they are: they changed meanwhile, or their \
file server refuses root; look at them, and run chmod as their owner"
}
[ -z "$add_folders" ] || all "$add_folders" "$folders" -type d ! -perm "-$folders" ! -path . -print
[ -z "$add_files" ] || all "$add_files" "$files" -type f -links 1 ! -perm -4000 ! -perm -2000 ! -perm "-$files" -print
