# below PATH FOLDERS FILES: the entries of a folder without permission bits, by one bounded walk:
# `PATH<tab>folders<tab>files<tab>entries<tab>how it ended<tab>the first one`. FOLDERS and FILES are
# octal bits. No link, no other file system and no .ssh is followed. A file that has several names, setuid or
# setgid is left out: others may have given it its name here. A name with a newline is left
# out, with all below it: its lines would be taken for other entries.
# The end: 0, 1 (an entry could not be read), 137 (the time limit), most (the limit for entries) or
# gone.
limit=@seconds@
timeout --version >/dev/null 2>&1 || limit=
newline='*
*'
below() {
  { cd -P -- "$1" && real=$(env pwd -P); } 2>/dev/null || { printf '%s\t0\t0\t0\tgone\t\n' "$1"; return; }
  # An entry is printed once, a folder without the bits twice, and a file three times.
  { ${limit:+timeout -s KILL "$limit"} find . -xdev \( -name "$newline" -o -name .ssh \) -prune -o \( \
      -type d ! -perm "-$2" -print -print -o \
      -type f -links 1 ! -perm -4000 ! -perm -2000 ! -perm "-$3" -print -print -print -o \
      -print \) 2>/dev/null; echo "end $?"; } |
    awk -v path="$1" -v real="$real" -v most=@most@ '
      function counted() {
        if (last == "" || last == ".") return
        for (each in mounted) if (last == each || index(last, each "/") == 1) return
        entries++
        if (times == 2) folders++
        if (times == 3) files++
        if (times > 1 && first == "") first = last
      }
      FILENAME != "-" {
        at = $5; gsub(/\\040/, " ", at); gsub(/\\011/, "\t", at); gsub(/\\134/, "\\", at)
        if (real == "/") at = "/" at
        if (index(at, real "/") == 1) mounted["." substr(at, length(real) + 1)]
        next
      }
      $0 == last { times++; next }
      { counted(); last = $0; times = 1 }
      /^end [0-9]+$/ { code = $2; last = "" }
      entries > most { code = "most"; last = ""; exit }
      END {
        gsub(/\t/, " ", first); gsub(/[^ -~]/, "?", first)
        printf "%s\t%d\t%d\t%d\t%s\t%s\n", path, folders, files, entries, code, first
      }' /proc/self/mountinfo -
}
while [ $# -gt 2 ]; do
  ( below "$1" "$2" "$3" )
  shift 3
done
