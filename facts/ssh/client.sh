# client NODE [AS]: prints what ssh does for a node, as the settings of AS, and in lines with `reads`
# the known_hosts files that it reads. For AS `*` the node's own name is left out. It needs $home and
# $gn_hide.
client() {
  ssh -G "$1" 2>/dev/null </dev/null | awk -v node="$1" -v as="${2:-$1}" -v home="$home" "$gn_hide"'
    as == "*" && $1 == "hostname" && $2 == node { next }
    $1 ~ /^(@keywords@)$/ {
      print "client " as " " $1 " " shown(substr($0, length($1) + 2)) }
    $1 ~ /^(user|global)knownhostsfile$/ { for (i = 2; i <= NF; i++) {
      file = $i; if (file ~ /^~\//) file = home substr(file, 2)
      print "reads " file } }'
}
# apart_in DEPTH FOLDER FILE...: prints in lines `host` the names that have settings of their own in
# ssh's files and in those that they include, from FOLDER if need be, and ? if any name may have.
apart_in() {
  [ "$1" -lt 8 ] || { echo '?'; return; }
  depth=$(($1 + 1)) folder=$2
  shift 2
  for file; do
    [ ! -f "$file" ] || [ ! -r "$file" ] || awk '
      { gsub(/\r/, ""); gsub(/^[ \t]+|[ \t]+$/, "") }
      /^(#|$)/ { next }
      /^[^A-Za-z]|[\f\v]/ { print "?"; next }
      { word = tolower($0); sub(/[ \t=].*/, "", word)
        rest = substr($0, length(word) + 1); sub(/^[ \t]*=?[ \t]*/, "", rest)
        few = tolower(rest) }
      word == "canonicalizehostname" && few != "no" { print "?" }
      word == "match" && few !~ /^((final|canonical)[ \t]+)*all$/ { print "?" }
      word ~ /^(host|include)$/ && rest ~ /["\047\\#$%]/ { print "?"; next }
      word ~ /^(host|include)$/ { count = split(rest, words, /[ \t]+/)
        for (i = 1; i <= count; i++) {
          if (word == "include") print "include " words[i]
          else if (words[i] ~ /[?*!,]/ && words[i] != "*") print "?"
          else if (words[i] != "*") print "host " tolower(words[i]) } }' "$file"
  done | while read -r word rest; do
    case $word$rest in
      (include/*) ;;
      (include~/*) rest=$home/${rest#??} ;;
      (include~*) echo '?'; continue ;;
      (include*) rest=$folder/$rest ;;
      (*) printf '%s\n' "$word${rest:+ $rest}"; continue ;;
    esac
    # shellcheck disable=SC2086 # a pattern of files
    (set +f; IFS=''; set -- $rest; unset IFS; apart_in "$depth" "$folder" "$@")
  done
}
# same_for_all NODE: prints what ssh does for each node but those in $apart; nothing if that is not
# the same. A program in the place of ssh may read other files: a node is asked about, too.
same_for_all() {
  case $apart in (*'?'*) return ;; esac
  same=$(client @no_node@ '*')
  case $same in (*@no_node@* | '') return ;; esac
  [ -z "$1" ] || [ "$(client "$1" '*')" = "$same" ] || return
  printf '%s\n' "$same"
}
