# One awk reads all files, because each process of the probe takes time. Tabs separate the fields; a
# byte that is not ASCII becomes a question mark.
[ $# -eq 0 ] || awk '
  function flush() {
    if (package != "" && pin != "")
      print "pin\t" file "\t" line "\t" package "\t" pin "\t" priority "\t" comment "\t" named()
    package = pin = priority = comment = ""
  }
  # A regular expression is tried only here, on the names that matter.
  function named(  count, each, i, pattern, names) {
    count = split(package, each, " ")
    for (i = 1; i <= count; i++) {
      pattern = each[i]
      if (pattern !~ /^\/.+\/$/) { names = names " " pattern; continue }
      pattern = substr(pattern, 2, length(pattern) - 2)
      if ("libnccl2" ~ pattern) names = names " libnccl2"
      if ("libnccl-dev" ~ pattern) names = names " libnccl-dev"
    }
    return names
  }
  function value(text) { sub(/^[^:=]*[:=][ ]*/, "", text); return text }
  FNR == 1 { flush(); section = "main"; comment = name = ""; open = 0 }
  { sub(/\r$/, ""); gsub(/\t/, " "); gsub(/[^ -~]/, "?") }
  kind == "note" && NF == 3 { print "note\t" $1 "\t" $2 "\t" $3 }
  kind == "versionlock" && /^ *#/ { comment = $0; next }
  kind == "versionlock" && /^ *$/ { comment = ""; next }
  kind == "versionlock" && (/nccl/ || /^ *!?([0-9]+:)?[^-]*[*?[]/) {
    print "versionlock\t" FILENAME "\t" FNR "\t" $0 "\t" comment
  }
  kind == "toml" && /^ *\[\[packages\]\]/ { name = comment = "" }
  kind == "toml" && /^ *(name|comment|value) *=/ {
    text = value($0); gsub(/^"|" *$/, "", text)
    if (/^ *name/) name = text
    if (/^ *comment/) comment = text
    if (/^ *value/ && name ~ /nccl|[*?[]/)
      print "versionlock\t" FILENAME "\t" FNR "\t" name "-0:" text ".*\t" comment
  }
  kind == "exclude" && /^ *([#;]|$)/ { next }
  kind == "exclude" && /^\[/ { section = $0; sub(/^\[/, "", section); sub(/\].*/, "", section) }
  kind == "exclude" && /^(exclude|excludepkgs) *=/ {
    open = 1
    if (value($0) != "") print "exclude\t" FILENAME "\t" FNR "\t" section "\t" value($0)
    next
  }
  kind == "exclude" && open && /^ / {
    print "exclude\t" FILENAME "\t" FNR "\t" section "\t" $0
    next
  }
  kind == "exclude" { open = 0 }
  kind == "pin" && /^ *$/ { flush() }
  kind == "pin" && tolower($1) == "package:" { package = value($0); file = FILENAME; line = FNR }
  kind == "pin" && tolower($1) == "pin:" { pin = value($0) }
  kind == "pin" && tolower($1) == "pin-priority:" { priority = value($0) }
  kind == "pin" && tolower($1) == "explanation:" { comment = value($0) }
  END { flush() }' "$@" || exit 1
