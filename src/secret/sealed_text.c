// SPDX-License-Identifier: Apache-2.0
#include "secret/sealed_text.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <string.h>

#define PREFIX "sealed:"

bool sealed_text_is(const char *text)
{
	return strncmp(text, PREFIX, strlen(PREFIX)) == 0;
}

char *sealed_text_make(const struct master_keys *keys, const char *label, const char *text,
                       size_t len)
{
	struct envelope e;
	char *whole;

	if (len > ENVELOPE_BYTES_MAX || envelope_seal(keys, label, text, len, &e) < 0)
		return NULL;
	whole = xasprintf(PREFIX "%s:%s:%s", e.key_id, e.wrapped, e.sealed);
	envelope_done(&e);
	return whole;
}

/* The three parts; none has a ':'. */
static int read_parts(const char *text, struct envelope *ret)
{
	const char *id = text + strlen(PREFIX);
	const char *wrapped = sealed_text_is(text) ? strchr(id, ':') : NULL;
	const char *sealed = wrapped ? strchr(wrapped + 1, ':') : NULL;

	if (!sealed || wrapped - id != MASTER_KEY_ID_SIZE - 1)
		return -EBADMSG;
	*ret = (struct envelope){0};
	memcpy(ret->key_id, id, MASTER_KEY_ID_SIZE - 1);
	ret->wrapped = xstrndup(wrapped + 1, (size_t)(sealed - wrapped - 1));
	ret->sealed = xstrdup(sealed + 1);
	return 0;
}

int sealed_text_open(const struct master_keys *keys, const char *label, const char *text,
                     char **ret, bool *ret_stale)
{
	struct envelope e;
	ssize_t n = read_parts(text, &e);

	if (n < 0)
		return (int)n;
	n = envelope_open(keys, label, &e, ret);
	*ret_stale = strcmp(e.key_id, keys->ids[0]) != 0;
	envelope_done(&e);
	return (int)MIN(n, 0);
}

void sealed_text_wipe(char **text)
{
	if (*text)
		OPENSSL_cleanse(*text, strlen(*text));
	free(take_ptr(*text));
}
