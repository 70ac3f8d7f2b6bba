// SPDX-License-Identifier: Apache-2.0
#include "base/text/nearest.h"

#include "base/auto.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#define WORD_MAX 32 /* what is longer is no slip of a name of ours */

void nearest_init(struct nearest *n, const char *word, size_t len)
{
	*n = (struct nearest){.word = word, .len = len, .steps = UINT_MAX};
}

/* Letters to be put in, left out, changed, or swapped with the next one. Both are short. */
static unsigned count_steps(const char *a, size_t a_len, const char *b, size_t b_len)
{
	unsigned rows[3][WORD_MAX + 1] = {
		0}; /* of one letter of a more each; the last is the current */

	for (unsigned j = 0; j <= b_len; j++)
		rows[2][j] = j;
	for (size_t i = 1; i <= a_len; i++) {
		memmove(rows[0], rows[1], 2 * sizeof(rows[0]));
		rows[2][0] = (unsigned)i;
		for (size_t j = 1; j <= b_len; j++) {
			unsigned changed = rows[1][j - 1] + (a[i - 1] != b[j - 1]);
			unsigned shorter = MIN(rows[1][j], rows[2][j - 1]) + 1;

			rows[2][j] = MIN(changed, shorter);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				rows[2][j] = MIN(rows[2][j], rows[0][j - 2] + 1);
		}
	}
	return rows[2][b_len];
}

void nearest_try(struct nearest *n, const char *name)
{
	size_t len = strlen(name);
	unsigned steps;

	if (n->len > WORD_MAX || len > WORD_MAX)
		return;
	steps = count_steps(n->word, n->len, name, len);
	/* A third of it may be wrong; of two letters none, or everything short would be near. */
	if (steps < n->steps && steps <= MAX(n->len, len) / 3) {
		n->steps = steps;
		n->best = name;
	}
}

int nearest_hint(const struct nearest *n, struct err *err)
{
	return n->best ? err_hint(err, "did you mean '%s'?", n->best) : -EINVAL;
}
