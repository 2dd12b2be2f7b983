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
  else if (program == "sshpass" && word ~ /^-[ev]*p$/) hides = "all"
  else if (program == "login" && word == "-p") hides = "all"
  else if (program == "redis-cli" && word == "-a") hides = "all"
  if (was == "all" || (was == "pair" && word ~ /:./ && word !~ /^[0-9]+:[0-9]+$/)) return "@hidden@"
  if (word ~ /^-[ev]*p./ && program ~ /^(sshpass|mysql|login)$/) return "-p@hidden@"
  if (word ~ /^-[uU][^:]*:./) return substr(word, 1, 2) "@hidden@"
  if (word ~ /^--(proxy-)?user=[^:]*:./) { sub(/=.*/, "=", word); return word "@hidden@" }
  if (program == "key" && word !~ /^-/) return "@hidden@"
  base = word; sub(/^.*[\/=]/, "", base)
  if (base == "login" && program ~ /^(@login@)$/) program = "login"
  else if (base == "login" && program ~ /^(@login_by_key@)$/) program = "key"
  else if (base ~ /^(mysql|mariadb)/) program = "mysql"
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
function shown(text,   done, name, rest, before) {
  text = command(text)
  while (match(text, /:\/\/[^\/?# \t"\047]*@/)) {
    done = done substr(text, 1, RSTART + 2) "@hidden@@"; text = substr(text, RSTART + RLENGTH)
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
    rest = text
    if (secret(name)) {
      if (match(rest, /^[]\\"\047)]*[ \t]*[+?!|=:]*[=:]>?[ \t]*/) ||
        (before == "-" && match(rest, /^[ \t]+(--[ \t]+)*/)))
        return done substr(rest, 1, RLENGTH) (length(rest) > RLENGTH ? "@hidden@" : "")
    } else if (tolower(name) ~ /^bearer$/ && match(rest, /^[ \t]+/))
      return done substr(rest, 1, RLENGTH) "@hidden@"
  }
  return done text
}
function argument(text,   found) {
  gsub(/\t/, " ", text); gsub(/[^ -~]/, "?", text)
  found = hidden(text)
  return found != "" ? found : shown(text)
}
