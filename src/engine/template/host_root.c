// SPDX-License-Identifier: Apache-2.0
/*
 * The skeleton comes from tables: directories, texts, links. It is built under a temporary name and
 * renamed when complete, so a broker killed in the middle leaves nothing that looks like a
 * template. Owners on disk are those seen inside; idmapped mounts shift them.
 */
#include "engine/template/host_root.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/fs/dir_reader.h"
#include "base/process/spawn.h"
#include "engine/linux/dir_tree.h"
#include "engine/template/drivers.h"
#include "engine/template/fittings.h"
#include "engine/template/host_java.h"
#include "engine/template/host_packages.h"
#include "engine/template/skeleton.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define FORMAT      6 /* increased when the tables below change the result */
#define USER_ID     1000
#define DRIVERS_MAX (8 << 20)

static const struct {
	const char *path;
	mode_t mode;
	uid_t owner;
} dirs[] = {
	{"dev", 0755, 0},
	{"etc", 0755, 0},
	{"etc/R", 0755, 0},
	{"etc/alternatives", 0755, 0},
	{"etc/apt", 0755, 0},
	{"etc/apt/apt.conf.d", 0755, 0},
	{"etc/apt/preferences.d", 0755, 0},
	{"etc/apt/sources.list.d", 0755, 0},
	{"etc/apt/trusted.gpg.d", 0755, 0},
	{"etc/default", 0755, 0},
	{"etc/dpkg", 0755, 0},
	{"etc/dpkg/dpkg.cfg.d", 0755, 0},
	{"etc/fonts", 0755, 0},
	{"etc/ld.so.conf.d", 0755, 0},
	{"etc/pam.d", 0755, 0},
	{"etc/profile.d", 0755, 0},
	{"etc/skel", 0755, 0},
	{"etc/ssl", 0755, 0},
	{"etc/ssl/certs", 0755, 0},
	{"home", 0755, 0},
	{"home/user", 0755, USER_ID},
	{"mnt", 0755, 0},
	{"opt", 0755, 0},
	{"opt/cloche", 0755, 0},
	{"opt/cloche/bin", 0755, 0},
	{"opt/cloche/kernels", 0755, 0},
	{"proc", 0555, 0},
	{"root", 0700, 0},
	{"run", 0755, 0},
	{"run/lock", 01777, 0},
	{"srv", 0755, 0},
	{"sys", 0555, 0},
	{"tmp", 01777, 0},
	{"usr", 0755, 0},
	{"var", 0755, 0},
	{"var/backups", 0755, 0},
	{"var/cache", 0755, 0},
	{"var/cache/apt", 0755, 0},
	{"var/cache/apt/archives", 0755, 0},
	{"var/cache/apt/archives/partial", 0700, 0},
	{"var/cache/debconf", 0755, 0},
	{"var/cache/ldconfig", 0700, 0},
	{"var/lib", 0755, 0},
	{"var/lib/apt", 0755, 0},
	{"var/lib/apt/lists", 0755, 0},
	{"var/lib/apt/lists/partial", 0700, 0},
	{"var/lib/dpkg", 0755, 0},
	{"var/lib/dpkg/alternatives", 0755, 0},
	{"var/lib/dpkg/info", 0755, 0},
	{"var/lib/dpkg/parts", 0755, 0},
	{"var/lib/dpkg/triggers", 0755, 0},
	{"var/lib/dpkg/updates", 0755, 0},
	{"var/lib/misc", 0755, 0},
	{"var/local", 0755, 0},
	{"var/log", 0755, 0},
	{"var/log/apt", 0755, 0},
	{"var/mail", 0775, 0},
	{"var/opt", 0755, 0},
	{"var/spool", 0755, 0},
	{"var/tmp", 01777, 0},
};

static const char bashrc[] = "# ~/.bashrc: for interactive shells.\n"
			     "case $- in *i*) ;; *) return ;; esac\n"
			     "HISTCONTROL=ignoreboth\n"
			     "shopt -s checkwinsize\n"
			     "PS1='\\u@\\h:\\w\\$ '\n"
			     "alias ls='ls --color=auto' grep='grep --color=auto'\n";
