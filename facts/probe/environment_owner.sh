# environment_owner PREFIX PYTHON [all]: prints the account that runs the programs of a Python
# environment: the owner of its folder. For root, no other account may be able to change what its
# Python loads at its start, the paths in its .pth files, pip with its settings and what it removes,
# and NCCL; if one account can, that account runs it. With `all`, for a program that imports more,
# each package, PYTHONPATH and the content of folders in .pth files count; they do, too, if a .pth
# file imports one. Otherwise a report imports none of them: an environment has 100,000 files.
environment_owner() (
  account=$(owner_of "$1") || exit 1
  case $account in (root) ;; (*) printf '%s\n' "$account"; exit ;; esac
  [ -e "$2" ] || { echo root; exit; }
  environment=$1 program=$2 below='*-packages/*/*' depth=1 more=
  [ -z "${3-}" ] || below=/ depth='' more=${PYTHONPATH-}
  real=$(readlink -f "$program") base=${real%/bin/*} from=
  # A python that is a copy finds its base by this file.
  [ ! -f "$environment/pyvenv.cfg" ] || from=$(sed -n \
    '/^[[:blank:]]*[Hh][Oo][Mm][Ee][[:blank:]]*=[[:blank:]]*/{s///;s,[[:blank:]/]*$,,;s,/bin$,,p;q;}' \
    "$environment/pyvenv.cfg")
  [ "$base" != "$environment" ] || base=
  [ "$from" != "$base" ] || from=
  # The packages of its base count unless it is isolated, and its base does not run either ($by_base).
  shared=${by_base-}
  grep -qi '^[[:blank:]]*include-system-site-packages[[:blank:]]*=[[:blank:]]*false' \
    "$environment/pyvenv.cfg" 2>/dev/null || shared=yes
  set -- "$environment"/lib*/python[0-9]* "$environment"/local/lib*/python[0-9]*
  [ -z "$shared" ] || for top in ${base:+"$base"} ${from:+"$from"}; do
    set -- "$@" "$top"/lib*/python[0-9]* "$top"/local/lib*/python[0-9]*
  done
  # An import in a .pth file runs a package at each start; it may use the paths that it quotes.
  lines=$(
    for each; do set -- "$@" "$each"/*-packages; shift; done
    find -L "$@" -maxdepth 1 -name '*.pth' -type f -exec awk '
      /^(#|[ \t\r]*$)/ || /^import os; var = .SETUPTOOLS_USE_DISTUTILS.;/ { next }
      /^import[ \t]/ {
        print "import"
        count = split($0, part, /["\047]/)
        for (i = 2; i <= count; i += 2) if (part[i] ~ /^\//) print "quoted " part[i]
        next
      }
      { sub(/\r$/, ""); folder = FILENAME; sub(/[^\/]*$/, "", folder)
        print /^\// ? $0 : folder $0 }' {} + 2>/dev/null
  )
  case "
$lines
" in (*'
import
'*) below=/ depth='' ;; esac
  # What others may change, one path for each owner and mode: owner_of judges it. ls shows an access
  # list as a plus, and as write permission of the group.
  odd=$(
    {
      for top in "$environment" ${base:+"$base"} ${from:+"$from"}; do
        find "$top/bin" "$top"/bin/python* "$top/lib" "$top/lib64" "$top"/lib*/*.so* "$top/ssl" \
          "$top"/ssl/* "$top/pyvenv.cfg" "$top/pip.conf" -maxdepth 0 @odd@
        [ "$top" = "$environment" ] || [ -n "$shared" ] || set -- "$@" "$top"/lib*/python[0-9]*
      done
      find "$@" -path "$below" ! -path '*/pip/*' ! -path '*/nvidia/nccl*' \
        ! -path '*/_distutils_hack/*' ! -path '*-info/*' ! -path '*/*customize*' -prune -o @odd@
      # A folder in a .pth file may have a start file, of which a package has an __init__.py.
      printf '%s\n' "$lines" | grep '^/' | while IFS= read -r top; do
        find "$top" ${depth:+-maxdepth 2} -path "${depth:+*/*customize*}*" @odd@
      done
    } 2>/dev/null | awk '!seen[$1 " " $3 " " $4]++ && sub(/^[^\/]*/, "") { sub(/ -> .*/, ""); print }'
  )
  # A link, or a line of a .pth file, may point to a path that does not exist yet.
  led=$(
    {
      [ -z "$from" ] || printf '%s\n' "$from"
      [ -z "$more" ] || printf '%s\n' "$more" | tr : '\n' | grep '^/'
      printf '%s\n' "$lines" | sed -n 's/^quoted //; /^\//p'
      for each; do set -- "$@" "$each"/*-packages; shift; done
      find "$@" "$environment/pip.conf" "$environment/ssl" ${depth:+-maxdepth "$depth"} -type l -exec ls -ld {} + |
        awk 'sub(/^[^\/]*/, "") {
          at = index($0, " -> "); folder = substr($0, 1, at - 1); to = substr($0, at + 4)
          sub(/[^\/]*$/, "", folder)
          print to ~ /^\// ? to : folder to }'
    } 2>/dev/null | while IFS= read -r path; do
      while [ ! -e "$path" ]; do path=${path%/*}; [ -n "$path" ] || path=/; done
      printf '%s\n' "$path"
    done
  )
  set -f
  IFS='
'
  # shellcheck disable=SC2086 # a path a line, and no pattern: set -f
  owner_of "$environment" "$program" $odd $led
)
