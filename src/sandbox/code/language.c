// SPDX-License-Identifier: Apache-2.0
/*
 * Python does not run isolated (-I), because the user's own packages and PYTHON variables are meant
 * to work.
 */
#include "sandbox/code/language.h"

#include "sandbox/model/sandbox_private.h"
#include "sandbox/network/network_env.h"

#include <string.h>

#define KERNELS "/opt/cloche/kernels/"

/* clang-format off */
static const struct language languages[] = {
	{"python",     "python3", KERNELS "python",              NULL,           "python",     "python", .is_in_universal = true, .has_zygote = true},
	{"javascript", "node",    KERNELS "node/driver.js",      NULL,           "javascript", "node",   .is_in_universal = true},
	{"typescript", "node",    KERNELS "node/driver.js",      "--typescript", "javascript", "node",   .is_in_universal = true},
	{"bash",       "bash",    KERNELS "bash/driver.bash",    NULL,           "bash",       "base",   .is_in_universal = true},
	{"r",          "Rscript", KERNELS "r/driver.R",          NULL,           "r",          "r"},
	{"java",       "java",    "@" KERNELS "java/arguments",  NULL,           "java",       "java",   .start_weight = 6}, /* compiles its driver */
};
/* clang-format on */

/* Names or prefixes of variables that are read when a process or a library starts. */
static const char *const early_variables[] = {
	"PATH=",  "HOME=", "LANG",      "LC_",   "LD_",   "MALLOC_",  "GLIBC_",
	"PYTHON", "OMP_",  "OPENBLAS_", "MKL_",  "BLIS_", "NUMEXPR_", "MPL",
	"XDG_",   "SSL_",  "OPENSSL_",  "ASAN_", "LSAN_", "UBSAN_",
};

const struct language *language_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(languages); i++)
		if (strcmp(languages[i].name, name) == 0)
			return &languages[i];
	return NULL;
}

/* What people also write. */
static const char *full_name(const char *name)
{
	static const char *const shorts[][2] = {
		{"py", "python"}, {"js", "javascript"}, {"ts", "typescript"}, {"sh", "bash"}};

	for (size_t i = 0; i < ARRAY_SIZE(shorts); i++)
		if (strcmp(shorts[i][0], name) == 0)
			return shorts[i][1];
	return name;
}

int language_check(const char *name, const char *field, const struct language **ret,
                   struct err *err)
{
	const struct language *l = language_find(full_name(name));

	if (!l)
		return err_field(err, field,
		                 "must be one of python, javascript, typescript, bash, r, java, or "
		                 "short: py, js, ts, sh");
	*ret = l;
	return 0;
}

static void push(json_t *argv, const char *word)
{
	if (word && json_array_append_new(argv, json_string(word)) < 0)
		abort(); /* only on no memory */
}

json_t *language_argv(const struct language *l)
{
	json_t *argv = json_array();

	push(argv, l->program);
	push(argv, l->driver);
	push(argv, l->option);
	return argv;
}

bool language_can_fork(const struct language *l, const struct start *s)
{
	if (!l->has_zygote || s->user[0] != '\0')
		return false;
	for (size_t i = 0; i < s->envc; i++)
		for (size_t k = 0; k < ARRAY_SIZE(early_variables); k++)
			if (strncmp(s->env[i], early_variables[k], strlen(early_variables[k])) ==
			            0 &&
			    !network_env_is_trust(
				    s->env[i])) /* OpenSSL looks when a client is made */
				return false;
	return true;
}
