# Runs sshd for all nodes in private namespaces: enter.sh FOLDER SSHD. Nothing of it is left behind:
# it ends at the end of its stdin, and as the first process of its namespace it takes all others
# with it.
set -eu
folder=$1 sshd=$2
mount --bind "$folder/passwd" /etc/passwd
mount --bind "$folder/shadow" /etc/shadow
# sshd's empty directory is below /run.
mount -t tmpfs tmpfs /run
mkdir -m 755 /run/sshd
for config in "$folder"/sshd-*.conf; do
  "$sshd" -D -E "$folder/sshd.log" -f "$config" </dev/null &
done
echo started
cat >/dev/null
