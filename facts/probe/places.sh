# places FILE ...: prints `FILE<tab>kind<tab>source<tab>inode<tab>ctime` for each file that exists,
# of the target where it is a link. Without a stat that supports nanoseconds the ctime is empty.
places() {
  places_of "$@" | awk '
    function plain(text) {
      gsub(/\\040/, " ", text); gsub(/\\011/, "\t", text); gsub(/\\134/, "\\", text)
      return text
    }
    FILENAME != "-" {
      last = ++count; point[last] = plain($5)
      for (i = 6; i < NF && $i != "-"; i++) continue
      kind[last] = $(i + 1); source[last] = $(i + 2)
      next
    }
    { split($0, field, "\t") }
    field[1] == "file" { file[++files] = field[2]; real[files] = field[3]; next }
    { inode[field[4]] = field[2]; changed[field[4]] = field[3] }
    END {
      for (each = 1; each <= files; each++) {
        path = real[each]
        if (!(path in inode)) continue
        best = 0; longest = -1
        for (i = 1; i <= count; i++) {
          above = point[i] == "/" ? "/" : point[i] "/"
          # Of two mounts at the same point, the later one is visible.
          if ((path == point[i] || index(path, above) == 1) && length(point[i]) >= longest) {
            best = i; longest = length(point[i])
          }
        }
        if (best) print file[each] "\t" kind[best] "\t" source[best] "\t" inode[path] "\t" changed[path]
      }
    }' /proc/self/mountinfo -
}
tab='	'
newline='
'
# places_of FILE ...: prints `file<tab>FILE<tab>REAL`, then `stat<tab>inode<tab>ctime<tab>REAL`.
places_of() {
  left=$# folder='' above_it=''
  while [ "$left" -gt 0 ]; do
    file=$1 real=''
    shift
    left=$((left - 1))
    if [ ! -L "$file" ] && [ -e "$file" ] && [ -n "${file%/*}" ] && [ -n "${file##*/}" ]; then
      case ${file##*/} in (. | ..) ;; (*)
        [ "${file%/*}" = "$folder" ] || {
          folder=${file%/*}
          above_it=$(cd -P -- "$folder/" 2>/dev/null && pwd -P) || above_it=
        }
        [ -z "$above_it" ] || real=${above_it%/}/${file##*/} ;;
      esac
    fi
    [ -n "$real" ] || real=$(readlink -f "$file" 2>/dev/null) || continue
    # A user's link may lead to a name with lines like these.
    case $real in (*"$tab"* | *"$newline"*) continue ;; esac
    printf 'file\t%s\t%s\n' "$file" "$real"
    set -- "$@" "$real"
  done
  [ $# -gt 0 ] || return 0
  status=$(TZ=UTC0 stat -L -c 'stat	%i	%z	%n' "$@" 2>/dev/null)
  if [ -n "$status" ]; then
    printf '%s\n' "$status"
  else
    ls -diL "$@" 2>/dev/null | sed 's/^ *\([0-9]*\) /stat	\1		/'
  fi
}
# above FILE: the same for the nearest existing folder above a missing file.
above() {
  case $1 in (/*/*) up=${1%/*} ;; (*) up=/ ;; esac
  if [ -e "$up" ]; then places "$up"; else above "$up"; fi
}
