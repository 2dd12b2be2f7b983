# managed_block <FILE: prints the lines of our block in a file, and @cut@ where it has no end.
managed_block() {
  awk -v begin='@begin@' -v end='@end@' -v cut='@cut@' '
    $0 == begin { inside = 1; next }
    $0 == end { inside = 0; next }
    inside { print }
    END { if (inside) print cut }'
}
