"""What a hostile user does during a run: plants links and renames folders."""

from __future__ import annotations

from tests.e2e.on_lab import on

# What no user may read or change, each with words that nothing else has.
SECRET = "canary-5a81-of-root"
FILES = ("/root/vault/secret", "/opt/vault/secret", "/etc/gpu-node-secret.conf")
FOLDERS = ("/root/vault", "/opt/vault")
# Made by root: files of 0600, in a folder that users may enter and in one that they may not.
GUARDED = f"""
mkdir -p {" ".join(FOLDERS)}
chmod 700 /root/vault; chmod 755 /opt/vault
for file in {" ".join(FILES)}; do
  echo 'export NCCL_DEBUG={SECRET}' >$file; chmod 600 $file
  touch -a -d 2001-01-01 $file; touch -m -d 2002-01-01 $file
done
"""
# A user's attack. $1: folders of the user's own, $2: the files there that a run may read or
# write, below them, $3: a file whose existence ends it. Between two rounds all is as it was: steps
# get on, and find the links later. A marker says how many rounds there were.
ATTACK = r"""
set -u
folders=$1 files=$2 stop=$3
case $0 in */*) cd / ;; esac
plant() { ln -sn "$1" "$2.planted" 2>/dev/null && mv -Tf "$2.planted" "$2" 2>/dev/null; }
n=0
while [ ! -e "$stop" ]; do
  n=$((n + 1))
  case $((n % 5)) in
    0) target=/root/vault folder=/root/vault file=/root/vault/secret ;;
    1) target=/opt/vault folder=/opt/vault file=/etc/gpu-node-secret.conf ;;
    2) target=/opt/vault folder=/opt/vault file=/opt/vault/secret ;;
    3) target=/etc folder=/root/vault file=/opt/vault/appears ;;
    4) target=/opt/vault folder=/etc/cron.d file=/etc/cron.d/appears ;;
  esac
  for each in $files; do
    [ ! -f "$each" ] || [ -L "$each" ] || cp -p "$each" "$each.kept" 2>/dev/null
    plant "$file" "$each"
  done
  sleep 0.05
  for each in $files; do
    rm -rf "$each" 2>/dev/null
    [ ! -e "$each.kept" ] || mv -f "$each.kept" "$each" 2>/dev/null
  done
  for each in $folders; do
    mv -T "$each" "$each.moved" 2>/dev/null && plant "$folder" "$each"
  done
  sleep 0.05
  for each in $folders; do
    rm -f "$each" 2>/dev/null
    mv -T "$each.moved" "$each" 2>/dev/null
  done
  # Where all users may write: beside, in the place of, and inside of what the run makes.
  for each in /tmp/*gpu-node* /tmp/pyinfra* /tmp/.*gpu-node* /var/tmp/*gpu-node* /dev/shm/*; do
    [ -e "$each" ] || continue
    case $each in *.planted | "$stop") continue ;; esac
    plant "$file" "$each"
    [ ! -d "$each" ] || plant "$file" "$each/secret"
    plant "$target" "$each-"
  done
  plant "$file" /dev/shm/nccl-$n
  plant "$target" /dev/shm/nccl-folder-$n
  touch -d @-99999999999999 /dev/shm/nccl-old 2>/dev/null
  printf x >"/dev/shm/nccl-
$n" 2>/dev/null
  plant "$target" /tmp/gpu-node
  plant "$target" /var/tmp/gpu-node
  plant /opt/vault/appears /var/tmp/gpu-node-cmake-3.25.2-c5286a4570a19fee.tar.gz
  sleep 0.05
done
echo "$n rounds"
"""
STOP = "/tmp/the-run-is-over"
LOG = "/tmp/rounds-of-"


def guard(node: str) -> None:
    """Write files that no user may read to a node, and the script of the attack."""
    on(node, GUARDED)
    on(node, f"cat >/usr/local/lib/attack.sh <<'THE-END'\n{ATTACK}\nTHE-END")


def begin(node: str, user: str, folders: str, files: str) -> None:
    """Let a user of a node begin: `folders` are renamed, links are put in the place of `files`."""
    on(node, f"rm -f {STOP}")
    words = f'sh /usr/local/lib/attack.sh "{folders}" "{files}" {STOP}'
    on(node, f"nohup setpriv --reuid {user} --regid {user} --init-groups {words} "
             f">{LOG}{user} 2>&1 </dev/null &")  # fmt: skip


def end(node: str, user: str) -> int:
    """Let a user end; return how many rounds there were."""
    on(node, f"touch {STOP}")
    output = on(node, f"n=0; until grep -q rounds {LOG}{user} || [ $n -ge 100 ]; do "
                    f"n=$((n + 1)); sleep 0.1; done; cat {LOG}{user}")  # fmt: skip
    return int(output.split()[-2])
