# Run a script that changes a Python environment as the account that may change it: root's pip would
# run what that account has put there.
# Variables: prefix (the environment), run (the script), owner (sh of facts/probe/owner.py), tidy (what stands
# before the script where another account runs it), pushed (the wheel that sent.sh took over, or empty), backups.
# shellcheck shell=sh disable=SC2034,SC2154
fail() { echo "gpu-node: $prefix: $1" >&2; exit 1; }
eval "$owner"
python=$prefix/bin/python3
[ -x "$python" ] || python=$prefix/bin/python
# pip of its base runs where it has none, see environment_pip.sh.
by_base=yes
for each in "$prefix"/lib*/python*/*-packages/pip; do [ ! -d "$each" ] || by_base=; done
account=$(environment_owner "$prefix" "$python" 2>&1) || fail "$account; nothing was changed"
note "${by_base:+base-}wheels" "$account" "$prefix"
cd / || fail "cannot work in /; nothing was changed"
# What a job imports from elsewhere is not the environment's, and may be another user's.
unset PYTHONPATH
if [ "$account" = "$(id -un)" ]; then
  eval "$run"
  exit
fi
handed=
if [ -n "$pushed" ]; then
  # Readable by that account, in a folder that no other account can change.
  { work=$(mktemp -d /var/tmp/gpu-node-wheels.$$.XXXXXX) && chmod 711 "$work" && [ ! -L "$pushed" ] &&
    [ -f "$pushed" ] && handed=$work/wheel && mv -- "$pushed" "$handed" &&
    chown "$(id -u)" "$handed" && chmod 644 "$handed"; } 2>/dev/null ||
    fail "the copy of the wheel cannot be handed to $account; nothing was changed: run again"
fi
set -- handed="$handed"
for name in http_proxy https_proxy no_proxy all_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY ALL_PROXY \
  SSL_CERT_FILE REQUESTS_CA_BUNDLE PIP_CERT PIP_PROXY PIP_INDEX_URL PIP_EXTRA_INDEX_URL \
  PIP_FIND_LINKS PIP_NO_INDEX PIP_TRUSTED_HOST PIP_CONSTRAINT; do
  eval "value=\${$name-}"
  # That account must not see a password in one.
  case $value in ('' | *@*) ;; (*) set -- "$@" "$name=$value" ;; esac
done
owner_seconds=1800
as_account "$account" env "$@" sh -c "$tidy$run"
