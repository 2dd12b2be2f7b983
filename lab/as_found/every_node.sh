# What every node has in common. Runs in the node's tree before its first boot; disks.py puts the
# node's name, keys and password before it as variables.
umask 022

printf '127.0.0.1   localhost\n' >/etc/hosts
rm -f /etc/ssh/ssh_host_*
(umask 077; printf '%s' "$HOST_KEY" >/etc/ssh/ssh_host_ed25519_key)
printf '%s %s\n' "$HOST_KEY_PUBLIC" "$NODE" >/etc/ssh/ssh_host_ed25519_key.pub

cat >/etc/ssh/sshd_config <<'END'
Port 22
HostKey /etc/ssh/ssh_host_ed25519_key
SyslogFacility AUTHPRIV
LogLevel VERBOSE
UsePAM yes
UseDNS no
X11Forwarding yes
PrintMotd no
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
AcceptEnv LANG LC_*
Subsystem	sftp	/usr/lib/openssh/sftp-server
END
rm -f /etc/ssh/sshd_config.d/*
mkdir -p /root/.ssh
chmod 700 /root /root/.ssh
if [ -n "$CLIENT_KEY" ]; then
    (umask 077; printf '%s gpu-node-lab\n' "$CLIENT_KEY" >/root/.ssh/authorized_keys)
fi

# A user's lines: odd spacing, tabs, comments and no newline at the end.
mkdir -p /scratch /data/datasets /data/models /mnt/archive
printf '%s\n' \
    '# /etc/fstab' \
    '# Created by anaconda on Mon Mar 20 09:14:31 2023' \
    '#' \
    'tmpfs	/scratch  	tmpfs   size=2G,mode=1777,nosuid	0  0' \
    '' \
    '  192.168.20.7:/export/archive   /mnt/archive	nfs	noauto,ro,soft   0 0  ' \
    '# zhang: do NOT remove, datasets moved 2024-03' >/etc/fstab
printf '/data/models  /srv none  noauto,bind,ro 0	0' >>/etc/fstab

printf '%s\n' \
    '' \
    '# zhang 2023-11: no core files on the system disk' \
    '*   soft	core    0' \
    '  @train	-  maxlogins   20   # jupyter' >>/etc/security/limits.conf
printf '@train   hard    nproc	8192' >>/etc/security/limits.conf

# What pip of every environment here installs from: the mirror alone.
cat >/etc/pip.conf <<END
[global]
no-index = true
find-links = http://$MIRROR/wheels/
trusted-host = $MIRROR
END
# environment FOLDER WHEEL...: a Python environment, and wheels put into it one after the other, as
# pip does. All NCCL wheels own one file: the last one's library is the one that is there.
environment() {
    python3 -m venv --without-pip --system-site-packages "$1"
    packages=$(echo "$1"/lib/python3*/site-packages)
    # As conda does for each environment of a user.
    mkdir -p /root/.conda
    echo "$1" >>/root/.conda/environments.txt
    shift
    for wheel; do python3 -m zipfile -e /mnt/wheels/"$wheel"*.whl "$packages"; done
}
