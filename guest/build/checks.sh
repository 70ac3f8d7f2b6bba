# Runs in a sandbox of the finished template, as its user. Arguments: commands that must succeed.
for command; do
	echo "+ $command"
	sh -ec "$command" || {
		echo "E: the check failed: $command"
		exit 1
	}
done
