# places FILE ...: prints `FILE<tab>kind<tab>source<tab>inode<tab>ctime` for each file that exists,
# of the target where it is a link. Without a stat that supports nanoseconds the ctime is empty.
places() {
  for file; do
    real=$(readlink -f "$file" 2>/dev/null) || continue
    status=$(TZ=UTC0 stat -L -c '%i %z' "$real" 2>/dev/null) ||
      status=$(ls -diL "$real" 2>/dev/null | awk '{ print $1 " " }')
    [ -z "$status" ] || printf '%s\t%s\t%s\t%s\n' "$file" "$real" "${status%% *}" "${status#* }"
  done | awk '
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
    {
      split($0, field, "\t"); best = 0; longest = -1
      for (i = 1; i <= count; i++) {
        above = point[i] == "/" ? "/" : point[i] "/"
        # Of two mounts at the same point, the later one is visible.
        if ((field[2] == point[i] || index(field[2], above) == 1) && length(point[i]) >= longest) {
          best = i; longest = length(point[i])
        }
      }
      if (best) print field[1] "\t" kind[best] "\t" source[best] "\t" field[3] "\t" field[4]
    }' /proc/self/mountinfo -
}
# above FILE: the same for the nearest existing folder above a missing file.
above() {
  case $1 in /*/*) up=${1%/*} ;; *) up=/ ;; esac
  if [ -e "$up" ]; then places "$up"; else above "$up"; fi
}
