// SPDX-License-Identifier: Apache-2.0
#pragma once
/* What the readers of a Compose file's fields share. */
#include "base/json/json.h"
#include "cli/compose/compose_file.h"
#include "cli/compose/yaml_value.h"

struct compose_reader {
	const struct compose_source *source;
	const char *service; /* NULL at the top */
	const char *field;   /* that is being read */
	char path[160];      /* of it, for errors */
	json_t *volumes;     /* that the file names */
	json_t *networks;
};

/* Reads a value into *to, which is a service's or the file's object. */
typedef int (*compose_take_fn)(struct compose_reader *r, const struct yaml_value *v, json_t *to,
                               struct err *err);

struct compose_field {
	const char *name;
	compose_take_fn take; /* NULL, as fields: it is refused, and `about` says what to do */
	const char *about;
	const struct compose_field
		*fields; /* it is a mapping of these, read into the same object */
	size_t n_fields;
	bool is_object; /* or into one of its own */
};

/* compose_read.c: one mapping by its table; `where` is its path in errors. */
must_check int compose_read_map(struct compose_reader *r, const char *where,
                                const struct yaml_value *map, const struct compose_field *fields,
                                size_t n, json_t *to, struct err *err);
/* "FILE:LINE: PATH: …" */
int compose_wrong(const struct compose_reader *r, const struct yaml_value *v, struct err *err,
                  const char *fmt, ...) printf_like(4, 5);
/* With variables filled in; for free(). */
must_check int compose_text(struct compose_reader *r, const struct yaml_value *v, char **ret,
                            struct err *err);
must_check int compose_flag(struct compose_reader *r, const struct yaml_value *v, bool *ret,
                            struct err *err);
must_check int compose_number(struct compose_reader *r, const struct yaml_value *v, uint64_t max,
                              uint64_t *ret, struct err *err);
must_check int compose_ms(struct compose_reader *r, const struct yaml_value *v, uint64_t *ret,
                          struct err *err);
must_check int compose_mib(struct compose_reader *r, const struct yaml_value *v, uint64_t *ret,
                           struct err *err);
/* Texts: one, or a list of them. */
must_check int compose_texts(struct compose_reader *r, const struct yaml_value *v, json_t **ret,
                             struct err *err);
/* A command: a list of words, or a line that is split as a shell splits it. */
must_check int compose_words(struct compose_reader *r, const struct yaml_value *v, json_t **ret,
                             struct err *err);
/* NAME: VALUE, or NAME=VALUE; a NAME alone has the value that the variables give it, or is left
 * out.
 */
must_check int compose_pairs(struct compose_reader *r, const struct yaml_value *v, json_t *ret,
                             struct err *err);
must_check int compose_put_text(json_t *to, const char *name, const char *text);

/* compose_fields.c: all that a service may have. */
extern const struct compose_field compose_service_fields[];
extern const size_t compose_n_service_fields;
