PATH=$PATH:/usr/sbin:/sbin; export PATH
# With sudo, gn_user is the SSH user.
user=${user:-${gn_user-}} newline='
'
eval "$gn_as_user"
entry=$(getent passwd "$user" 2>/dev/null ||
  name=$user awk -F: '$1 == ENVIRON["name"]' /etc/passwd)
IFS=: read -r _ _ uid _ _ home _ <<END
$entry
END
[ "${gn_uid:-$(id -u)}" = 0 ] || exit 0
# By what PAM may refuse this account although its key is right.
set --
for each in /etc/nologin /run/nologin /etc/pam.d/sshd /etc/pam.d/common-account \
  /etc/pam.d/password-auth /etc/shadow; do
  [ ! -f "$each" ] || [ ! -r "$each" ] || set -- "$@" "$each"
done
[ $# = 0 ] || awk -v user="$user" -v uid="$uid" -v days="$(($(date +%s) / 86400))" '
  function denies(what) { gsub(/[^ -~]/, "?", what); print "denies " substr(what, 1, 200) }
  FILENAME ~ /nologin$/ { if (FNR == 1 && uid != 0) denies("remove " FILENAME ", which has: " $0); next }
  FILENAME ~ /pam[.]d/ {
    if ($1 ~ /^-?account$/ && $2 != "sufficient" &&
        /pam_(access|exec|listfile|time|succeed_if|slurm|slurm_adopt)[.]so/)
      denies("look at line " FNR " of " FILENAME ": " $0)
    next
  }
  { if (split($0, part, ":") < 8 || part[1] != user) next
    if (part[8] != "" && part[8] <= days) denies("extend the account, which has expired: chage -E -1 " user)
    if (part[3] == "0" || part[3] != "" && part[5] != "" && part[3] + part[5] < days)
      denies("set the password, which has expired: passwd " user) }' "$@" 2>/dev/null
# Without a Match block one answer is valid for all nodes; the default, and what lets keys in, need no
# question.
set=$(cat /etc/ssh/sshd_config /etc/ssh/sshd_config.d/*.conf 2>/dev/null |
  awk '$2 ~ /^\/etc\/ssh\/sshd_config\.d\// { next }
    { gsub(/[="]/, " ") }
    tolower($1) ~ /^(match|authorizedkeysfile|include)/ ||
    tolower($1 " " $2) ~ /^(permitrootlogin (no|forced-commands-only)|pubkeyauthentication no)$/ {
      print tolower($1) }')
[ -n "$set" ] || exit 0
many=
case $set in (*match* | *include*) many=yes ;; esac
ask() {
  address=$2
  case $address in
    (*:* | *[!0-9.]*)
      resolved=$(getent ahosts "$address" 2>/dev/null | awk '{ print $1; exit }')
      address=${resolved:-$address} ;;
  esac
  sshd -T -C "user=$user,host=$1,addr=$address,laddr=127.0.0.1,lport=$own" 2>/dev/null |
    awk -v home="$home" -v user="$user" -v uid="$uid" '
      $1 == "authorizedkeysfile" {
        for (i = 2; i <= NF; i++) { file = $i
          gsub(/%h/, home, file); gsub(/%u/, user, file)
          gsub(/%U/, uid, file); gsub(/%%/, "%", file)
          if (file != "none") print "reads " (file ~ /^\// ? file : home "/" file) }
        if ($2 == "none") print "reads" }
      $1 == "permitrootlogin" && uid == 0 && $2 ~ /^(no|forced-commands-only)$/ ||
        $1 == "pubkeyauthentication" && $2 == "no" { print "refuses " $1 " " $2 }'
}
# Read as the user, as sshd does: the file or a folder above it may belong to that user.
keys() {
  printf '%s\n' "$1" | as_user '
    IFS= read -r file && [ -n "$file" ] || exit 1
    printf "looked %s\n" "$file"
    [ -f "$file" ] && [ -r "$file" ] || exit 0
    head -c 1048576 "$file" | file=$file awk "
      /^[ \t]*#/ { next }
      { for (i = 1; i < NF; i++) if (\$i ~ /^(ssh-|ecdsa-sha2-|sk-)/ && \$(i + 1) ~ /^AAAA/) {
          print \"key \" ENVIRON[\"file\"] \"\\t\" \$i \" \" \$(i + 1); next } }"'
}
each() {
  answer=
  while read -r node address; do
    [ -n "$node" ] || continue
    [ -n "$answer" ] && [ -z "$many" ] || answer=$(ask "$node" "$address")
    # No process for each node.
    rest=$answer
    while [ -n "$rest" ]; do
      printf 'server %s %s\n' "$node" "${rest%%"$newline"*}"
      case $rest in (*"$newline"*) rest=${rest#*"$newline"} ;; (*) rest= ;; esac
    done
  done <<END
$asked
END
}
each | awk -v ssh="$home/.ssh/" '{ print }
  $3 != "reads" { next }
  NF > 3 { file = substr($0, index($0, " reads ") + 7) }
  NF > 3 && index(file, ssh) != 1 && !seen[file]++ { print "file " file }' |
while IFS= read -r line; do
  case $line in
    ('file '*) keys "${line#file }" ;;
    (*) printf '%s\n' "$line" ;;
  esac
done
