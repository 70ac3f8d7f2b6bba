// SPDX-License-Identifier: Apache-2.0
#include "tenant/key_token.h"

#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>

const struct key *key_tokens_key(struct keyring *ring, const char *project_id, const char *id)
{
	return id[0] ? keyring_find_key(ring, project_id, id) : keyring_root(ring);
}

const char *key_tokens_of(const struct key_tokens *t, const struct key *key)
{
	if (strcmp(key_id(key), t->key_id) == 0)
		return t->first;
	return json_string_value(json_object_get(t->others, key_id(key)));
}

json_t *key_tokens_add(const struct key_tokens *t, struct keyring *ring, const struct key *key)
{
	json_t *all = json_object(), *token;
	char text[KEY_TOKEN_SIZE];
	const char *id;

	json_object_foreach ((json_t *)unconst(t->others), id, token)
		if (key_tokens_key(ring, t->project_id, id))
			(void)json_object_set(all, id, token);
	key_token_make(text);
	(void)json_object_set_new(all, key_id(key), json_string(text));
	return all;
}

const struct key *key_tokens_find(const struct key_tokens *t, struct keyring *ring,
                                  bool (*says_yes)(const char *token, const void *arg),
                                  const void *arg)
{
	const char *id;
	json_t *token;

	if (t->first && says_yes(t->first, arg))
		return key_tokens_key(ring, t->project_id, t->key_id);
	json_object_foreach ((json_t *)unconst(t->others), id, token)
		if (json_is_string(token) && says_yes(json_string_value(token), arg))
			return key_tokens_key(ring, t->project_id, id);
	return NULL;
}

void key_token_make(char ret[KEY_TOKEN_SIZE])
{
	char id[ID_SIZE];

	id_make(id, "t");
	(void)snprintf(ret, KEY_TOKEN_SIZE, "%.*s", ID_RANDOM_LEN, id + strlen("t_"));
}

bool key_token_is(const char *token, const void *shown)
{
	size_t len = strlen(token);

	return shown && strlen(shown) == len && CRYPTO_memcmp(token, shown, len) == 0;
}
