# Runs on the host's programs, with an image at /template: packs a path of it for a COPY of a Dockerfile, under the name "tree".
# Arguments: the line of the instruction, and the path without its first '/'.
set -u
umask 077
rest=$2 at='' links=0
# Links lead where they lead in the image, and nowhere else.
while [ -n "$rest" ]; do
	part=${rest%%/*}
	case $rest in
	*/*) rest=${rest#*/} ;;
	*) rest='' ;;
	esac
	case $part in
	'' | .) continue ;;
	..)
		at=${at%/*}
		continue
		;;
	esac
	if [ -L "/template$at/$part" ] && [ "$links" -lt 40 ]; then
		links=$((links + 1))
		link=$(readlink "/template$at/$part")
		case $link in
		/*) at='' ;;
		esac
		rest=$link${rest:+/$rest}
	else
		at=$at/$part
	fi
done
path=/template$at
[ ! -L "$path" ] && [ -e "$path" ] || {
	echo "E: line $1: there is no '/$2' in what is copied from"
	exit 1
}
dir=${path%/*}
tar -C "${dir:-/}" --numeric-owner --transform 's,^[^/]*,tree,S' -I 'gzip -1' -cf /carried.tar.gz -- "${path##*/}"
