# Runs in a sandbox on `host`: unpacks the packages that every Debian has into /template, without chroot and mounts. They are
# not configured there: that is done by themselves, in a sandbox of what comes out.
# SOURCES: as in state.sh. ARCH: Debian's name of the architecture.
set -eu
umask 022
work=/var/tmp/bootstrap
tree=/template
mkdir -p "$work/etc/apt.conf.d" "$work/etc/preferences.d" "$work/etc/trusted.gpg.d" "$work/lists/partial" \
	"$work/archives/partial" "$tree/etc/apt" "$tree/var/lib/apt" "$tree/var/cache/apt"
: >"$work/status"
while read -r options uri suite components; do
	case $options in
	*trusted=yes* | *signed-by=*) ;;
	*) options="[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]" ;;
	esac
	echo "deb $options $uri $suite $components"
done >"$work/etc/sources.list" <<END
$SOURCES
END
cat >"$work/apt.conf" <<END
Dir::Etc "$work/etc";
Dir::State "$work";
Dir::State::status "$work/status";
Dir::State::Lists "$work/lists";
Dir::Cache "$work";
Dir::Cache::Archives "$work/archives";
Dir::Log "$work";
APT::Architecture "$ARCH";
APT::Architectures "$ARCH";
APT::Install-Recommends "false";
APT::Sandbox::User "root";
APT::Cmd::Pattern-Only "true";
Acquire::Languages "none";
Acquire::Retries "3";
END
export APT_CONFIG="$work/apt.conf" LC_ALL=C.UTF-8
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
