# Lines that a later run reads (facts/probe/records.py): words with one blank between, and what is not plain
# ASCII in octal, as /proc/mounts has it. So no name has a blank, or begins another line.
# shellcheck shell=sh

# record WORD...: prints the words as one line.
record() {
  record_line=
  for record_word; do
    record_word=$(printf '%s' "$record_word" | od -An -v -tu1 | LC_ALL=C awk '{
      for (i = 1; i <= NF; i++) {
        if ($i + 0 > 32 && $i + 0 < 127 && $i + 0 != 92) printf "%c", $i + 0
        else printf "\\%03o", $i + 0
      }
    }')
    record_line="$record_line $record_word"
  done
  printf '%s\n' "${record_line# }"
}
