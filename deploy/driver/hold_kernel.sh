# Make one kernel the default for all later boots, also after other kernels are installed; or undo
# that.
# Variables: kernel (as uname -r shows it; empty: take it back), entry (its entry of GRUB's menu, by
# ids; used where there is no grubby), note (the file that notes what was before), backups.
# Needs: writers closed place lock noted
# shellcheck shell=sh disable=SC2154,SC2015
umask 022
PATH=$PATH:/usr/sbin:/sbin
fail() { echo "gpu-node: kernel: $1" >&2; exit 1; }
drop=/etc/default/grub.d/gpu-node-kernel.cfg
settings=/etc/sysconfig/kernel
noted() { sed -n "s/^$1 //p" "$note" 2>/dev/null | head -n 1; }
# If this is yes, a newly installed kernel becomes the default.
updates() {
  [ ! -e "$settings" ] || sed "s/^UPDATEDEFAULT=.*/UPDATEDEFAULT=$1/" "$settings" | put "$settings"
}
by_grubby() {
  grubby --set-default="$1" >/dev/null 2>&1 && [ "$(grubby --default-kernel)" = "$1" ]
}
if [ -z "$kernel" ]; then
  [ -e "$note" ] || exit 0
  if [ -e "$drop" ]; then
    kept "$drop" '' && rm -f "$drop" || fail "$drop cannot be removed"
    output=$(update-grub 2>&1) || fail "update-grub fails without $drop: $output"
  fi
  before=$(noted before)
  if [ -n "$before" ]; then
    [ "$(noted updates)" != yes ] || updates yes || fail "$settings cannot be written"
    # Another default was chosen since, or the former one was removed: restore nothing.
    if [ "$(grubby --default-kernel)" = "/boot/vmlinuz-$(noted kernel)" ] && [ -e "$before" ]; then
      by_grubby "$before" || fail "grubby does not make $before the default"
    fi
  fi
  kept "$note" '' && rm -f "$note" || fail "$note cannot be removed"
  exit 0
fi
[ -e "/boot/vmlinuz-$kernel" ] || fail "there is no /boot/vmlinuz-$kernel; nothing was changed"
if command -v grubby >/dev/null 2>&1; then
  before=$(noted before)
  before=${before:-$(grubby --default-kernel)}
  was=$(noted updates)
  [ -n "$was" ] || ! grep -qs '^UPDATEDEFAULT=yes' "$settings" || was=yes
  printf 'kernel %s\nbefore %s\nupdates %s\n' "$kernel" "$before" "${was:-no}" | put "$note" ||
    fail "$note cannot be written; nothing was changed"
  [ "$was" != yes ] || updates no || fail "$settings cannot be written"
  by_grubby "/boot/vmlinuz-$kernel" || fail "grubby does not make $kernel the default"
elif [ -n "$entry" ] && command -v update-grub >/dev/null 2>&1; then
  printf 'kernel %s\n' "$kernel" | put "$note" || fail "$note cannot be written; nothing was changed"
  printf '# Written by gpu-node: the newest kernel that has the nvidia module.\nGRUB_DEFAULT="%s"\n' \
    "$entry" | put "$drop" || fail "$drop cannot be written"
  output=$(update-grub 2>&1) && grep -qF "$entry" /boot/grub/grub.cfg || {
    for file in "$drop" "$note"; do kept "$file" '' && rm -f "$file"; done
    update-grub >/dev/null 2>&1
    fail "update-grub does not make $kernel the default: $(echo "$output" | tail -n 3)"
  }
else
  fail 'there is neither grubby nor an entry of this kernel for GRUB_DEFAULT; nothing was changed'
fi
