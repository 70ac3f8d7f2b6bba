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
/* By a name of ours, one of E2B's own, or a snapshot's; with ":TAG" and "TEAM/". */
must_check int template_choose(const struct http_req *req, const char *name,
                               struct template_choice *ret, struct err *err);
/* A name with its tag as one of ours: a tag is a template of its own, which has the same image. */
void template_read_name(const char *text, char ret[TEMPLATE_WORD_SIZE]);
/* What a build starts from: one of our templates by its name, or "debian:SUITE". */
must_check int template_base(const struct http_req *req, const char *template, const char *image,
                             char ret[TEMPLATE_WORD_SIZE], struct err *err);
