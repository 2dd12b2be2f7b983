# Sets $@ to the files that can lock packages. yum, dnf and dnf5 read versionlock's list from
# different places (dnf5 in its own form); the list has no effect where the plugin is disabled. In
# preferences.d apt reads only files without an extension, or with .pref.
if [ -d /etc/dnf ]; then
  list=/etc/dnf/plugins/versionlock.list conf=/etc/dnf/plugins/versionlock.conf
else
  list=/etc/yum/pluginconf.d/versionlock.list conf=/etc/yum/pluginconf.d/versionlock.conf
fi
on=yes
if [ -r "$conf" ]; then
  while IFS= read -r line || [ -n "$line" ]; do
    value=${line#*=}
    value=${value#"${value%%[! ]*}"}
    case $line in
      (enabled*=*) case $value in (0* | [Ff]alse* | [Nn]o* | [Oo]ff*) on=no ;; (*) on=yes ;; esac ;;
      (locklist*=*) list=$value ;;
    esac
  done <"$conf"
fi
set --
if [ "$on" = yes ]; then
  [ ! -e "$list" ] || set -- "$@" kind=versionlock "$list"
  f=/etc/dnf/versionlock.toml
  [ ! -e "$f" ] || set -- "$@" kind=toml "$f"
fi
# /etc/yum.conf is a link to dnf.conf where dnf is installed.
yum=/etc/yum.conf
[ ! -L "$yum" ] || [ ! -e /etc/dnf/dnf.conf ] || yum=
for f in $yum /etc/dnf/dnf.conf /etc/yum.repos.d/*.repo; do
  [ ! -f "$f" ] || set -- "$@" kind=exclude "$f"
done
for f in /etc/apt/preferences /etc/apt/preferences.d/*; do
  case ${f##*/} in (*.pref) ;; (*.*) continue ;; esac
  [ ! -f "$f" ] || set -- "$@" kind=pin "$f"
done
[ ! -e "$note" ] || set -- "$@" kind=note "$note"
for f in $repositories; do
  [ ! -e "$f" ] || echo repository
done
