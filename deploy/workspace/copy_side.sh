# Begin one side of a copy, as the tree's owner: rsync's server that receives it, or its client.
# Variables: path; side (send or receive); sudo (yes: who logs in may become root; asks: by a password,
# for which rsync has no room: its stdin is the other end's); excludes (one
# option of rsync a line); instead (what another user does instead of root). Arguments: rsync's. What copier.sh has stands in front.
# shellcheck shell=sh disable=SC2034,SC2154
# Below: root uses only folders that no other user may change meanwhile; rsync applies its own
# patterns.
below() {
  cd "$path/" 2>/dev/null || no "cannot be entered; nothing was copied"
  set --
  while IFS= read -r each; do [ -z "$each" ] || set -- "$@" "$each"; done <<END
$excludes
END
  { rsync -r -8 --list-only --no-h "$@" ./ 2>/dev/null; echo "end $?"; } |
    sed -n -e 's/^d[^ ]* *[0-9]* [0-9/]* [0-9:]* //p' -e 's/^end [0-9]*$/\/&/p' |
    grep -v '^/end \(0\|24\)$' | tr '\n' '\0' | xargs -0 ls -ldn -- 2>&1 |
    awk '$2 !~ /^[0-9]+$/ || $3 || $1 ~ /^(.....|........)w/ { sub(/[tT]/, "x", $1); print }'
}
# A user chooses the names: of one with a backslash, dash's echo may print nothing.
bad() {
  below | while read -r mode links uid gid rest; do
    case $links in
      (*[!0-9]* | '')
        printf '%s\n' "cannot determine whose all of it is: $mode $links $uid $gid $rest"; break ;;
    esac
    rest=${rest#* * * * }
    [ "$uid" = 0 ] || { printf '%s\n' "$rest in it belongs to uid $uid"; break; }
    ! others "$mode" "$uid" "$gid" || { printf '%s\n' "others may write in $rest below it"; break; }
  done
}
start() {
  all=rsync
  for each; do all="$all $(quoted "$each")"; done
  user=$who
  [ "$sudo" != asks ] || [ "$user" = "$me" ] || no "it belongs to $user, and rsync cannot give sudo a \
password; nothing was copied: let $user $instead, or allow sudo without one there (NOPASSWD)"
  echo "gpu-node as $who" >&2
  cd / && as_user "exec $all"
  exit
}
if [ "$mine" != 0 ] && { [ "$sudo" = no ] || [ "$side" = send ]; }; then
  exec rsync "$@"
fi
whose "$path"
if [ -z "$who" ]; then
  [ "$mine" != 0 ] || [ -n "$shut" ] || { found=$(bad) && [ -z "$found" ]; } ||
    no "$found; who may write there could lead root's rsync elsewhere, so nothing was copied: \
chown and chmod it, leave it out (workspace: exclude), or let its owner $instead"
  exec rsync "$@"
fi
[ "$side" = send ] || start "$@"
rsync --help 2>&1 | grep -q -e --copy-as || no "it belongs to $who, who could lead root's rsync \
elsewhere, and the rsync here (before 3.2) cannot work as $who; nothing was copied: let $who \
$instead, or chown -R root: $path"
exec rsync "--copy-as=$who" "$@"
