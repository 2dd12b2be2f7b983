# Prints for each path: `PATH<tab>mode|owner|group|HOME|WITHIN|kind`, or `PATH<tab>? error`. HOME is the account
# whose home it is, WITHIN one whose home is below it; accounts that cannot log in are left out. A directory
# service may list no account: that of the owner is known all the same.
accounts=$(getent passwd 2>/dev/null; cat /etc/passwd 2>/dev/null)
[ -n "$accounts" ] || { echo 'the accounts of the node cannot be read'; exit 1; }
for path; do
  status=$(stat -L -c '%a|%U|%G|%F' "$path" 2>&1) || { printf '%s\t? %s\n' "$path" "$status"; continue; }
  real=$(cd -P -- "$path" 2>/dev/null && pwd -P) || real=$path
  real=${real%/} owner=${status#*|} home='' within=''
  owner=$(getent passwd "${owner%%|*}" 2>/dev/null)
  while IFS=: read -r name _ _ _ _ folder shell; do
    case $shell in (*/nologin | */false) continue ;; esac
    case ${folder%/} in ("$real") home=$name ;; ("$real"/*) within=$name ;; esac
  done <<END
$accounts
$owner
END
  printf '%s\t%s|%s|%s|%s\n' "$path" "${status%|*}" "$home" "$within" "${status##*|}"
done
