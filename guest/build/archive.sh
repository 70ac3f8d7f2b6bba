# Runs before a step's script on `host`, in the same shell: an apt beside the host's own, in $work, with the recipe's archives.
# SOURCES: as in state.sh. ARCH: Debian's name of the architecture.
set -eu
umask 022
work=/var/tmp/archive
mkdir -p "$work/etc/apt.conf.d" "$work/etc/preferences.d" "$work/etc/trusted.gpg.d" "$work/lists/partial" "$work/archives/partial"
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
