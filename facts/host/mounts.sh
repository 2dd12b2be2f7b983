# Prints `mount POINT SOURCE KIND ro|rw` for each file system of a network, and `auto POINT` where
# autofs mounts one at its first use; nothing of them is touched, and no process is started.
# $kinds: with blanks around each.
[ -r /proc/self/mountinfo ] || { echo 'no /proc/self/mountinfo'; exit 1; }
count=0 most=@most@
while read -r _ _ _ _ point options rest && [ "$count" -lt "$most" ]; do
  case $point in (/proc/* | /sys/* | /run/*) continue ;; esac
  case $point in (/var/lib/docker/* | /var/lib/contain* | /var/lib/kubelet/*) continue ;; esac
  rest=${rest#*- }
  kind=${rest%% *} rest=${rest#* } mode=rw
  case " autofs $kinds" in (*" $kind "*) count=$((count + 1)) ;; (*) continue ;; esac
  case ",$options,${rest#* }," in (*,ro,*) mode=ro ;; esac
  case $kind in
    (autofs) printf 'auto %s\n' "$point" ;;
    (*) printf 'mount %s\n' "$point ${rest%% *} $kind $mode" ;;
  esac
done </proc/self/mountinfo
exit 0
