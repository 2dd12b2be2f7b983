mounts "$path"
# shellcheck disable=SC2010 # the error of ls
[ -d "$path/" ] || {
  ls -ld "$path/" 2>&1 | grep -q 'Permission denied' && { echo "$path is closed"; exit 1; }
  echo absent; exit 0
}
command -v rsync >/dev/null 2>&1 || { echo unlisted; exit 0; }
code() { if command -v base64 >/dev/null; then base64; else od -An -v -tx1; fi; }
# Root lists as the one account that can change the tree, which may have links in it;
# if several accounts can, as the training user.
who=
if [ "${gn_uid:-$(id -u)}" = 0 ]; then
  eval "$gn_owner"
  # shellcheck disable=SC2034
  owner_seconds=@seconds@
  who=$(owner_of "$path" 2>/dev/null) || who=$user
fi
TZ=UTC; export TZ
listed() {
  case $who in ('' | root) "$@" ;; (*) as_account "$who" env TZ=UTC "$@" ;; esac
}
command -v base64 >/dev/null && echo base64 || echo hex
{ listed "$@" "$path/" 2>&1; echo "end $?"; } | gzip -c | code
