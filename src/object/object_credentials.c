// SPDX-License-Identifier: Apache-2.0
#include "base/fd.h"
#include "object/object_sign.h"

#include <ctype.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>

#define FILE_MAX ((size_t)16 * 1024)

static char *trim(char *text)
{
	size_t len;

	text += strspn(text, " \t\r");
	len = strlen(text);
	while (len > 0 && isspace((unsigned char)text[len - 1]))
		text[--len] = '\0';
	return text;
}

static bool is_plain(const char *text)
{
	for (; *text; text++)
		if (*text <= ' ' || *text > '~')
			return false;
	return true;
}

static int take(struct object_credentials *c, const char *name, const char *value)
{
	const struct {
		const char *name;
		char *at;
		size_t size;
	} texts[] = {{"aws_access_key_id", c->id, sizeof(c->id)},
	             {"aws_secret_access_key", c->secret, sizeof(c->secret)}};

	if (!is_plain(value))
		return -EINVAL;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		if (strcmp(name, texts[i].name) != 0)
			continue;
		if (strlen(value) >= texts[i].size)
			return -E2BIG;
		(void)snprintf(texts[i].at, texts[i].size, "%s", value);
	}
	if (strcmp(name, "aws_session_token") == 0 && !c->session)
		c->session = xstrdup(value);
	return 0;
}

/* The first section counts until one is found that is called default. */
static int parse(char *text, struct object_credentials *ret)
{
	bool is_meant = true, has_section = false;
	char *rest = text, *line;
	int r = 0;

	while (r == 0 && (line = strsep(&rest, "\n"))) {
		char *value;

		line = trim(line);
		if (*line == '\0' || *line == '#' || *line == ';')
			continue;
		if (*line == '[') {
			bool is_default = strcmp(line, "[default]") == 0;

			if (is_default && ret->id[0])
				object_credentials_done(ret);
			is_meant = is_default || !has_section;
			has_section = true;
			continue;
		}
		value = strchr(line, '=');
		if (!value)
			return -EINVAL;
		*value++ = '\0';
		if (is_meant)
			r = take(ret, trim(line), trim(value));
	}
	return r;
}

int object_credentials_parse(char *text, struct object_credentials *ret, struct err *err)
{
	int r;

	*ret = (struct object_credentials){0};
	r = parse(text, ret);
	if (r == 0 && ret->id[0] && ret->secret[0])
		return 0;
	object_credentials_done(ret);
	(void)err_set(err, ERR_INVALID_FIELD, 0,
	              r < 0 ? "a line is not NAME = VALUE, or its value is no such text"
	                    : "it has no aws_access_key_id or no aws_secret_access_key");
	return err_hint(err, "write it as ~/.aws/credentials is written");
}

int object_credentials_read(const char *path, const char *setting, struct object_credentials *ret,
                            struct err *err)
{
	auto_call(buf_done) struct buf text = BUF_INIT(FILE_MAX);
	char *room;
	auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	ssize_t n = fd < 0 ? -1 : 0;
	int r;

	if (n == 0 && buf_reserve(&text, FILE_MAX, &room) == 0) {
		n = read(fd, room, FILE_MAX - 1);
		buf_commit(&text, (size_t)MAX(n, 0));
	}
	if (n < 0) {
		(void)err_field(err, setting, "'%s' cannot be read: %s", path, strerror(errno));
		return err_hint(err, "it is read by root at the start of the daemon");
	}
	if (n == 0)
		return err_field(err, setting, "'%s' is empty", path);
	r = object_credentials_parse(text.data, ret, err);
	OPENSSL_cleanse(text.data, text.len);
	return r < 0 ? err_prefix(err, "%s: '%s'", setting, path) : 0;
}

void object_credentials_done(struct object_credentials *c)
{
	if (c->session)
		OPENSSL_cleanse(c->session, strlen(c->session));
	free(c->session);
	OPENSSL_cleanse(c, sizeof(*c));
	*c = (struct object_credentials){0};
}
