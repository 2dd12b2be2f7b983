# A CentOS 7 server, as far as its files tell. rpm and dnf are real; apt and dpkg are not there.
rm -f /usr/bin/apt /usr/bin/apt-* /usr/bin/dpkg /usr/bin/dpkg-* /etc/debian_version
rm -rf /etc/apt /usr/lib/apt

# The database that every server of this family has, where it has it; Debian's rpm has it elsewhere.
mkdir -p /etc/rpm
echo '%_dbpath /var/lib/rpm' >/etc/rpm/macros
rpm --initdb
rpm -qa >/dev/null

rm -f /etc/os-release
cat >/etc/os-release <<'END'
NAME="CentOS Linux"
VERSION="7 (Core)"
ID="centos"
ID_LIKE="rhel fedora"
VERSION_ID="7"
PRETTY_NAME="CentOS Linux 7 (Core)"
ANSI_COLOR="0;31"
CPE_NAME="cpe:/o:centos:centos:7"
HOME_URL="https://www.centos.org/"
BUG_REPORT_URL="https://bugs.centos.org/"

CENTOS_MANTISBT_PROJECT="CentOS-7"
CENTOS_MANTISBT_PROJECT_VERSION="7"
REDHAT_SUPPORT_PRODUCT="centos"
REDHAT_SUPPORT_PRODUCT_VERSION="7"

END
echo 'CentOS Linux release 7.9.2009 (Core)' >/etc/centos-release
ln -sf centos-release /etc/redhat-release
ln -sf centos-release /etc/system-release

cat >/etc/security/limits.d/20-nproc.conf <<'END'
# Default limit for number of user's processes to prevent
# accidental fork bombs.
# See rhbz #432903 for reasoning.

*          soft    nproc     4096
root       soft    nproc     unlimited
END

cat >/etc/bashrc <<'END'
# /etc/bashrc

# System wide functions and aliases

# A shell that is no login shell reads profile.d from here: so does that of `ssh node command`.
for i in /etc/profile.d/*.sh; do
    if [ -r "$i" ]; then
        . "$i" >/dev/null
    fi
done
unset i
END
cat >/root/.bashrc <<'END'
# .bashrc

# User specific aliases and functions

alias rm='rm -i'
alias cp='cp -i'
alias mv='mv -i'

# Source global definitions
if [ -f /etc/bashrc ]; then
	. /etc/bashrc
fi
END

# The stand-in for NVIDIA's tool reads the cards from here; each node writes its own.
mkdir -p /usr/lib/gpu-node-lab
printf '%s' "$NVIDIA_SMI" >/usr/bin/nvidia-smi
chmod 755 /usr/bin/nvidia-smi

# Where libraries of this family lie; the dynamic loader here is one that looks elsewhere.
mkdir -p /usr/lib64
echo /usr/lib64 >/etc/ld.so.conf.d/lib64.conf
# By rpm itself, which asks neither a repository nor whether another version is there.
rpm_packages() { for file; do rpm -i --force --nodeps --nosignature /mnt/rpm/"$file"-1*.rpm; done; ldconfig; }
