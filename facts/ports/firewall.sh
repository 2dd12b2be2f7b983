# Prints what filters packets: `tool` firewalld and ufw where they are active, `zone INTERFACE ZONE` of
# firewalld (- stands for all others), and `input` or `output` with FAMILY TABLE NAME of each chain of
# that hook that drops or rejects, itself or by a chain that it calls. `closed`: the rules cannot be
# read. No module is loaded for that: without it there are no rules.
[ ! -r /etc/ufw/ufw.conf ] || ! grep -qi '^ENABLED=yes' /etc/ufw/ufw.conf || echo 'tool ufw'
[ ! -e /usr/sbin/firewalld ] || ! systemctl is-active --quiet firewalld 2>/dev/null || echo 'tool firewalld'
[ "${gn_uid:-$(id -u)}" = 0 ] || { echo closed; exit 0; }
begins() { # FILE WORD: whether a line of a file begins with a word.
  [ -r "$1" ] || return 1
  while read -r word _; do [ "$word" != "$2" ] || return 0; done <"$1"
  return 1
}
read -r release </proc/sys/kernel/osrelease
nft=
if [ ! -r /proc/modules ] || begins /proc/modules nf_tables ||
  grep -q '/nf_tables\.ko' "/lib/modules/$release/modules.builtin" 2>/dev/null; then
  nft=yes
fi
{
  if [ -n "$nft" ] && command -v nft >/dev/null 2>&1; then
    nft list ruleset 2>/dev/null || echo closed
    nft=
  fi
  for family in ip ip6; do
    echo "table $family filter"
    for tables in "${family}tables-legacy" "${family}tables"; do
      command -v "$tables" >/dev/null 2>&1 || continue
      [ -n "$nft" ] || begins "/proc/net/${family}_tables_names" filter || continue
      "$tables" -S 2>/dev/null || echo closed
    done
  done
  # Its rules are there, and no program that lists them.
  [ -z "$nft" ] || echo closed
} | awk '
  function show(text) { if (!(text in shown)) { shown[text]; if (++lines <= 64) print text } }
  $1 == "closed" { show($1); next }
  $1 == "table" { table = $2 " " $3; next }
  $1 ~ /^(chain|-P|-A)$/ { chain = table " " $2 }
  $1 == "chain" { next }
  $1 == "-P" && $2 ~ /^(INPUT|OUTPUT)$/ { hook[chain] = tolower($2) }
  /type filter hook (prerouting|input|output) / { hook[chain] = / output / ? "output" : "input" }
  chain ~ / (filter_)?INPUT_ZONES$/ {
    zone = $NF; sub(/^"?(filter_)?IN_/, "", zone); gsub(/"/, "")
    if ($1 == "goto" || $3 == "-g") show("zone - " zone)
    else if ($1 == "iifname" || $3 == "-i") show("zone " ($1 == "iifname" ? $2 : $4) " " zone)
  }
  {
    gsub(/"[^"]*"/, "")
    if (/policy drop|^-P.* DROP|[ \t](drop|reject|DROP|REJECT)([ ;,]|$)/) drops[chain] = 1
    for (at = 1; at < NF; at++) if ($at ~ /^(jump|goto|-j|-g)$/) {
      to = $(at + 1); gsub(/[^A-Za-z0-9_.-]/, "", to)
      from[++count] = chain; called[count] = table " " to
    }
  }
  END {
    do {
      more = 0
      for (at = 1; at <= count; at++)
        if (drops[called[at]] && !drops[from[at]]) more = drops[from[at]] = 1
    } while (more)
    for (chain in hook) if (drops[chain]) show(hook[chain] " " chain)
  }'
