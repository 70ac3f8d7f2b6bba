// SPDX-License-Identifier: Apache-2.0
#include "compat/e2b/frame/notes.h"

#include "base/id.h"
#include "base/log.h"

#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>

#define CLIENTS_MAX 16

void notes_read(const struct sandbox *s, struct notes *ret)
{
	const json_t *n = json_object_get(sandbox_notes(s), "e2b");

	*ret = (struct notes){
		.is_ours = n != NULL,
		.token = json_string_value(json_object_get(n, "token")),
		.traffic = json_string_value(json_object_get(n, "traffic")),
		.template = json_string_value(json_object_get(n, "template")),
		.mask_host = json_string_value(json_object_get(n, "mask_host")),
		.metadata = json_object_get(n, "metadata"),
		.network = json_object_get(n, "network"),
		.internet = json_object_get(n, "internet"),
		.is_cold = json_is_true(json_object_get(n, "cold")) ||
	                   json_is_true(json_object_get(n, "always_cold")),
		.timeout_ms = (uint64_t)json_integer_value(json_object_get(n, "timeout_ms")),
		.started_us = (uint64_t)json_integer_value(json_object_get(n, "started_us")),
	};
}

void notes_make_token(char ret[NOTES_TOKEN_SIZE])
{
	char id[ID_SIZE];

	id_make(id, "t");
	(void)snprintf(ret, NOTES_TOKEN_SIZE, "%.*s", ID_RANDOM_LEN, id + strlen("t_"));
}

bool notes_token_is(const char *secret, const char *shown)
{
	size_t len = strlen(secret);

	return shown && strlen(shown) == len && CRYPTO_memcmp(secret, shown, len) == 0;
}

int notes_set(struct sandbox *s, const char *name, json_t *value, struct err *err)
{
	auto_json json_t *notes = json_deep_copy(sandbox_notes(s));
	json_t *ours;

	if (!notes)
		notes = json_object();
	ours = json_object_get(notes, "e2b");
	if (!ours) {
		ours = json_object();
		(void)json_object_set_new(notes, "e2b", ours);
	}
	(void)json_object_set_new(ours, name, value);
	return sandbox_set_notes(s, notes, err);
}

static const json_t *clients_of(const struct sandbox *s)
{
	return json_object_get(json_object_get(sandbox_notes(s), "e2b"), "clients");
}

bool notes_has_client(const struct sandbox *s, uint64_t network)
{
	const json_t *clients = clients_of(s);

	for (size_t i = 0; i < json_array_size(clients); i++)
		if ((uint64_t)json_integer_value(json_array_get(clients, i)) == network)
			return true;
	return false;
}

/* Without a token there is nothing to remember; one that cannot be saved shows its token again. */
void notes_add_client(struct sandbox *s, uint64_t network)
{
	json_t *clients;
	struct notes n;
	struct err err;

	notes_read(s, &n);
	if (!n.token || notes_has_client(s, network))
		return;
	clients = clients_of(s) ? json_deep_copy(clients_of(s)) : json_array();
	if (json_array_size(clients) >= CLIENTS_MAX)
		(void)json_array_remove(clients, 0);
	(void)json_array_append_new(clients, json_integer((json_int_t)network));
	if (notes_set(s, "clients", clients, &err) < 0)
		log_warn("e2b.client", "sandbox=%s error='%s'", sandbox_id(s), err.message);
}
