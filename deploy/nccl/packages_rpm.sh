# Leave the system's libnccl packages at one version, and held there: yum (CentOS 7) and dnf.
# Variables: manager, names, version (2.18.1-1+cuda12.1), url and key of a repository (empty: the
# system's own; key is text, or unsigned), unlock (versionlock's lines that go, one a line), lists
# (the files they are in), backups, override (yes: past an exclude= of all repositories), excluded
# (lines that keep libnccl out of one repository), run.
# Needs: writers closed place sent lock proxy in_use package_locks no_answer holds noted transaction_rpm transaction
# Disturbs: libraries
# shellcheck shell=sh disable=SC2154,SC2015
set -f
umask 022
note packages
fail() { echo "gpu-node: libnccl: $1" >&2; exit 1; }
last() { echo "$1" | grep -v '^[[:space:]]*$' | tail -n 1; }
# Only our lines of versionlock's list are ignored, unless an administrator's may be, too.
all='--disableplugin=versionlock'
[ "$override" != yes ] || all="$all --disableexcludes=all"
none='--disablerepo=*'
only=
repository=/etc/yum.repos.d/gpu-node-cuda.repo
trusted=/etc/pki/rpm-gpg/RPM-GPG-KEY-gpu-node-cuda

# obsoleted: of stdin, what packages obsolete, the names that are installed and not ours; their versions do not count
obsoleted() {
  while read -r name _; do
    case " $names " in (*" $name "*) continue ;; esac
    [ -z "$name" ] || ! rpm -q -- "$name" >/dev/null 2>&1 || printf '%s\n' "$name"
  done | sort -u | tr '\n' ' ' | sed 's/ $//'
}
replace_all() {
  if [ -n "$url" ]; then
    check=1
    [ "$key" != unsigned ] || check=0
    # Not enabled: its other packages would replace the driver with the next update.
    put "$repository" <<END || fail "$repository cannot be written"
[gpu-node-cuda]
name=CUDA repository, for libnccl: enable it for a command with --enablerepo=gpu-node-cuda
baseurl=$url
enabled=0
gpgcheck=$check
metadata_expire=300
gpgkey=file://$trusted
END
    only="$none --enablerepo=gpu-node-cuda"
  fi
  # A separate database: below it is checked that this key, and no other, signed the packages.
  db=
  if [ -n "$key" ] && [ "$key" != unsigned ]; then
    db="--dbpath $work/db"
    mkdir "$work/db" && echo "$key" >"$work/key.asc" || fail "no room in /var/tmp; no package was changed"
    # shellcheck disable=SC2086 # $db is two words or none
    output=$(rpm $db --import "$work/key.asc" 2>&1) ||
      fail "rpm cannot use the repository's key: $(last "$output"); no package was changed"
  fi

  # Everything is downloaded and checked before anything is changed.
  set --
  arch=$(uname -m)
  for name in $names; do set -- "$@" "$name-$version.$arch"; done
  # yum cannot download an older version than the installed one; dnf's command can.
  if [ "$versionlock" = yum-plugin-versionlock ]; then
    plugin yum-utils command -v yumdownloader || exit 1
    fetch=yumdownloader
  else
    # shellcheck disable=SC2086 # the words of a command
    plugin 'dnf-command(download)' $manager -q $none download --help || exit 1
    fetch="$manager download"
  fi
  # shellcheck disable=SC2086 # the words of a command
  patient $fetch $only $all --destdir "$work" "$@" || : # what is lacking is named below
  for file; do
    [ -s "$work/$file.rpm" ] && continue
    # shellcheck disable=SC2086 # the words of a command
    has=$($manager -q $only $all --showduplicates list available libnccl 2>/dev/null </dev/null |
      awk '$1 ~ /^libnccl\./ { printf "%s%s", sep, $2; sep = ", " }')
    fail "$(no_answer "$output")no $file in ${url:-the repositories of this node}: $(reason "$output"); there is: ${has:-no libnccl}$excluded; no package was changed"
  done
  set +f
  # shellcheck disable=SC2086 # $db is two words or none
  output=$(rpm $db -K "$work"/*.rpm 2>&1)
  good=$?
  if [ "$key" = unsigned ]; then
    output=$(rpm -K --nosignature "$work"/*.rpm 2>&1) || fail "damaged on the way: $(last "$output"); no package was changed"
  elif [ "$good" != 0 ] || echo "$output" | sed 's/.*: //' | grep -qviE 'pgp|gpg|rsa|dsa|signatures'; then
    fail "not signed by a key that this node trusts: $(echo "$output" | sed "s|$work/||" | grep -v Alien | tail -n 1); the inventory names the repository and its key; no package was changed"
  fi
  output=$(rpm -qp --nosignature --obsoletes "$work"/*.rpm 2>/dev/null) || fail "rpm cannot read what it has checked; no package was changed"
  gone=$(echo "$output" | obsoleted)
  [ -z "$gone" ] || fail "rpm would remove $gone, which these packages obsolete: where that is right, run: rpm -e $gone; no package was changed"

  # They are signed by the inventory's key: now the system may import it, as rpm and yum require.
  if [ -n "$db" ]; then
    echo "$key" | put "$trusted" || fail "$trusted cannot be written"
    patient rpm --import "$trusted" || fail "rpm does not take the repository's key: $(reason "$output"); no package was changed"
  fi
  # One transaction: rpm removes every other version of these names, and nothing of another name (see above).
  patient rpm -U --oldpackage --replacepkgs "$work"/*.rpm ||
    fail "rpm refuses: $(echo "$output" | grep -v '^rpm: ' | tr -s '\n\t' '  '); no package was changed"
  ldconfig 2>/dev/null || /sbin/ldconfig
}
# Whether each is installed once, at that version, with its original files.
is_whole() {
  # shellcheck disable=SC2086 # a name a word
  there=$(rpm -q --qf '%{NAME} %{VERSION}-%{RELEASE}\n' $names 2>/dev/null | sort)
  [ "$there" = "$(for name in $names; do echo "$name $version"; done | sort)" ] || return 1
  # shellcheck disable=SC2086 # a name a word
  rpm -V --nodeps --nomtime $names >/dev/null 2>&1
}
# Steps that can fail come before any package is replaced: the plugin, the note, and the backup.
begin
# shellcheck disable=SC2086 # the words of a command
plugin "$versionlock" $manager -q $none versionlock list || exit 1
[ "$look" = no ] || exit 0
set --
for name in $names; do set -- "$@" "$name" "$version"; done
note_holds "$@"
for list in $lists; do
  saved "$list" >/dev/null || fail "$list cannot be backed up; no package was changed"
done
is_whole || replace_all
set -f
# versionlock writes its list itself: the old one is kept now, and noted when the new one is there.
# shellcheck disable=SC2086 # a file a word
locked=$(for list in $(printf '%s\n' $lists /etc/yum/pluginconf.d/versionlock.list \
  /etc/dnf/plugins/versionlock.list /etc/dnf/versionlock.toml | sort -u); do
  [ ! -f "$list" ] || { was=$(saved "$list") && echo "$was $list"; } || exit 1
done) || fail "versionlock's list cannot be backed up; it was not changed"
while IFS= read -r line; do
  # A line in the form of the other program has no effect here, and is not found.
  # shellcheck disable=SC2086 # $none has no blank
  [ -z "$line" ] || patient $manager -q $none versionlock delete "$line" || :
done <<END
$unlock
END
[ -z "$unlock" ] || echo "gpu-node: libnccl: removed from versionlock's list: $(echo "$unlock" | tr '\n' ' '); its backup is in $backups"
# shellcheck disable=SC2086 # a name a word
hold $names
code=$?
printf '%s\n' "$locked" | while read -r sum mode owner list; do
  [ -z "$list" ] || written "$list" "$sum $mode $owner"
done
[ "$code" = 0 ] || fail "versionlock cannot hold $names: $(last "$output")"
