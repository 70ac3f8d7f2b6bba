// SPDX-License-Identifier: Apache-2.0
#pragma once
/* What a new sandbox is filled with, from options to the API's JSON. */
#include "base/json/json.h"
#include "cli/term/opts.h"

#define SOURCE_PASSWORD "CLOCHE_SOURCE_PASSWORD" /* in the environment: words of a command show */

struct source_opts {
	const char *git, *tarball; /* URLs, at most one of them */
	const char *revision, *path, *username;
	uint64_t depth;
};

/* clang-format off */
#define SOURCE_OPT_ROWS(s) \
	{0, "git",         OPT_TEXT,   &(s).git,      "URL",  "fill it with this repository before it runs"}, \
	{0, "revision",    OPT_TEXT,   &(s).revision, "REV",  "the branch, tag, full commit hash or ref to take"}, \
	{0, "depth",       OPT_NUMBER, &(s).depth,    "N",    "fetch only the last N commits"}, \
	{0, "tarball",     OPT_TEXT,   &(s).tarball,  "URL",  "fill it with this tar archive, which may be compressed with gzip or zstd"}, \
	{0, "source-path", OPT_TEXT,   &(s).path,     "DIR",  "where to put it (default: the repository's name; the home for an archive)"}, \
	{0, "source-user", OPT_TEXT,   &(s).username, "NAME", "the user name for that URL; the password is $" SOURCE_PASSWORD}
/* clang-format on */

/* Adds "source" to the body of a create, if there is one. */
must_check int source_opts_to_json(const struct source_opts *s, json_t *body, struct err *err);
