# Runs in a sandbox on `host`, behind archive.sh: the kernel that vms start with, unpacked from Debian's package into /template
# and installed nowhere. tools/guest-kernel runs it too, with directories of its own.
# KERNELS: names of packages without the architecture behind; the first that the archive has is taken.
tree=${TREE:-/template}
# In the order in which the agent loads them; what this kernel has built in is not there.
modules="virtio virtio_ring virtio_pci_modern_dev virtio_pci_legacy_dev virtio_pci virtio_console crc32c_generic libcrc32c erofs
	overlay virtio_blk failover net_failover virtio_net virtio-rng"
apt-get -q update
image=
for name in $KERNELS; do
	# The package of this name only depends on the newest of its kind.
	image=$(apt-cache --no-all-versions show "$name-$ARCH" 2>/dev/null | sed -n 's/^Depends: *\(linux-image-[^ ,]*\).*/\1/p')
	[ -z "$image" ] || break
done
[ -n "$image" ] || {
	echo "E: the archive has none of these kernels: $KERNELS"
	exit 1
}
echo "Fetching $image"
mkdir -p "$work/kernel" "$tree/modules"
cd "$work/kernel"
apt-get -q download "$image"
dpkg-deb -x ./*.deb .
release=${image#linux-image-}
version=$(dpkg-deb -f ./*.deb Version)
cp "boot/vmlinuz-$release" "$tree/vmlinuz"

# The kernel of an x86 unpacks itself, which takes longer than the rest of its start where there is no KVM. Its header says
# where the packed one is (boot protocol 2.08); behind it are four bytes with its length.
number() { od -An -t "u$2" -j "$1" -N "$2" "$tree/vmlinuz" | tr -d ' '; }
if [ "$(number 514 4)" = 1400005704 ] && command -v zstd >/dev/null; then # "HdrS"
	from=$((($(number 497 1) + 1) * 512 + $(number 584 4)))
	tail -c "+$((from + 1))" "$tree/vmlinuz" | head -c "$(($(number 588 4) - 4))" | zstd -dcq >"$tree/vmlinux" 2>/dev/null ||
		rm -f "$tree/vmlinux" # of another kind: it unpacks itself
fi

n=10
for name in $modules; do
	file=$(find . -path '*/kernel/*' \( -name "$name.ko" -o -name "$name.ko.xz" \))
	[ -n "$file" ] || continue
	case $file in
	*.xz) xz -dc "$file" >"$tree/modules/$n-$name.ko" ;;
	*) cp "$file" "$tree/modules/$n-$name.ko" ;;
	esac
	n=$((n + 1))
done
[ -e "$tree/modules/$((n - 1))-virtio-rng.ko" ] || {
	echo "E: $image has not the modules that a vm needs"
	exit 1
}
chmod -R a+rX,u=rwX,go=rX "$tree"
{
	echo "release=$release"
	echo "version=$version"
	cd "$tree"
	sha256sum vmlinu* modules/*
} >"$tree/manifest"
printf 'cloche:package\tdeb\t%s\t%s\tGPL-2\n' "$image" "$version"
