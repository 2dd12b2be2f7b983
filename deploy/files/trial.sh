# Open a new session of an account, as a login does: by SSH from this node to itself with the account's
# own key, else by su. Prints `login`, `absent` (there is no such account), or `session` and why there
# was no login; fails, with the reason, where there is neither.
# Variables: user, as_user (sh that defines as_user), home_of (sh that sets home).
# shellcheck shell=sh disable=SC2154
PATH=$PATH:/usr/sbin:/sbin; export PATH
cd / || exit 1
id -u "$user" >/dev/null 2>&1 || { echo absent; exit 0; }
eval "$as_user"
known=$(mktemp /var/tmp/gpu-node-trial.$$.XXXXXX) || exit 1
trap 'rm -f "$known"' EXIT
settings=$(sshd -T -C "user=$user,host=localhost,addr=127.0.0.1" 2>/dev/null)
setting() { printf '%s\n' "$settings" | awk -v key="$1" '$1 == key { print $2 }'; }
for each in $(setting hostkey); do
  [ ! -r "$each.pub" ] || sed 's/^/* /' "$each.pub"
done >"$known"
chmod 644 "$known"
port=$(setting port | head -n 1)
address=$(setting listenaddress | head -n 1 | sed 's/:[0-9]*$//; s/^\[//; s/\]$//')
case $address in ('' | 0.0.0.0 | ::) address=127.0.0.1 ;; esac
# shellcheck disable=SC2016
try='
key=$home/.ssh/id_ed25519
[ -f "$key" ] || { echo "$name has no key here"; exit 0; }
limit=
! command -v timeout >/dev/null 2>&1 || limit="timeout 12"
output=$($limit ssh -n -F /dev/null -i "$key" -o IdentitiesOnly=yes -o BatchMode=yes \
  -o StrictHostKeyChecking=yes -o "UserKnownHostsFile=$known" -o GlobalKnownHostsFile=/dev/null \
  -o ConnectTimeout=5 -o ControlPath=none -o ForwardAgent=no -o ClearAllForwardings=yes -p "$port" "$name@$address" "exit 0" 2>&1)
# With another code the session did open: its shell may run no commands.
case $? in (124 | 255) printf "%s\n" "$output" | tail -n 1 ;; (*) echo login ;; esac'
login=$(as_user "known=$known port=${port:-22} address=$address
$home_of
$try" </dev/null 2>/dev/null | tail -n 1 | cut -c 1-300)
[ "$login" != login ] || { echo login; exit 0; }
output=$(as_user : </dev/null 2>&1) ||
  { echo "cannot open a session of $user: $(printf '%s\n' "$output" | tail -n 1)" >&2; exit 1; }
echo "session ${login:-no login could be tried}"