static const char profile[] = "# ~/.profile: for login shells.\n"
			      "[ -n \"$BASH_VERSION\" ] && [ -f ~/.bashrc ] && . ~/.bashrc\n"
			      "if [ -d ~/.local/bin ]; then PATH=~/.local/bin:$PATH; fi\n";

static const struct {
	const char *path;
	mode_t mode;
	uid_t owner;
	const char *text;
} files[] = {
	{"etc/passwd", 0644, 0,
         "root:x:0:0:root:/root:/bin/bash\n"
         "daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n"
         "bin:x:2:2:bin:/bin:/usr/sbin/nologin\n"
         "sys:x:3:3:sys:/dev:/usr/sbin/nologin\n"
         "sync:x:4:65534:sync:/bin:/bin/sync\n"
         "man:x:6:12:man:/var/cache/man:/usr/sbin/nologin\n"
         "mail:x:8:8:mail:/var/mail:/usr/sbin/nologin\n"
         "www-data:x:33:33:www-data:/var/www:/usr/sbin/nologin\n"
         "backup:x:34:34:backup:/var/backups:/usr/sbin/nologin\n"
         "_apt:x:42:65534::/nonexistent:/usr/sbin/nologin\n"
         "user:x:1000:1000:user:/home/user:/bin/bash\n"
         "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"},
	{"etc/shadow", 0640, 0,
         "root:*:19000:0:99999:7:::\n"
         "daemon:*:19000:0:99999:7:::\n"
         "bin:*:19000:0:99999:7:::\n"
         "sys:*:19000:0:99999:7:::\n"
         "sync:*:19000:0:99999:7:::\n"
         "man:*:19000:0:99999:7:::\n"
         "mail:*:19000:0:99999:7:::\n"
         "www-data:*:19000:0:99999:7:::\n"
         "backup:*:19000:0:99999:7:::\n"
         "_apt:*:19000:0:99999:7:::\n"
         "user:*:19000:0:99999:7:::\n"
         "nobody:*:19000:0:99999:7:::\n"},
	{"etc/group", 0644, 0,
         "root:x:0:\ndaemon:x:1:\nbin:x:2:\nsys:x:3:\nadm:x:4:\ntty:x:5:\ndisk:x:6:\nlp:x:7:\n"
         "mail:x:8:\nman:x:12:\nkmem:x:15:\nsudo:x:27:user\nwww-data:x:33:\nbackup:x:34:\n"
         "shadow:x:42:\nutmp:x:43:\nstaff:x:50:\ngames:x:60:\nusers:x:100:\nuser:x:1000:\n"
         "nogroup:x:65534:\n"},
	{"etc/gshadow", 0640, 0,
         "root:*::\ndaemon:*::\nbin:*::\nsys:*::\nadm:*::\ntty:*::\ndisk:*::\nlp:*::\n"
         "mail:*::\nman:*::\nkmem:*::\nsudo:*::user\nwww-data:*::\nbackup:*::\n"
         "shadow:*::\nutmp:*::\nstaff:*::\ngames:*::\nusers:*::\nuser:*::\n"
         "nogroup:*::\n"},
	{"etc/hostname", 0644, 0, "sandbox\n"},
	{"etc/hosts", 0644, 0, "127.0.0.1\tlocalhost sandbox\n::1\tlocalhost\n"},
	{"etc/machine-id", 0444, 0, ""},
	{"etc/resolv.conf", 0644, 0, "nameserver 127.0.0.1\noptions attempts:3 timeout:3\n"},
	{"etc/nsswitch.conf", 0644, 0,
         "passwd: files\ngroup: files\nshadow: files\ngshadow: files\n"
         "hosts: files dns\nnetworks: files\nprotocols: files\nservices: files\n"},
	{"etc/host.conf", 0644, 0, "multi on\n"},
	{"etc/protocols", 0644, 0,
         "ip 0 IP\nicmp 1 ICMP\ntcp 6 TCP\nudp 17 UDP\nipv6-icmp 58 IPv6-ICMP\n"},
	{"etc/services", 0644, 0,
         "ftp 21/tcp\nssh 22/tcp\nsmtp 25/tcp\ndomain 53/tcp\ndomain 53/udp\nhttp 80/tcp\n"
         "pop3 110/tcp\nntp 123/udp\nimap2 143/tcp\nhttps 443/tcp\nimaps 993/tcp\n"
         "mysql 3306/tcp\npostgresql 5432/tcp\nredis 6379/tcp\nhttp-alt 8080/tcp\n"},
	{"etc/shells", 0644, 0, "/bin/sh\n/usr/bin/sh\n/bin/bash\n/usr/bin/bash\n/bin/dash\n"},
	{"etc/timezone", 0644, 0, "Etc/UTC\n"},
	/* Debian's pip refuses to change the system's packages; here the system is the sandbox. */
	{"etc/pip.conf", 0644, 0, "[global]\nbreak-system-packages = true\n"},
	{"etc/environment", 0644, 0, ""},
	{"etc/fstab", 0644, 0, ""},
	{"etc/issue", 0644, 0, "cloche\n"},
	{"etc/profile", 0644, 0,
         "PATH=${PATH:-/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin}\n"
         "export PATH\n"
         "[ -n \"$BASH\" ] && [ -f /etc/bash.bashrc ] && . /etc/bash.bashrc\n"
         "for i in /etc/profile.d/*.sh; do [ -r \"$i\" ] && . \"$i\"; done\n"
         "unset i\n"},
	{"etc/bash.bashrc", 0644, 0,
         "[ -z \"$PS1\" ] && return\nshopt -s checkwinsize\nPS1='\\u@\\h:\\w\\$ '\n"},
	{"etc/ld.so.conf", 0644, 0,
         "include /etc/ld.so.conf.d/*.conf\n/usr/local/lib\n"
         "/usr/local/lib/x86_64-linux-gnu\n/usr/local/lib/aarch64-linux-gnu\n"
         "/usr/lib/x86_64-linux-gnu\n/usr/lib/aarch64-linux-gnu\n"},
	{"etc/login.defs", 0644, 0,
         "MAIL_DIR /var/mail\nPASS_MAX_DAYS 99999\nPASS_MIN_DAYS 0\nPASS_WARN_AGE 7\n"
         "UID_MIN 1000\nUID_MAX 60000\nSYS_UID_MIN 100\nSYS_UID_MAX 999\n"
         "GID_MIN 1000\nGID_MAX 60000\nSYS_GID_MIN 100\nSYS_GID_MAX 999\n"
         "SUB_UID_COUNT 0\nSUB_GID_COUNT 0\nUSERGROUPS_ENAB yes\nENCRYPT_METHOD SHA512\n"
         "LOG_OK_LOGINS no\nSYSLOG_SU_ENAB no\nSYSLOG_SG_ENAB no\n"},
	{"etc/default/useradd", 0644, 0, "SHELL=/bin/bash\nSKEL=/etc/skel\nCREATE_MAIL_SPOOL=no\n"},
	{"etc/pam.d/other", 0644, 0,
         "auth sufficient pam_rootok.so\nauth required pam_deny.so\n"
         "account required pam_permit.so\npassword required pam_unix.so\n"
         "session required pam_permit.so\n"},
	{"etc/skel/.bashrc", 0644, 0, bashrc},
	{"etc/skel/.profile", 0644, 0, profile},
	{"root/.bashrc", 0644, 0, bashrc},
	{"root/.profile", 0644, 0, profile},
	{"home/user/.bashrc", 0644, USER_ID, bashrc},
	{"home/user/.profile", 0644, USER_ID, profile},
	{"etc/fonts/fonts.conf", 0644, 0,
         "<?xml version=\"1.0\"?>\n<fontconfig>\n"
         "<dir>/usr/share/fonts</dir>\n<dir>/usr/local/share/fonts</dir>\n<dir "
         "prefix=\"xdg\">fonts</dir>\n"
         "<cachedir prefix=\"xdg\">fontconfig</cachedir>\n</fontconfig>\n"},
	/* Debian's R looks for it here; what it says there, but for Java's libraries. */
	{"etc/R/ldpaths", 0644, 0,
         "LD_LIBRARY_PATH=$R_HOME/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}\n"
         "export LD_LIBRARY_PATH\n"},
	{"etc/ssl/openssl.cnf", 0644, 0, "# OpenSSL's own defaults.\n"},
	/* _apt could not reach the archive directories of a one-user sandbox. */
	{"etc/apt/apt.conf.d/00cloche", 0644, 0, "APT::Sandbox::User \"root\";\n"},
	{"etc/apt/sources.list", 0644, 0, ""},
	{"etc/debconf.conf", 0644, 0,
         "Config: configdb\nTemplates: templatedb\n\n"
         "Name: configdb\nDriver: File\nMode: 644\nFilename: /var/cache/debconf/config.dat\n\n"
         "Name: templatedb\nDriver: File\nMode: 644\n"
         "Filename: /var/cache/debconf/templates.dat\n"},
	{"var/lib/dpkg/available", 0644, 0, ""},
	{"var/lib/dpkg/lock", 0640, 0, ""},
	{"var/lib/dpkg/lock-frontend", 0640, 0, ""},
	{"var/lib/dpkg/triggers/File", 0644, 0, ""},
	{"var/lib/dpkg/triggers/Lock", 0600, 0, ""},
	{"var/lib/dpkg/triggers/Unincorp", 0644, 0, ""},
	{"var/lib/dpkg/info/format", 0644, 0, "1\n"},
};

