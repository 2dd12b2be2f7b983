# Functions of awk. `names` is a pattern of `NAME=` or of prefixes; `secret` is in redaction.awk.
# setting(text): a line of shell in which all words that set none of these names are blanked.
# of_pam(text): the same for /etc/environment and ~/.pam_environment.
# kept(text): a line NAME=VALUE that no shell reads, with its blanks and quotes: they may be the
# fault.
function wanted(name) { return (name "=") ~ ("^(" names ")") }
function blanked(text) { gsub(/[^"\047# \t\r]+/, "@hidden@", text); return text }
function word_end(text,   i, c, quote) {
  for (i = 1; i <= length(text); i++) {
    c = substr(text, i, 1)
    if (quote != "") { if (c == quote) quote = ""; else if (c == "\\" && quote == "\"") i++ }
    else if (c == "\\") i++
    else if (c == "\"" || c == "\047") quote = c
    else if (index(" \t;&|()<>", c)) break
  }
  if (quote != "") for (i = 1; i <= length(text) && !index(" \t", substr(text, i, 1)); i++) continue
  return i - 1
}
function word(text,   at, lead, name, value) {
  if (text ~ /^(export|declare|typeset|readonly|unset|then|else|do|!)$/) return text
  if (text ~ /^["\047]/) { lead = substr(text, 1, 1); text = substr(text, 2) }
  at = index(text, "="); name = at ? substr(text, 1, at - 1) : text
  if (name !~ /^[A-Za-z_][A-Za-z0-9_]*$/) return "_"
  if (!at) return wanted(name) ? name : "_"
  if (!wanted(name)) return "_="
  if (secret(name)) return name "=@hidden@"
  value = substr(text, at + 1)
  # The output of a command is unknown, and the command itself stays on the node.
  return value ~ /\$\(|`/ ? name "=$" : lead name "=" value
}
function setting(text,   done, end, c) {
  gsub(/[^ -~\t\r]/, "?", text); text = substr(text, 1, @longest@)
  while (text != "") {
    c = substr(text, 1, 1)
    if (c == "#") break
    if (index(" \t;&|()<>{}", c)) { done = done c; text = substr(text, 2); continue }
    end = word_end(text)
    done = done word(substr(text, 1, end)); text = substr(text, end + 1)
  }
  return done ~ ("(^|[^A-Za-z0-9_])(" names ")|unset") ? done : ""
}
function of_pam(text, is_plain,   name) {
  gsub(/[^ -~\t\r]/, "?", text)
  if (is_plain) sub(/#.*/, "", text)
  name = text; sub(/^[ \t]+/, "", name); sub(/^export[ \t]+/, "", name)
  if (!match(name, /^[A-Za-z_][A-Za-z0-9_]*/)) return ""
  name = substr(name, 1, RLENGTH)
  if (!wanted(name)) return ""
  return secret(name) ? name "=@hidden@" : shown(substr(text, 1, @longest@))
}
function kept(text,   lead, name, at) {
  gsub(/[^ -~\t\r]/, "?", text); text = substr(text, 1, @longest@)
  if (text ~ /^# (>>>|<<<) gpu-node/) return text
  if (match(text, /^[# \t]*(export[ \t]+)?/)) {
    lead = substr(text, 1, RLENGTH); text = substr(text, RLENGTH + 1)
  }
  at = index(text, "="); name = at ? substr(text, 1, at - 1) : ""
  sub(/[ \t]+$/, "", name)
  if (name !~ /^[A-Za-z_][A-Za-z0-9_]*$/ || length(name) > 64) return lead blanked(text)
  if ((wanted(name) || toupper(name) ~ /^NCCL_/) && !secret(name)) return lead shown(text)
  # Unknown names are judged too; encoded text may end like a name.
  if (name != toupper(name) && name != tolower(name) && !secret(name)) return lead blanked(text)
  return lead substr(text, 1, at) blanked(substr(text, at + 1))
}
