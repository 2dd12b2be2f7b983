# environment_owner PREFIX PYTHON: prints the account that runs the programs of a Python
# environment: the owner of its folder. For root, no other account may be able to change what its
# Python loads at its start, the folders in its .pth files, pip and NCCL; if one account can, that
# account runs it.
environment_owner() (
  account=$(owner_of "$1") || exit 1
  if [ "$account" = root ] && [ -e "$2" ]; then
    real=$(readlink -f "$2") base=${real%/bin/*}
    # ls shows an access list as a plus, and as write permission of the group.
    # shellcheck disable=SC2034 # in the options of find
    field=' *[^ ][^ ]*' alone=
    # shellcheck disable=SC2034 # in the options of find
    ! private_group 0 || alone='! -group 0'
    # shellcheck disable=SC2086 # into words
    parts=$(
      {
        [ "$base" != "$1" ] || base=/nonexistent
        find "$1/bin" "$1"/bin/python* "$1/lib" "$1/lib64" "$1"/lib*/*.so* "$1/pyvenv.cfg" \
          "$base/bin" "$base"/bin/python* "$base/lib" "$base/lib64" "$base"/lib*/*.so* \
          "$base/pyvenv.cfg" -maxdepth 0 @odd@
        find "$1"/lib*/python3* "$base"/lib*/python3* -maxdepth 2 @odd@
        find "$1"/lib*/python3*/site-packages/pip "$1"/lib*/python3*/site-packages/nvidia/nccl \
          "$base"/lib*/python3*/site-packages/pip \
          "$base"/lib*/python3*/site-packages/nvidia/nccl @odd@
      } 2>/dev/null | sed -n -e '/^\//p' \
        -e "s/^[^/ ]*+$field$field$field$field$field$field$field *//p" | head -n 50
      # A link, or a line of a .pth file, may point to a path that does not exist yet.
      {
        find "$1"/lib*/python3*/site-packages -maxdepth 1 -type l
        awk '!/^(#|import[ \t]|[ \t\r]*$)/ {
          sub(/\r$/, ""); folder = FILENAME; sub(/[^\/]*$/, "", folder)
          print /^\// ? $0 : folder $0 }' "$1"/lib*/python3*/site-packages/*.pth
      } 2>/dev/null | while IFS= read -r path; do
        [ ! -L "$path" ] || [ -e "$path" ] || {
          to=$(readlink "$path")
          case $to in (/*) path=$to ;; (*) path=${path%/*}/$to ;; esac
        }
        while [ ! -e "$path" ]; do path=${path%/*}; [ -n "$path" ] || path=/; done
        printf '%s\n' "$path"
      done
    )
    set -f
    IFS='
'
    # shellcheck disable=SC2086 # a path a word
    account=$(owner_of "$1" "$2" $parts) || exit 1
  fi
  printf '%s\n' "$account"
)