static const struct {
	const char *path, *target;
} links[] = {
	{"etc/os-release", "../usr/lib/os-release"},
	{"etc/localtime", "/usr/share/zoneinfo/Etc/UTC"},
	{"etc/mtab", "../proc/self/mounts"},
	/* Where Debian's matplotlib looks for its settings, and does not start without. */
	{"etc/matplotlibrc", "../usr/share/matplotlib/matplotlib.conf/matplotlibrc"},
	/* And its R, for the settings that come with it. */
	{"etc/R/Renviron", "/usr/lib/R/etc/Renviron.ucf"},
	{"var/run", "/run"},
	{"var/lock", "/run/lock"},
	{"var/spool/mail", "../mail"},
};

static int make_tables(int fd)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(dirs); i++)
		r = skeleton_dir(fd, dirs[i].path, dirs[i].mode, dirs[i].owner);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(files); i++)
		r = skeleton_file(fd, files[i].path, files[i].mode, files[i].owner, files[i].text,
		                  strlen(files[i].text));
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(links); i++)
		r = symlinkat(links[i].target, fd, links[i].path) < 0 ? -errno : 0;
	return r;
}

/* /bin, /lib and the like: links into usr, as on the host. */
static int make_usr_links(int fd)
{
	static const char *const names[] = {"bin", "sbin", "lib", "lib32", "lib64", "libx32"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		char path[16], target[64];
		ssize_t n;

		(void)snprintf(path, sizeof(path), "/%s", names[i]);
		n = readlink(path, target, sizeof(target) - 1);
		if (n < 0)
			continue;
		target[n] = '\0';
		if (strncmp(target, "usr/", 4) == 0 && symlinkat(target, fd, names[i]) < 0)
			return -errno;
	}
	return 0;
}

