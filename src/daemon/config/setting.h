// SPDX-License-Identifier: Apache-2.0
#pragma once
/* A setting of the daemon: its place in the file, its option, its kind and bounds. */
#include "base/text/toml.h"
#include "daemon/config/config.h"

enum setting_kind {
	SETTING_STRING,   /* char * */
	SETTING_LIST,     /* char **, NULL-terminated */
	SETTING_BOOL,     /* bool */
	SETTING_COUNT,    /* uint32_t */
	SETTING_COUNT64,  /* uint64_t */
	SETTING_SIZE,     /* uint64_t bytes: "512MiB" */
	SETTING_DURATION, /* uint64_t ms: "30s" */
	SETTING_CPUS,     /* uint32_t thousandths: 1.5 */
	SETTING_LEVEL,    /* enum log_level */
	SETTING_MONEY,    /* uint64_t nano: "0.05" */
};

struct setting {
	const char *section; /* of the file; NULL: only an option */
	const char *name;
	const char *option;
	enum setting_kind kind;
	size_t offset;
	uint64_t min, max;
	const char *help;
	bool is_fixed; /* until a restart of the daemon; a string, a list or a bool */
};

extern const struct setting settings[];
extern const size_t n_settings;

const struct setting *setting_find(const char *section, const char *name); /* or NULL */
bool setting_fits(enum setting_kind kind, enum toml_kind given);
const char *setting_example(enum setting_kind kind); /* "a whole number" */

/* Each puts a value into *c; label names the setting in an error. */
must_check int setting_set_text(struct config *c, const struct setting *key, const char *label,
                                const char *text, struct err *err); /* neither bool nor list */
must_check int setting_set_bool(struct config *c, const struct setting *key, const char *label,
                                const char *text, struct err *err);
void setting_set_list(struct config *c, const struct setting *key, const char *const *items,
                      size_t n);
void setting_append(struct config *c, const struct setting *key, const char *item);
bool setting_is_equal(struct config *a, struct config *b,
                      const struct setting *key); /* fixed ones */
void setting_swap(struct config *a, struct config *b,
                  const struct setting *key);                    /* with its origin */
void setting_clear(struct config *c, const struct setting *key); /* frees its value */
/* Its value as a file has it, which is also JSON; "" where a file can only leave it out. */
char *setting_text(const struct config *c, const struct setting *key);
