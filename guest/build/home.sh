# WHO: a user's name or number, and perhaps a group. Sets home as the image's own /etc/passwd has it.
home=/
case ${WHO%%:*} in
root | 0) home=/root ;;
esac
while IFS=: read -r name _ id _ _ dir _; do
	if [ "$name" = "${WHO%%:*}" ] || [ "$id" = "${WHO%%:*}" ]; then
		home=$dir
		break
	fi
done 2>/dev/null </etc/passwd
