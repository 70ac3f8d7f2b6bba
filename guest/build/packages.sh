# Runs in a sandbox of the step before, as root: installs packages. The first on a bootstrap's tree installs that first.
# PACKAGES: names. SOURCES: as in state.sh. TEMPLATE_USER: who sandboxes run as.
# shellcheck disable=SC2086 # names, and options
set -eu
umask 022
export DEBIAN_FRONTEND=noninteractive DEBCONF_NONINTERACTIVE_SEEN=true LC_ALL=C.UTF-8
first=/var/lib/cloche/bootstrap

# Nothing that is installed may start anything, manuals are not read here, and pip may install what it is asked to: a sandbox
# is nobody's system.
printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
chmod 755 /usr/sbin/policy-rc.d
cat >/etc/dpkg/dpkg.cfg.d/cloche <<END
force-unsafe-io
path-exclude=/usr/lib/python3*/EXTERNALLY-MANAGED
path-exclude=/usr/share/doc/*
path-include=/usr/share/doc/*/copyright
path-exclude=/usr/share/info/*
path-exclude=/usr/share/lintian/*
path-exclude=/usr/share/locale/*
path-exclude=/usr/share/man/*
END
cat >/etc/apt/apt.conf.d/50cloche <<END
APT::Install-Recommends "false";
APT::Sandbox::User "root";
Acquire::Languages "none";
Acquire::Retries "3";
END

install="apt-get -q install -y -o APT::Cmd::Pattern-Only=true"
if [ -n "$PACKAGES" ]; then
	if [ -d "$first" ]; then
		rm -rf /var/lib/apt/lists
		mv "$first/lists" /var/lib/apt/lists
	else
		apt-get -q update
	fi
	# A wrong name is told before anything is done.
	$install --simulate $PACKAGES >/dev/null
fi

if [ -d "$first" ]; then
	rm -rf /usr/share/info/* /usr/share/lintian/* /usr/share/locale/* /usr/share/man/*
	find /usr/share/doc -type f ! -name copyright -delete
	{ dpkg --install --force-depends "$first"/archives/*.deb 2>&1 || : >"$first/failed"; } |
		grep -v -e '^ ' -e '^$' -e 'pre-dependency problem' -e 'update-alternatives: '
	[ ! -e "$first/failed" ] || exit 1
	rm -r "$first"
fi
mkdir -p /usr/share/man/man1 # some packages put links there (Java's) and do not install without
add_user() {
	grep -q "^$1:" /etc/passwd && return
	echo "$1:x:$2:" >>/etc/group
	echo "$1:!::" >>/etc/gshadow
	echo "$1:x:$2:$2::/home/$1:/bin/bash" >>/etc/passwd
	echo "$1:!:20000::::::" >>/etc/shadow
	mkdir -p "/home/$1"
	cp -R /etc/skel/. "/home/$1"
	chown -R "$2:$2" "/home/$1"
}
touch /etc/gshadow /etc/shadow
chmod 640 /etc/gshadow /etc/shadow
add_user user 1000
add_user "$TEMPLATE_USER" 1001

# The fd of status is closed in what dpkg runs, so it must not be theirs.
[ -z "$PACKAGES" ] || $install -o APT::Status-Fd=3 -o Dpkg::Use-Pty=0 $PACKAGES 3>&1
