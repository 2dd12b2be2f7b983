# command_line FOLDER: prints the command line of the process of a folder /proc/PID, without its
# secrets.
command_line() {
  { tr '\0\n' '\n ' <"$1/cmdline"; } 2>/dev/null | head -c 8192 |
    awk "$gn_hide"'{ printf "%s%s", (NR > 1 ? " " : ""), argument($0) }' | cut -c 1-100
}
