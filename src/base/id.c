// SPDX-License-Identifier: Apache-2.0
#include "base/id.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#define TAG_LEN 4

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

static struct {
	char letters[ID_TAGS_MAX][TAG_LEN];
	size_t n;
} own_tags;

void id_set_tags(const uint32_t *tags, size_t n)
{
	own_tags.n = MIN(n, ID_TAGS_MAX);
	for (size_t i = 0; i < own_tags.n; i++)
		for (size_t k = 0; k < TAG_LEN; k++)
			own_tags.letters[i][k] = id_letter(tags[i] >> (5 * (TAG_LEN - 1 - k)));
}

static const char *random_part(const char *id)
{
	const char *kind_end = strchr(id, '_');

	return kind_end ? kind_end + 1 : id;
}

void id_make_tagged(char id[ID_SIZE], const char *kind)
{
	char *p;

	id_make(id, kind);
	if (own_tags.n == 0)
		return;
	p = id + (random_part(id) - id);
	/* Which one is said by a random letter that gives way to it. */
	memcpy(p, own_tags.letters[(size_t)id_letter_bits(p[0]) % own_tags.n], TAG_LEN);
}

bool id_has_own_tag(const char *id)
{
	for (size_t i = 0; i < own_tags.n; i++)
		if (strncmp(random_part(id), own_tags.letters[i], TAG_LEN) == 0)
			return true;
	return own_tags.n == 0;
}

bool id_is_valid(const char *id, const char *kind)
{
	size_t len = strlen(kind);

	if (strncmp(id, kind, len) != 0 || id[len] != '_')
		return false;
	id += len + 1;
	return strlen(id) == ID_RANDOM_LEN && strspn(id, letters) == ID_RANDOM_LEN;
}
