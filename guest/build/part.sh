# Runs in the sandbox of a Dockerfile's part, as root. FILES: lines "BASE64 PATH". Arguments: a title and a script for each instruction.
set -u
umask 022

for program in base64 cp dirname mkdir; do
	command -v $program >/dev/null || {
		echo "E: the image that it starts from has no program '$program', which the steps of a Dockerfile are run with; start from one with a shell and its usual programs, and copy the result into this one by FROM scratch"
		exit 1
	}
done
echo "$FILES" | while read -r content path; do
	mkdir -p "$(dirname "$path")"
	echo "$content" | base64 -d >"$path"
done
unset FILES
mkdir -p "$ROOT/"

while [ $# -gt 0 ]; do
	echo "+ $1"
	sh "$2" || {
		status=$?
		echo "E: $1: exit status $status"
		exit 1
	}
	shift 2
done
[ "$IS_LAST" = 1 ] && [ -z "$ROOT" ] || exit 0
