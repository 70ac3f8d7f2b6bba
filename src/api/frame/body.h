// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * JSON bodies to specs. Each reader checks every field by a table and names the one that is wrong;
 * what only a live fleet can know (a name that is taken, the host's most) is checked further down.
 * Pure: no I/O, fuzzed as a whole. Strings and values of the specs are borrowed from the body.
 */
#include "sandbox/code/code_call.h"
#include "sandbox/code/context.h"
#include "sandbox/exec/exec.h"
#include "sandbox/model/sandbox.h"
#include "sandbox/network/port.h"

#define STDIN_BYTES_MAX (1024 * 1024)     /* in a body; the stdin route has no bound */
#define EXEC_BODY_MAX   (4 * 1024 * 1024) /* of JSON text: stdin, escaped, fits */
#define ARGV_BYTES_MAX  (128 * 1024)      /* as much as the kernel takes for one word */
#define ENV_BYTES_MAX   (128 * 1024)
#define ENV_NAMES_MAX   1024
#define TIMEOUT_MS_MAX  UINT64_C(31536000000) /* a year: far from any overflow in us */
#define WAIT_MS_MAX     UINT64_C(3600000)     /* for room: an hour on one connection */
#define TERMINAL_MAX    1000
#define USER_BYTES_MAX  64
#define RUN_FILES_MAX   100

/* body may be NULL: all defaults. *ret_get: take the one that has the name already, if there is.
 * *ret_ports: to be opened once it runs. */
must_check int body_read_create(const json_t *body, struct sandbox_spec *ret, bool *ret_get,
                                struct port_numbers *ret_ports, struct err *err);
must_check int body_read_patch(const json_t *body, struct sandbox_patch *ret, struct err *err);
must_check int body_read_pause(const json_t *body, struct pause_wish *ret, struct err *err);
must_check int body_read_resume(const json_t *body, bool *ret_with_memory, struct err *err);
must_check int body_read_extend(const json_t *body, uint64_t *ret_ms, struct err *err);

struct exec_body {
	struct exec_spec spec;
	bool is_detached;
	char *input; /* owned: bytes for stdin, or NULL */
	size_t input_len;
	bool closes_stdin; /* behind the input */
};
void exec_body_done(struct exec_body *b);
/* On success the caller owns what *ret holds. */
must_check int body_read_exec(const json_t *body, struct exec_body *ret, struct err *err);

struct run_file {
	const char *path;
	char *data; /* owned */
	size_t len;
	bool has_mode;
	uint32_t mode;
};
struct run_body {
	struct sandbox_spec sandbox;
	struct exec_body exec;
	struct code_spec code; /* instead, where its code is not NULL */
	struct run_file *files;
	size_t n_files;
};
void run_body_done(struct run_body *b);
must_check int body_read_run(const json_t *body, struct run_body *ret, struct err *err);

must_check int body_read_code(const json_t *body, struct code_spec *ret, struct err *err);
must_check int body_read_context(const json_t *body, struct context_spec *ret,
                                 struct err *err); /* body may be NULL */

must_check int body_read_signal(const json_t *body, int *ret_signo, bool *ret_tree,
                                struct err *err);
/* A signal's name with or without SIG, or its number. */
must_check int body_signal_value(const json_t *value, const char *field, int *ret, struct err *err);
/* Where *ret_rows and *ret_cols are set they are defaults, else (0) both must be given. */
must_check int body_read_terminal(const json_t *body, const char *prefix, uint16_t *ret_rows,
                                  uint16_t *ret_cols, struct err *err);

/* For the readers of more than one file. */
must_check int body_check_strings(const json_t *array, const char *field, uint64_t bytes_max,
                                  struct err *err);
must_check int body_check_env(const json_t *env, const char *field, struct err *err);
/* At most one of text and base64; owned bytes in *ret, NULL if neither is given. */
must_check int body_take_bytes(const char *text, const char *base64, const char *base64_field,
                               char **ret, size_t *ret_len, struct err *err);
must_check int body_file_mode(const char *text, const char *field, uint32_t *ret, struct err *err);
/* A name that /etc/passwd can have, or a uid; NULL is fine. */
must_check int body_check_user(const char *user, const char *field, struct err *err);
must_check int body_file_path(const char *path, const char *field, struct err *err);

/* Rows of a create, without timeout_ms, for run too. */
#define SANDBOX_FIELDS 18
struct sandbox_fields {
	struct json_field rows[SANDBOX_FIELDS];
	json_t *limits;
	bool with_memory;
};
/* What becomes of a connection when memory is saved: "refuse", "close"; NULL = refuse. */
must_check int body_read_on_connection(const char *word, bool *ret_closes, struct err *err);
void sandbox_fields_init(struct sandbox_fields *f, struct sandbox_spec *spec);
must_check int sandbox_fields_check(const struct sandbox_fields *f, struct sandbox_spec *spec,
                                    struct err *err);
