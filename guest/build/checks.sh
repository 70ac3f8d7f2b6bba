# Runs in a sandbox of the finished template, as its user. Arguments: commands that must succeed. One that fails may leave its reason in /tmp/.why.
for command; do
	echo "+ $command"
	sh -ec "$command" || {
		why=$(cat /tmp/.why 2>/dev/null || :)
		echo "E: the check failed: ${why:-$command}"
		exit 1
	}
done
