// SPDX-License-Identifier: Apache-2.0
#pragma once
/* The languages that code can be run in, and the driver of each (kernels/). */
#include "base/json/json.h"
#include "proto/start.h"

struct language {
	const char *name;
	const char *program; /* found through the sandbox's PATH */
	const char *driver;
	const char *option;   /* of the driver, or NULL */
	const char *runtime;  /* what manifests of templates call what runs it */
	const char *template; /* that comes with cloche and has it */
	bool is_in_universal; /* the template of that name has it, too */
	bool has_zygote;
	unsigned start_weight; /* how much longer than others it may take to start; 0: no longer */
};

const struct language *language_find(const char *name); /* or NULL */
/* Takes short names, too ("js"); what is kept and told is (*ret)->name. */
must_check int language_check(const char *name, const char *field, const struct language **ret,
                              struct err *err);
/* Whether a fork of a zygote is equivalent to this start. A zygote has already read its
 * environment, and runs as the default user. */
bool language_can_fork(const struct language *l, const struct start *s);
/* Says in err's hint which template has the language, and how to get it; returns as err_hint(). */
struct fleet;
int language_hint(const struct fleet *fleet, const char *project_id, const char *language,
                  struct err *err);
/* The template of a sandbox that is to have the language and names none: the default, unless that
 * is known to lack it; NULL: the host's own files. Refused where none has it. */
struct template;
must_check int language_template(const struct fleet *fleet, const char *project_id,
                                 const char *language, struct template **ret, struct err *err);
json_t *language_argv(const struct language *l); /* the caller's */
