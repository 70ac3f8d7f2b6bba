# Runs in a sandbox on `host`, behind archive.sh: unpacks the packages that every Debian has into /template, without chroot and
# mounts. They are not configured there: that is done by themselves, in a sandbox of what comes out.
: "${work:?}"
tree=/template
mkdir -p "$tree/etc/apt" "$tree/var/lib/apt" "$tree/var/cache/apt"
apt-get -q update
apt-get -q install -y --download-only -o APT::Status-Fd=3 '?essential' apt 3>&1
for archive in "$work"/archives/*.deb; do
	echo "Unpacking ${archive##*/}"
	dpkg-deb --fsys-tarfile "$archive" | tar -C "$tree" -x --keep-directory-symlink
done
# The lists are those of the state that this was made for: the next step uses them and fetches none. They are not in their
# own place, because no image keeps what is there.
mkdir -p "$tree/var/lib/cloche/bootstrap"
mv "$work/archives" "$work/lists" "$tree/var/lib/cloche/bootstrap"
cp "$work/etc/sources.list" "$tree/etc/apt/sources.list"
# An empty database, so that dpkg knows of nothing and installs all.
mkdir -p "$tree/var/lib/dpkg/info" "$tree/var/lib/dpkg/updates"
: >"$tree/var/lib/dpkg/status"
: >"$tree/var/lib/dpkg/available"
