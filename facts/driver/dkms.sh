# Lists the nvidia sources for dkms, and the builds of dkms. Sources of nvidia-fs are there too:
# they are another module.
PATH=$PATH:/usr/sbin:/sbin; export PATH
for d in /usr/src/nvidia*-[0-9]*; do
  f=$d/dkms.conf
  grep -Eqs '^BUILT_MODULE_NAME\[0\]=.?nvidia(-current)?.?[[:space:]]*$' "$f" || continue
  value() { sed -n "s/^$1=//p" "$f" | head -n 1 | tr -d "\"' "; }
  printf 'source %s %s\n' "$(value PACKAGE_NAME)" "$(value PACKAGE_VERSION)"
done
command -v dkms >/dev/null 2>&1 || exit 0
echo present
dkms status 2>/dev/null | sed -n '/^nvidia[-a-z]*[,\/]/s/^/status /p'
