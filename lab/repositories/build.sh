# Build, sign and index the lab's packages. Runs in the nodes' tree; /mnt holds the stub libraries
# as lib/VERSION+cudaX.Y.so and the specs, and gets rpm/, deb/, distribution/
# and repository.asc, and what base.sh adds.
set -eu
cd /mnt
export HOME=/mnt/home GNUPGHOME=/mnt/home/gnupg
mkdir -p home/gnupg
chmod 700 home home/gnupg
mkdir -p rpm deb distribution
gpg --batch --quiet --passphrase '' --quick-generate-key 'gpu-node lab repository' rsa3072 sign never
gpg --batch --armor --export >repository.asc

rpm_build() { rpmbuild -bb --quiet --define "_topdir /mnt/home/rpm" --define "_dbpath /mnt/home/db" "$@"; }
for library in lib/*.so; do
    name=$(basename "$library" .so)
    rpm_build --define "nccl ${name%+cuda*}" --define "cuda ${name#*+cuda}" \
        --define "library /mnt/$library" libnccl.spec
done
rpm_build plugin.spec
rpm_build app.spec
mv home/rpm/RPMS/*/*.rpm rpm
rpmsign --define '__gpg /usr/bin/gpg' --define '_gpg_name gpu-node lab repository' \
    --addsign rpm/*.rpm >/dev/null
createrepo_c --quiet rpm

# deb FOLDER PACKAGE VERSION FILES-FROM [DEPENDS]
deb() {
    mkdir -p "$4/DEBIAN"
    printf 'Package: %s\nVersion: %s\nArchitecture: amd64\nMaintainer: lab\nDescription: a stub\n%s' \
        "$2" "$3" "${5:+Depends: $5
}" >"$4/DEBIAN/control"
    [ "$2" != libnccl2 ] || echo 'activate-noawait ldconfig' >"$4/DEBIAN/triggers"
    dpkg-deb --build --root-owner-group -Znone "$4" "$1" >/dev/null
}
# libnccl2 and libnccl-dev of one VERSION, from LIBRARY, into FOLDER
debs() {
    root=home/deb/$2
    where=usr/lib/x86_64-linux-gnu
    plain=${2%%-*}
    mkdir -p "$root/2/$where" "$root/dev/$where" "$root/dev/usr/include"
    cp "$3" "$root/2/$where/libnccl.so.$plain"
    ln -s "libnccl.so.$plain" "$root/2/$where/libnccl.so.2"
    ln -s libnccl.so.2 "$root/dev/$where/libnccl.so"
    echo "#define NCCL_VERSION_SUFFIX \"$plain\"" >"$root/dev/usr/include/nccl.h"
    deb "$1" libnccl2 "$2" "$root/2"
    deb "$1" libnccl-dev "$2" "$root/dev" "libnccl2 (= $2)"
}
for library in lib/*.so; do
    name=$(basename "$library" .so)
    debs deb "${name%+cuda*}-1+cuda${name#*+cuda}" "$library"
done
# The distribution's, whose version does not name its CUDA.
debs distribution 2.18.3-1 distribution.so
mkdir -p home/deb/app
deb distribution site-nccl-app 1.0-1 home/deb/app 'libnccl2 (= 2.18.3-1)'
cd deb
dpkg-scanpackages --multiversion . >Packages 2>/dev/null
{
    printf 'Origin: lab\nLabel: lab\nSuite: stable\nDate: %s\nSHA256:\n' "$(date -Ru)"
    printf ' %s %s Packages\n' "$(sha256sum <Packages | cut -d' ' -f1)" "$(wc -c <Packages)"
} >Release
gpg --batch --quiet --clearsign --output InRelease Release
cd ..
. ./base.sh
gpgconf --kill all
