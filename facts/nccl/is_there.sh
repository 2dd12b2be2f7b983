# Prints `absent` and ends where $prefix does not exist. A folder below a closed one only seems to
# be missing, and so does one behind a dangling link.
if [ ! -e "$prefix" ] && [ ! -L "$prefix" ]; then
  case $(ls -ld "$prefix/" 2>&1) in
    *'Permission denied'*) echo "$prefix is closed"; exit 1 ;;
  esac
  echo absent; exit 0
fi
