// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Templates by E2B's names. A snapshot is one, too. */
#include "compat/e2b/e2b.h"

#define TEMPLATE_WORD_SIZE   128
#define TEMPLATE_TAG_DEFAULT "default"

struct template_choice { /* one of the two is set, or none: the daemon's default */
	const char *template, *snapshot;
	char name[TEMPLATE_WORD_SIZE];
};
/* By our name, by E2B's name, or by a snapshot's; with ":TAG" and "TEAM/". */
must_check int template_choose(const struct http_req *req, const char *name,
                               struct template_choice *ret, struct err *err);
/* Our name for a name with its tag: a tag is a separate template with the same image. */
void template_read_name(const char *text, char ret[TEMPLATE_WORD_SIZE]);
/* One of the tags of the project's template of that name; false: it has none. */
bool template_a_tag(const struct http_req *req, const char *word, char ret[TEMPLATE_WORD_SIZE]);
/* What a build starts from: the name of one of our templates, or "debian:SUITE". 1: it is an image
 * of a registry, which the build pulls first. */
must_check int template_base(const struct http_req *req, const char *template, const char *image,
                             char ret[TEMPLATE_WORD_SIZE], struct err *err);
