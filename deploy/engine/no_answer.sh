# A repository or an index that cannot be read: what it has is unknown, so a package manager's or pip's "no such
# package" is not the reason.
# shellcheck shell=sh
# no_answer TEXT: the first one in the output of apt-get, dnf, yum or pip, its error, and what is next; nothing
# if all were read. What skips such a repository (skip_if_unavailable, apt-get update) only warns. pip names no
# server: it is the one of its "Looking in" whose path is asked for.
no_answer() {
  printf '%s\n' "$1" | awk '
    function found(url, words) {
      if (answer != "") return
      sub(/\/\/[^\/@ ]*@/, "//", url)
      gsub(/[ \t]+/, " ", words); sub(/^ /, "", words)
      answer = url " cannot be read: " substr(words, 1, 200)
    }
    # after LENGTH: the match without that many first characters
    function after(size) { return substr($0, RSTART + size, RLENGTH - size) }
    function server(path, words,   i, rest) {
      for (i = 1; i <= count; i++) {
        rest = place[i]
        sub(/^[a-z]+:\/\/[^\/]*/, "", rest)
        if (index(path, rest) == 1 && (!match(words, /host=.[^,)]+/) ||
            index(place[i], substr(words, RSTART + 6, RLENGTH - 7)))) return place[i]
      }
      return match(words, /host=.[^,)]+/) ? substr(words, RSTART + 6, RLENGTH - 7) : "the server of " path
    }
    BEGIN { place[count = 1] = "https://pypi.org/simple" }
    # apt: Failed to fetch URL  WORDS
    match($0, /Failed to fetch [a-z+]+:\/\/[^ ]+/) { found(after(16), substr($0, RSTART + RLENGTH)) }
    # dnf: Curl error (7): WORDS for URL [DETAILS], Status code: 503 for URL (IP: ADDRESS)
    match($0, /(Curl error \([0-9]+\)|Status code): .* for [a-z]+:\/\/[^ ]+/) {
      words = url = after(0)
      sub(/.* for /, "", url); sub(/ for [^ ]+$/, "", words)
      found(url, words)
    }
    # yum: URL: [Errno 14] WORDS, and in two lines: Could not retrieve mirrorlist URL error was
    mirrors != "" { found(mirrors, $0); mirrors = "" }
    match($0, /^[a-z]+:\/\/[^ ]+: \[Errno [0-9]+\] /) {
      url = after(0); sub(/: \[Errno.*/, "", url)
      found(url, substr($0, RSTART + length(url) + 2))
    }
    match($0, /retrieve mirrorlist [a-z]+:\/\/[^ ]+ error was/) { mirrors = after(20); sub(/ .*/, "", mirrors) }
    # pip
    /^ *Looking in indexes: / { count = 0 }
    /^ *Looking in (indexes|links): / { for (i = 4; i <= NF; i++) { sub(/,$/, "", $i); place[++count] = $i } }
    /Retrying \(Retry\(total=0,.*after connection broken by / {
      words = path = $0
      sub(/.*after connection broken by ./, "", words); sub(/.: \/[^ ]*$/, "", words)
      sub(/.*: \//, "/", path)
      url = server(path, words)
      gsub(/<[^>]*>: |HTTPS?Connection(Pool)?\([^)]*\): /, "", words)
      found(url, words)
    }
    match($0, /Could not fetch URL [a-z]+:\/\/[^ ]+: /) {
      url = after(20); sub(/: $/, "", url)
      found(url, substr($0, RSTART + RLENGTH))
    }
    match($0, /HTTPS?ConnectionPool\(host=[^)]*\): /) {
      words = substr($0, RSTART + RLENGTH); url = after(0)
      sub(/[^(]*\(host=./, "", url); sub(/.,.*/, "", url)
      if ($0 !~ /Retrying/) found(url, words)
    }
    END { if (answer != "") print answer ": check it, and the network and the proxy of this node, and run again; " }'
}