static bool ends_with(const char *s, const char *end)
{
	size_t len = strlen(s), end_len = strlen(end);

	return len >= end_len && strcmp(s + len - end_len, end) == 0;
}

/* The alternatives: which of several programs a name stands for (awk, vi, cc). Manual pages are
 * left out. */
static int make_alternatives(int fd)
{
	auto_dir struct dir_reader dir = {.fd = -1};
	const char *name;
	int r = 0;

	if (dir_open(&dir, AT_FDCWD, "/etc/alternatives") < 0)
		return 0; /* not a Debian */
	while (r == 0 && (name = dir_next(&dir))) {
		char path[300], target[PATH_MAX];
		ssize_t n = readlinkat(dir.fd, name, target, sizeof(target) - 1);

		if (n < 0 || ends_with(name, ".gz"))
			continue;
		target[n] = '\0';
		if (strncmp(target, "/usr/", 5) != 0 && strncmp(target, "/bin/", 5) != 0)
			continue;
		(void)snprintf(path, sizeof(path), "etc/alternatives/%s", name);
		r = symlinkat(target, fd, path) < 0 ? -errno : 0;
	}
	return r < 0 ? r : dir.error;
}

/* Libraries outside the loader's own paths are found by the cache. */
static void make_ld_cache(int fd)
{
	auto_free char *cache = xasprintf("/proc/self/fd/%d/etc/ld.so.cache", fd);
	auto_free char *conf = xasprintf("/proc/self/fd/%d/etc/ld.so.conf", fd);
	const char *const argv[] = {"ldconfig", "-X", "-C", cache, "-f", conf, NULL};
	struct err ignored;

	(void)fcntl(fd, F_SETFD, 0);      /* the program's paths go through it */
	(void)!spawn_run(argv, &ignored); /* without a cache the usual paths still work */
	(void)fcntl(fd, F_SETFD, FD_CLOEXEC);
}

