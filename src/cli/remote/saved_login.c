// SPDX-License-Identifier: Apache-2.0
#include "cli/remote/saved_login.h"

#include "base/fd.h"
#include "base/json/json.h"
#include "base/log.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define FILE_MAX 65536
#define NAME     "login.json"

char *saved_login_directory(void)
{
	const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");

	if (config && config[0] == '/')
		return xasprintf("%s/cloche", config);
	return home && home[0] == '/' ? xasprintf("%s/.config/cloche", home) : NULL;
}

/* Somebody else's file, or one that somebody else can read, is none. */
static bool is_own(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
	       (st.st_mode & 077) == 0 && st.st_size < FILE_MAX;
}

static json_t *read_all(const char *dir)
{
	auto_free char *path = xasprintf("%s/" NAME, dir);
	auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	auto_free char *text = NULL;
	json_t *all = NULL;
	ssize_t n;

	if (fd < 0 || !is_own(fd))
		return json_object();
	text = xcalloc(1, FILE_MAX);
	n = read(fd, text, FILE_MAX - 1);
	if (n > 0)
		all = json_loadb(text, (size_t)n, JSON_REJECT_DUPLICATES, NULL);
	OPENSSL_cleanse(text, FILE_MAX);
	if (json_is_object(all))
		return all;
	json_decref(all);
	return json_object();
}

char *saved_login_find(const char *url)
{
	auto_free char *dir = saved_login_directory();
	auto_json json_t *all = dir ? read_all(dir) : NULL;
	const char *token = json_string_value(json_object_get(all, url));

	return token ? xstrdup(token) : NULL;
}

int saved_login_make_directory(const char *dir)
{
	auto_free char *above = xstrdup(dir);
	char *slash = strrchr(above, '/');

	*slash = '\0';
	(void)mkdir(above, 0700); /* there, as a rule */
	return mkdir(dir, 0700) < 0 && errno != EEXIST ? -errno : 0;
}

/* Beside the old file first: one that is cut short is never read. */
static int write_all(const char *dir, const json_t *all)
{
	auto_free char *path = xasprintf("%s/" NAME, dir);
	auto_free char *fresh = xasprintf("%s/." NAME ".%d", dir, (int)getpid());
	auto_free char *text = json_dumps(all, JSON_INDENT(2) | JSON_SORT_KEYS);
	auto_fd int fd = -1;
	int r;

	(void)unlink(fresh);
	fd = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0 || !text)
		return -errno;
	r = fd_write_all(fd, text, strlen(text));
	OPENSSL_cleanse(text, strlen(text));
	if (r == 0 && rename(fresh, path) < 0)
		r = -errno;
	if (r < 0)
		(void)unlink(fresh);
	return r;
}

int saved_login_set(const char *url, const char *token, struct err *err)
{
	auto_free char *dir = saved_login_directory();
	auto_json json_t *all = NULL;
	int r;

	if (!dir)
		return err_set(err, ERR_UNAVAILABLE, 0,
		               "there is no home directory to keep the login in: set HOME");
	all = read_all(dir);
	if (token)
		(void)json_object_set_new(all, url, json_string(token));
	else
		(void)json_object_del(all, url);
	r = saved_login_make_directory(dir);
	if (r == 0)
		r = write_all(dir, all);
	return r < 0 ? err_set(err, ERR_INTERNAL, -r, "cannot write '%s/" NAME "'", dir) : 0;
}
