// SPDX-License-Identifier: Apache-2.0
#include "base/id.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

static const char letters[] =
	"abcdefghijkmnpqrstuvwxyz23456789"; /* 32, without l and o and 0 and 1 */

void random_bytes(void *data, size_t len)
{
	char *p = data;

	while (len > 0) {
		ssize_t n = getrandom(p, len, 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			abort();
		p += n;
		len -= (size_t)n;
	}
}

int id_letter_bits(char letter)
{
	const char *at = letter ? strchr(letters, letter) : NULL;

	return at ? (int)(at - letters) : -1;
}

char id_letter(unsigned bits)
{
	return letters[bits & 31];
}

void id_make(char id[ID_SIZE], const char *kind)
{
	unsigned char raw[ID_RANDOM_LEN];
	int at = snprintf(id, ID_SIZE, "%.8s_", kind);

	random_bytes(raw, sizeof(raw));
	for (size_t i = 0; i < sizeof(raw); i++)
		id[at++] = letters[raw[i] & 31];
	id[at] = '\0';
}

bool id_is_valid(const char *id, const char *kind)
{
	size_t len = strlen(kind);

	if (strncmp(id, kind, len) != 0 || id[len] != '_')
		return false;
	id += len + 1;
	return strlen(id) == ID_RANDOM_LEN && strspn(id, letters) == ID_RANDOM_LEN;
}
