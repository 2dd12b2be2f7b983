# Functions that read the repositories of yum and dnf, with their variables, and fetch an index from
# a mirror of each.
vars() {
  for f in /etc/yum/vars/* /etc/dnf/vars/*; do
    [ ! -f "$f" ] || printf '%s %s\n' "${f##*/}" "$(head -n 1 "$f")"
  done
  printf 'releasever %s\nbasearch %s\narch %s\n' "$major" "$(uname -m)" "$(uname -m)"
}
enabled() {
  cat /etc/yum.conf /etc/dnf/dnf.conf /etc/yum.repos.d/*.repo 2>/dev/null | awk '
    function put(  kind) {
      if (id == "" || id == "main" || has["enabled"] ~ /^(0|[Ff]alse|[Nn]o)$/) return
      kind = has["baseurl"] != "" ? "baseurl" : has["metalink"] != "" ? "metalink" : "mirrorlist"
      print id "\t" kind "\t" has[kind] "-\t" (has["proxy"] != "" ? has["proxy"] : proxy) "-\t" \
        has["sslverify"] "-\t" has["sslcacert"] "-\t" has["sslclientcert"] "-\t" \
        has["sslclientkey"] "-\t" has["username"] "-"
    }
    /^[ \t]*[#;]/ || /^[ \t]*$/ { next }
    /^\[/ { put(); split("", has); id = $0; sub(/^\[/, "", id); sub(/\].*/, "", id); next }
    /^[^ \t=]+[ \t]*=/ {
      key = $0; sub(/[ \t]*=.*/, "", key)
      value = $0; sub(/^[^=]*=[ \t]*/, "", value); sub(/[ \t,].*/, "", value)
      has[key] = value
      if (id == "main" && key == "proxy") proxy = value
      next
    }
    /^[ \t]+[^ \t]/ && has[key] == "" { value = $0; sub(/^[ \t]+/, "", value); has[key] = value }
    END { put() }'
}
rpm_take() { $limit curl -fsSL --connect-timeout 8 "$@" 2>&1; }
rpm_one() {
  id=$1 kind=$2 url=${3%-} proxy=${4%-} verify=${5%-} ca=${6%-} cert=${7%-} key=${8%-} user=${9%-}
  file=$scratch/file.${10}
  [ -z "$user" ] || { printf 'unknown\t%s\tit wants the password of %s\n' "$id" "$user"; return; }
  [ -n "$url" ] || { printf 'bad\t%s\tit names no place\n' "$id"; return; }
  set -- -o "$file"
  case $proxy in ('' | _none_) ;; (*) set -- "$@" --proxy "$proxy" ;; esac
  case $verify in (0 | [Ff]alse | [Nn]o) set -- "$@" -k ;; esac
  [ -z "$ca" ] || set -- "$@" --cacert "$ca"
  [ -z "$cert" ] || set -- "$@" --cert "$cert"
  [ -z "$key" ] || set -- "$@" --key "$key"
  if [ "$kind" != baseurl ]; then
    answer=$(rpm_take "$@" "$url") || { missed "$id" "$kind $url: $answer"; return; }
    mirror=$(sed -n -e 's/^\(https\{0,1\}:[^ <]*\).*/\1/p' \
      -e 's/.*<url [^>]*>\(https\{0,1\}:[^<]*\)<.*/\1/p' "$file" | head -n 1)
    [ -n "$mirror" ] || { missed "$id" "$kind $url: $(head -n 1 "$file")"; return; }
    url=${mirror%/repodata/repomd.xml}
  fi
  if answer=$(rpm_take "$@" "${url%/}/repodata/repomd.xml"); then printf 'ok\t%s\t\n' "$id"
  else missed "$id" "$url: $answer"; fi
}
missed() { printf 'bad\t%s\t%s\n' "$1" "$(printf '%s' "$2" | tr '\n\t' '  ')"; }
rpm_sources() {
  command -v curl >/dev/null 2>&1 || { echo 'curl is not installed'; return 1; }
  major=$(sed -n 's/^VERSION_ID=//p' /etc/os-release | tr -d "\"'")
  major=${major%%.*}
  swap=$(vars | awk 'NF > 1 && !/[|&\\]/ {
    print "s|[$]" $1 "|" $2 "|g"; print "s|[$][{]" $1 "[}]|" $2 "|g" }')
  enabled | sed "$swap" >"$scratch/repositories"
  number=0
  while IFS=$tab read -r id kind url proxy verify ca cert key user; do
    number=$((number + 1))
    rpm_one "$id" "$kind" "$url" "$proxy" "$verify" "$ca" "$cert" "$key" "$user" "$number" \
      >"$scratch/answer.$number" &
  done <"$scratch/repositories"
}