struct source {
	void *agent;
	size_t agent_len;
	struct buf status;  /* dpkg's */
	struct buf drivers; /* drivers.h */
	struct buf ca;      /* skeleton.h */
};

static int make_root(int top, const struct source *src)
{
	auto_fd int fd = -1;
	int r = skeleton_dir(top, "root", 0755, 0);

	if (r < 0)
		return r;
	fd = openat(top, "root", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	r = make_tables(fd);
	if (r == 0)
		r = make_usr_links(fd);
	if (r == 0)
		r = make_alternatives(fd);
	if (r == 0)
		r = host_java_copy(fd);
	if (r == 0)
		r = skeleton_file(fd, SKELETON_CA, 0644, 0, buf_str(&src->ca), src->ca.len);
	if (r == 0)
		r = skeleton_file(fd, "opt/cloche/bin/sudo", 0755, 0, src->agent, src->agent_len);
	if (r == 0)
		r = drivers_write(&src->drivers, fd);
	if (r == 0)
		r = host_packages_write(fd, buf_str(&src->status));
	if (r == 0)
		make_ld_cache(fd);
	return r;
}

static int make_usr(int top)
{
	static const char *const parents[] = {"usr", "usr/local", "usr/local/bin"};
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(parents); i++)
		r = skeleton_dir(top, parents[i], 0755, 0);
	if (r == 0 && symlinkat("/opt/cloche/bin/sudo", top, "usr/local/bin/sudo") < 0)
		r = -errno;
	return r;
}

