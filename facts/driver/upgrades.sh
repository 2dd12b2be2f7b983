# Prints the package that has the driver's library, and the version that an upgrade would install in
# its place: by the package manager's own copy of the repositories, without a download. Needs
# `limited`.
unknown() { printf 'unknown %s\n' "$1"; exit 0; }
ldconfig=$(command -v ldconfig || echo /sbin/ldconfig)
library=$("$ldconfig" -p |
  sed -n 's/^[[:space:]]*libnvidia-ml\.so\.1 (libc6,[^)]*) => //p' | head -n 1)
[ -n "$library" ] || exit 0
library=$(readlink -f "$library") || exit 1
if [ -s /var/lib/dpkg/status ] && command -v dpkg-query >/dev/null 2>&1; then
  # A diversion has a line, too.
  package=$(dpkg-query -S "*/${library##*/}" 2>/dev/null | grep -v '^diversion ' |
    sed -n 's/^\([a-z0-9][a-z0-9+.-]*\)[:, ].*/\1/p' | head -n 1)
  [ -n "$package" ] || exit 0
  version=$(dpkg-query -W -f '${Version}\n' "$package" | head -n 1)
  printf 'package %s %s\n' "$package" "$version"
  # The driver is all packages of this version. A hold on one of them does not keep the others.
  dpkg-query -W -f '${db:Status-Want} ${Package} ${Version}\n' 2>/dev/null |
    awk -v library="$package" -v version="$version" '
      seen[$2]++ { next }
      $1 == "hold" && ($2 == library || $2 ~ /^nvidia-driver/) { print "held " $2 }
      $1 == "install" && $3 == version && parts++ < 64 { print "part " $2 }'
  set -- /var/lib/apt/lists/*_Packages*
  [ -e "$1" ] || unknown 'apt has no package lists; apt-get update downloads them'
  limited 8 both apt-cache policy "$package"
  [ "$code" = 0 ] || unknown "apt-cache policy ends with $code"
  printf '%s\n' "$output" | sed -n 's/^ *Candidate: \([^(].*\)/candidate apt \1/p'
  exit 0
fi
command -v rpm >/dev/null 2>&1 || exit 0
package=$(rpm -qf --qf '%{NAME} %{VERSION}-%{RELEASE}\n' "$library" 2>/dev/null) || exit 0
package=$(printf '%s\n' "$package" | head -n 1)
printf 'package %s\n' "$package"
package=${package%% *}
# Both leave out what exclude= keeps; dnf lists what versionlock keeps.
manager=dnf
if command -v dnf >/dev/null 2>&1; then
  limited 12 both dnf -C -q --color=never list --upgrades "$package"
elif command -v yum >/dev/null 2>&1; then
  manager=yum
  limited 12 both yum -C -q --color=never list updates "$package"
else
  unknown 'neither dnf nor yum is installed'
fi
# A long line is wrapped: NAME.ARCH, version and repository are three words.
version=$(printf '%s\n' "$output" | awk -v name="$package." '
  { for (i = 1; i <= NF; i++) {
      if (wanted) { print $i; exit }
      wanted = index($i, name) == 1
  } }')
if [ -n "$version" ]; then
  printf 'candidate %s %s\n' "$manager" "$version"
elif [ "$code" != 0 ]; then
  case $output in
    (*'No matching Packages'* | *'No Packages'*) ;;
    (*) unknown "$manager -C: $(printf '%s\n' "$output" | tail -n 1 | cut -c 1-200)" ;;
  esac
fi
