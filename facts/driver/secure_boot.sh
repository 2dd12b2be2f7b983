# Prints the state of Secure Boot and the keys of dkms. In the SecureBoot variable the fifth byte is
# the value; the four bytes before it are attributes. dkms signs with the key in its settings;
# without one, Ubuntu's dkms uses the key of shim-signed, and any other dkms creates a key. Where
# both keys exist, the system decides which one is used first.
PATH=$PATH:/usr/sbin:/sbin; export PATH
[ -d /sys/firmware/efi ] || { echo none; exit 0; }
state=
for f in /sys/firmware/efi/efivars/SecureBoot-*; do
  [ -e "$f" ] || continue
  state=closed
  case $(od -An -t u1 "$f" | awk '{ print $5 }') in (1) state=on ;; (0) state=off ;; esac
done
# A machine with UEFI that hides its variables still has Secure Boot.
[ -n "$state" ] || { [ -n "$(ls /sys/firmware/efi/efivars 2>/dev/null)" ] && state=none; }
echo "${state:-closed}"
[ "$state" = on ] || exit 0
set -- /var/lib/dkms/mok.pub /var/lib/shim-signed/mok/MOK.der
! grep -Eqs '^ID(_LIKE)?=.*ubuntu' /etc/os-release || set -- "$2" "$1"
configured=$(sed -n 's/^[[:space:]]*mok_certificate=//p' /etc/dkms/framework.conf \
  /etc/dkms/framework.conf.d/*.conf 2>/dev/null | tail -n 1 | tr -d "\"'")
[ -z "$configured" ] || set -- "$configured"
for key; do
  [ -e "$key" ] || continue
  verdict=unknown
  if command -v mokutil >/dev/null 2>&1; then
    case $(mokutil --test-key "$key" 2>&1) in
      (*'not enrolled'*) verdict=no ;;
      (*'already enrolled'*) verdict=yes ;;
    esac
  fi
  printf 'key %s %s\n' "$verdict" "$key"
done