static int make_fittings(int top, const struct source *src)
{
	auto_fd int fd = -1;
	int r = skeleton_dir(top, "fit", 0755, 0);

	if (r < 0)
		return r;
	fd = openat(top, "fit", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno
	              : fittings_write(fd, src->agent, src->agent_len, &src->drivers, &src->ca);
}

static uint64_t hash(uint64_t h, const void *data, size_t len)
{
	const unsigned char *p = data;

	for (size_t i = 0; i < len; i++) /* FNV-1a: tells versions apart, no more */
		h = (h ^ p[i]) * UINT64_C(0x100000001b3);
	return h;
}

static int read_source(int agent_fd, const char *kernels_dir, struct source *src, struct err *err)
{
	struct stat st;
	int r;

	*src = (struct source){.agent = MAP_FAILED,
	                       .drivers = BUF_INIT(DRIVERS_MAX),
	                       .ca = BUF_INIT(SKELETON_CA_MAX)};
	if (fstat(agent_fd, &st) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot look at the agent's binary");
	src->agent_len = (size_t)st.st_size;
	src->agent = mmap(NULL, src->agent_len, PROT_READ, MAP_PRIVATE, agent_fd, 0);
	if (src->agent == MAP_FAILED)
		return err_set(err, ERR_INTERNAL, errno, "cannot map the agent's binary");
	r = host_packages_read(&src->status);
	if (r < 0)
		return err_set(err, ERR_INTERNAL, -r, "cannot read the list of packages");
	r = skeleton_read_ca(&src->ca);
	if (r < 0)
		return err_set(err, ERR_INTERNAL, -r, "cannot read the certificates to trust");
	return drivers_read(kernels_dir, &src->drivers, err);
}

static void free_source(struct source *src)
{
	if (src->agent != MAP_FAILED)
		(void)munmap(src->agent, src->agent_len);
	buf_done(&src->status);
	buf_done(&src->drivers);
	buf_done(&src->ca);
}

static int build(int templates_fd, const char *name, const struct source *src, struct err *err)
{
	char temp[64];
	auto_fd int fd = -1;
	int r;

	(void)snprintf(temp, sizeof(temp), "%s.new", name);
	r = dir_tree_remove(templates_fd, temp);
	if (r == 0)
		r = skeleton_dir(templates_fd, temp, 0755, 0);
	if (r == 0) {
		fd = openat(templates_fd, temp, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		r = fd < 0 ? -errno : make_root(fd, src);
	}
	if (r == 0)
		r = make_usr(fd);
	if (r == 0)
		r = make_fittings(fd, src);
	if (r == 0 && (syncfs(fd) < 0 || renameat(templates_fd, temp, templates_fd, name) < 0))
		r = -errno;
	return r < 0 ? err_set(err, ERR_INTERNAL, -r, "cannot build the template 'host'") : 0;
}

static int open_templates(const char *data_dir, struct err *err)
{
	auto_free char *path = xasprintf("%s/templates", data_dir);
	int fd;

	/* 0700: some files have modes that are meant for users inside only. */
	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return err_set(err, ERR_INTERNAL, errno, "cannot make '%s'", path);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? err_set(err, ERR_INTERNAL, errno, "cannot open '%s'", path) : fd;
}

int host_root_open(const char *data_dir, int agent_fd, const char *kernels_dir, int *ret_fd,
                   struct err *err)
{
	auto_fd int templates_fd = open_templates(data_dir, err);
	static const char version[] = CLOCHE_VERSION;
	const int format = FORMAT;
	uint64_t h = UINT64_C(0xcbf29ce484222325);
	struct source src;
	char name[48];
	int r = templates_fd;

	if (r < 0)
		return r;
	r = read_source(agent_fd, kernels_dir, &src, err);
	if (r < 0) {
		free_source(&src);
		return r;
	}
	h = hash(h, &format, sizeof(format));
	h = hash(h, version, sizeof(version));
	h = hash(h, src.agent, src.agent_len);
	h = hash(h, buf_str(&src.status), src.status.len);
	h = hash(h, buf_str(&src.drivers), src.drivers.len);
	h = hash(h, buf_str(&src.ca), src.ca.len);
	(void)snprintf(name, sizeof(name), "host-%016" PRIx64, h);
	if (faccessat(templates_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
		r = build(templates_fd, name, &src, err);
	free_source(&src);
	if (r < 0)
		return r;
	*ret_fd = openat(templates_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return *ret_fd < 0 ? err_set(err, ERR_INTERNAL, errno, "cannot open the template 'host'")
	                   : 0;
}

void host_root_prune(const char *data_dir, int template_fd)
{
	struct err ignored;
	auto_fd int fd = open_templates(data_dir, &ignored);
	auto_dir struct dir_reader dir = {.fd = -1};
	struct stat kept, st;
	const char *name;

	if (fd < 0 || dir_open(&dir, fd, ".") < 0 || fstat(template_fd, &kept) < 0)
		return;
	while ((name = dir_next(&dir)))
		if (strncmp(name, "host-", 5) == 0 &&
		    fstatat(dir.fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		    st.st_ino != kept.st_ino)
			(void)!dir_tree_remove(dir.fd, name);
	dir_tell(&dir, "old templates of this host");
}
