// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * A file of evals as it is run: its cases, each with what to do, what to hold the outcome against
 * and how often. A case has its file's settings where it has none of its own. All texts are
 * borrowed from the file's tree, which the suite keeps; nothing of a suite changes once it is read,
 * so lanes share it.
 */
#include "base/json/json.h"
#include "cli/term/opts.h"
#include "net/match/regex.h"

enum eval_subject { EVAL_OUTPUT, EVAL_STDOUT, EVAL_STDERR, EVAL_FILE, EVAL_SUBJECT_COUNT };
enum eval_relation { EVAL_EQUALS, EVAL_CONTAINS, EVAL_LACKS, EVAL_MATCHES, EVAL_RELATION_COUNT };

struct eval_claim {
	enum eval_subject subject;
	enum eval_relation relation;
	const char *path; /* of a file */
	const char *value;
	struct regex *regex; /* of EVAL_MATCHES */
};

struct eval_settings {
	const char *template, *image, *snapshot, *network, *language, *instructions;
	struct opt_list packages, allow; /* the arrays are the settings' own */
	uint64_t memory_mib, timeout_ms, repeat, max_turns;
	double threshold; /* the part of its runs that must pass */
};

struct eval_case {
	const char *name;
	struct eval_settings settings;
	const char *prompt, *code, *command; /* one of them */
	const char *check;                   /* shell that must end with 0 afterwards, or NULL */
	json_t *files;                       /* path to text, or NULL */
	struct opt_list env;                 /* NAME=VALUE, for free() each */
	struct eval_claim *claims;
	size_t n_claims;
	bool has_exit_code;
	uint64_t exit_code;
	uint64_t max_time_ms, max_cost_nano, max_calls; /* UINT64_MAX: any */
};

struct eval_model {
	const char *api; /* openai or anthropic */
	const char *base_url, *name, *key_env;
	bool has_temperature;
	double temperature;
	uint64_t max_tokens;              /* 0: not said */
	uint64_t input_nano, output_nano; /* price of a million tokens */
};

struct eval_suite {
	char *path;
	json_t *tree;
	struct eval_model model; /* api is NULL where no case needs one */
	struct eval_case *cases;
	size_t n_cases;
};

/* What the command line says instead of the file; NULL and 0: nothing. */
struct eval_overrides {
	const char *base_url, *model;
	uint64_t repeat;
	double threshold; /* < 0: nothing */
};

/* Takes the tree. A mistake names file, case and field. */
must_check int eval_suite_new(const char *path, json_t *tree, const struct eval_overrides *instead,
                              struct eval_suite **ret, struct err *err);
void eval_suite_free(struct eval_suite *s); /* NULL is fine */
DEFINE_FREEP(struct eval_suite, eval_suite_free)

/* "output", "file"; "_contains": together the name of a claim's field. */
const char *eval_subject_name(enum eval_subject subject);
