# Functions of awk, without a quote of the shell. shown(text): a text without its secrets.
# argument(text): the next argument of a command line; the first one is the program.
function secret(name) {
  name = tolower(name); gsub(/[-_.]+/, "_", name); sub(/^_/, "", name)
  if (name == "pwd" || name == "oldpwd") return 0
  gsub(/[0-9]+/, "", name); gsub(/__+/, "_", name); sub(/_$/, "", name)
  if (name ~ /@words@/ && name !~ /@plain@/) return 1
  gsub(/_|@others@/, "", name)
  return name ~ /@parts@/
}
# The replacement for a word of a command line that is a secret; empty for all others. program, hides
# and last describe the words before it.
function hidden(word,   was, base) {
  was = hides; hides = ""
  if (was == "all" && word ~ /^(--|[=:]+)$/) { hides = was; return "" }
  base = word; sub(/:$/, "", base)
  if (base ~ /^--?[A-Za-z][-A-Za-z0-9_.]*$/ && secret(substr(base, 2))) hides = "all"
  else if (word ~ /^(-u|-U|--user|--proxy-user)$/) hides = "pair"
  else if (program " " word ~ /^(@apart@)$/) hides = "all"
  if (was == "all" || (was == "pair" && word ~ /:./ && word !~ /^[0-9]+:[0-9]+$/)) return "@hidden@"
  if (program " " word ~ /^(@together@)/)
    return "-" (program == "ldap" ? "w" : program == "zip" ? "P" : "p") "@hidden@"
  if (word ~ /^-[uU][^:]*:./) return substr(word, 1, 2) "@hidden@"
  if (word ~ /^--(proxy-)?user=[^:]*:./) { sub(/=.*/, "=", word); return word "@hidden@" }
  if (program == "key" && word !~ /^-/) return "@hidden@"
  base = word; sub(/^.*[\/=]/, "", base)
  if (base == "login" && program ~ /^(@login@)$/) program = "login"
  else if (base == "login" && program ~ /^(@login_by_key@)$/) program = "key"
  else if (base ~ /^(mysql|mariadb)/) program = "mysql"
  else if (base ~ /^@of_ldap@$/) program = "ldap"
  else if (base ~ /^(@of_zip@)$/) program = "zip"
  else if (base ~ /^(sshpass|redis-cli|@login@|@login_by_key@)$/) program = base
  else if (program == "sshpass" && word !~ /^-/ && last !~ /^-[Pfd]$/) program = ""
  last = word
  return ""
}
# A text up to its first word that is a secret, as in the command of sh -c.
function command(text,   rest, at, n, found, word, was_program, was_hides, was_last) {
  was_program = program; was_hides = hides; was_last = last
  program = hides = last = ""; rest = text; at = 0
  while (match(rest, /[^ \t;|&()`]+/)) {
    at += RSTART - 1; n = RSTART + RLENGTH; word = substr(rest, RSTART, RLENGTH)
    gsub(/["\047\\]/, "", word)
    found = hidden(word)
    if (found != "") { text = substr(text, 1, at) found; break }
    at = length(text) - length(rest) + n - 1; rest = substr(rest, n)
  }
  program = was_program; hides = was_hides; last = was_last
  return text
}
# How long the text between a name and its value is, at the begin of the text that follows the name; 0
# where the value is no secret.
function before_value(name, before, rest,   word, size) {
  name = tolower(name)
  if (before ~ /^[?&]$/ && rest ~ /^=/ && name ~ /@query@/) return 1
  if (name == "@slack@" && rest ~ /^\/[^ \t"\047]/) return 1
  if (name == "bearer") return match(rest, /^[ \t]+/) ? RLENGTH : 0
  if (!secret(name)) return 0
  size = match(rest, /^[]\\"\047)]*[ \t]*[+?!|=:]*[=:]>?[ \t]*/) ? RLENGTH : 0
  if (!size && before == "-" && match(rest, /^[ \t]+(--[ \t]+)*/)) size = RLENGTH
  if (size) return name ~ /@counted@/ && substr(rest, size + 1) ~ /^@count@/ ? 0 : size
  if (name ~ /@before_is@/ && match(rest, /^[ \t]+is:?[ \t]+/)) size = RLENGTH
  else if (index(name, "@header@") == 1 && match(rest, /^[ \t]+/)) size = RLENGTH
  if (!size) return 0
  word = substr(rest, size + 1)
  if (!match(word, /^[^ \t;|&()`]+/)) return 0
  word = tolower(substr(word, 1, RLENGTH)); gsub(/["\047\\.,:!]/, "", word)
  return word ~ /^(@message@)$/ ? 0 : size
}
# A text up to the lines of a private key.
function without_key(text,   rest, at, n) {
  rest = text; at = 0
  while (n = index(rest, "@private_key@")) {
    if (substr(rest, n > 46 ? n - 46 : 1, n > 46 ? 46 : n - 1) ~ /BEGIN [A-Z0-9 ]*$/)
      return substr(text, 1, at + n - 1 + length("@private_key@")) "@hidden@"
    at += n; rest = substr(rest, n + 1)
  }
  return text
}
# A text without words of hex digits that are keys of wandb.
function without_hex(text,   done, word) {
  if (tolower(text) !~ /wandb/ || tolower(text) ~ /@commit@/) return text
  while (match(text, /[0-9A-Za-z]+/)) {
    word = substr(text, RSTART, RLENGTH); done = done substr(text, 1, RSTART - 1)
    text = substr(text, RSTART + RLENGTH)
    done = done (length(word) == @hex_digits@ && word ~ /^[0-9a-f]+$/ ? "@hidden@" : word)
  }
  return done text
}
# A text up to the password of a line of .netrc or .pgpass.
function without_login(text,   at, word) {
  if (text ~ /@pgpass@/) { sub(/:[^:]*$/, ":", text); return text "@hidden@" }
  if (!match(text, /@netrc@/)) return text
  at = RSTART - 1; word = substr(text, RSTART)
  match(word, /password[ \t]+/); at += RSTART + RLENGTH - 1; word = substr(text, at + 1)
  sub(/[ \t].*/, "", word); word = tolower(word); gsub(/["\047\\.,:!]/, "", word)
  return word ~ /^(@message@)$/ ? text : substr(text, 1, at) "@hidden@"
}
function shown(text,   done, name, rest, before, size) {
  text = without_hex(command(without_login(without_key(text))))
  while (match(text, /(:\/\/[^\/?# \t"\047]*|_(proxy|PROXY)=["\047]?[^=\/?# \t"\047]*)@/)) {
    done = done substr(text, 1, RSTART - 1); name = substr(text, RSTART, RLENGTH)
    text = substr(text, RSTART + RLENGTH); match(name, /^(:\/\/|[^=]*=["\047]?)/)
    done = done substr(name, 1, RLENGTH) "@hidden@@"
  }
  text = done text; done = ""
  while (match(text, /:\/\/[^\/ \t"\047]+\/[^ \t"\047]+/)) {
    name = substr(text, RSTART, RLENGTH); rest = substr(text, RSTART + RLENGTH)
    done = done substr(text, 1, RSTART - 1)
    if (tolower(name) ~ /@webhook@/) name = substr(name, 1, 3 + index(substr(name, 4), "/")) "@hidden@"
    done = done name; text = rest
  }
  text = done text; done = ""
  while (match(text, /[A-Za-z_][-A-Za-z0-9_.]*/)) {
    before = RSTART > 1 ? substr(text, RSTART - 1, 1) : ""
    name = substr(text, RSTART, RLENGTH); done = done substr(text, 1, RSTART - 1)
    text = substr(text, RSTART + RLENGTH)
    if (length(name) >= @long@ && name ~ /^(@shapes@)/) {
      done = done "@hidden@"; continue
    }
    done = done name
    size = before_value(name, before, text)
    if (size) return done substr(text, 1, size) (length(text) > size ? "@hidden@" : "")
  }
  return done text
}
function argument(text,   found) {
  gsub(/\t/, " ", text); gsub(/[^ -~]/, "?", text)
  found = hidden(text)
  return found != "" ? found : shown(text)
}
