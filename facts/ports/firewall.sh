# Prints what filters packets: `tool` firewalld and ufw where they are active, `zone INTERFACE ZONE` of
# firewalld (- stands for all others), and `chain HOOK FAMILY TABLE NAME` for each chain of the hooks
# input and output that drops or rejects, itself or by a chain that it calls. `closed`: the rules
# cannot be read. No module is loaded for that: without it there are no rules.
! grep -qi '^ENABLED=yes' /etc/ufw/ufw.conf 2>/dev/null || echo 'tool ufw'
if command -v firewalld >/dev/null 2>&1 && systemctl is-active --quiet firewalld 2>/dev/null; then
  echo 'tool firewalld'
fi
[ "${gn_uid:-$(id -u)}" = 0 ] || { echo closed; exit 0; }
has_module() {
  [ ! -r /proc/modules ] || grep -q "^$1 " /proc/modules ||
    grep -q "/$1\.ko" "/lib/modules/$(uname -r)/modules.builtin" 2>/dev/null
}
listed() {
  echo "table $1 filter {"
  shift
  "$@" 2>/dev/null || echo closed
}
{
  nft=
  if has_module nf_tables && command -v nft >/dev/null 2>&1; then
    nft=yes
    nft list ruleset 2>/dev/null || echo closed
  fi
  for family in ip ip6; do
    for tables in "${family}tables-legacy" "${family}tables"; do
      command -v "$tables" >/dev/null 2>&1 || continue
      if grep -qs '^filter$' "/proc/net/${family}_tables_names" || { [ -z "$nft" ] && has_module nf_tables; }; then
        listed "$family" "$tables" -S
        break
      fi
    done
  done
} | awk '
  $1 == "closed" { print; next }
  $1 == "table" { table = $2 " " $3; next }
  $1 == "chain" { chain = table " " $2; next }
  $1 == "-P" || $1 == "-A" { chain = table " " $2; if ($2 == "INPUT" || $2 == "OUTPUT") hook[chain] = tolower($2) }
  /type filter hook (prerouting|input|output) / { hook[chain] = / output / ? "output" : "input" }
  chain ~ / (filter_)?INPUT_ZONES$/ {
    zone = $NF; sub(/^(filter_)?IN_/, "", zone); gsub(/"/, "")
    if ($1 == "goto" || $3 == "-g") print "zone -", zone
    else if ($1 == "iifname" || $3 == "-i") print "zone", $1 == "iifname" ? $2 : $4, zone
  }
  {
    gsub(/"[^"]*"/, "")
    if (/policy drop|^-P.* DROP|[ \t](drop|reject|DROP|REJECT)([ ;,]|$)/) drops[chain] = 1
    for (at = 1; at < NF; at++)
      if ($at ~ /^(jump|goto|-j|-g)$/) { to = $(at + 1); gsub(/[^A-Za-z0-9_.-]/, "", to); calls[++count] = chain SUBSEP table " " to }
  }
  END {
    do {
      more = 0
      for (each = 1; each <= count; each++) {
        split(calls[each], pair, SUBSEP)
        if (drops[pair[2]] && !drops[pair[1]]) more = drops[pair[1]] = 1
      }
    } while (more)
    for (chain in hook) if (drops[chain]) print "chain", hook[chain], chain
  }' | sort -u | head -n 64
