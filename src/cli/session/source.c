// SPDX-License-Identifier: Apache-2.0
#include "cli/session/source.h"

#include <stdlib.h>

static int check(const struct source_opts *s, struct err *err)
{
	if (s->git && s->tarball)
		return err_set(err, ERR_INVALID_FIELD, 0,
		               "--git and --tarball: only one of them can be given");
	if (!s->git && (s->revision || s->depth))
		return err_set(err, ERR_INVALID_FIELD, 0, "--%s needs --git",
		               s->revision ? "revision" : "depth");
	if (!s->git && !s->tarball && (s->path || s->username))
		return err_set(err, ERR_INVALID_FIELD, 0, "--%s needs --git or --tarball",
		               s->path ? "source-path" : "source-user");
	if (s->username && !getenv(SOURCE_PASSWORD))
		return err_set(err, ERR_INVALID_FIELD, 0,
		               "--source-user: the password is missing from $" SOURCE_PASSWORD);
	return 0;
}

int source_opts_to_json(const struct source_opts *s, json_t *body, struct err *err)
{
	const char *password = getenv(SOURCE_PASSWORD);
	json_t *source;
	int r = check(s, err);

	if (r < 0 || (!s->git && !s->tarball))
		return r;
	source = json_pack("{s:s, s:s, s:s*, s:s*}", "type", s->git ? "git" : "tarball", "url",
	                   s->git ? s->git : s->tarball, "revision", s->revision, "path", s->path);
	if (!source)
		return err_set(err, ERR_INVALID_FIELD, 0, "the source is not valid UTF-8");
	if (s->depth)
		(void)json_object_set_new(source, "depth", json_integer((json_int_t)s->depth));
	if (password)
		(void)json_object_set_new(
			source, "credentials",
			json_pack("{s:s*, s:s}", "username", s->username, "password", password));
	(void)json_object_set_new(body, "source", source);
	return 0;
}
