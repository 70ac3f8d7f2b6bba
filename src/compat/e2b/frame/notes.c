// SPDX-License-Identifier: Apache-2.0
#include "compat/e2b/frame/notes.h"

#include "base/id.h"
#include "base/log.h"

#include <stdio.h>
#include <string.h>

#define CLIENTS_MAX 16

void notes_read(const struct sandbox *s, struct notes *ret)
{
	const json_t *n = json_object_get(sandbox_notes(s), "e2b");

	*ret = (struct notes){
		.is_ours = n != NULL,
		.tokens = {.project_id = sandbox_project_id(s),
	                   .key_id = sandbox_key_id(s),
	                   .first = json_string_value(json_object_get(n, "token")),
	                   .others = json_object_get(n, "tokens")},
		.traffic = json_string_value(json_object_get(n, "traffic")),
		.template = json_string_value(json_object_get(n, "template")),
		.mask_host = json_string_value(json_object_get(n, "mask_host")),
		.metadata = json_object_get(n, "metadata"),
		.network = json_object_get(n, "network"),
		.workload_tokens = json_object_get(n, "workload_tokens"),
		.internet = json_object_get(n, "internet"),
		.is_cold = json_is_true(json_object_get(n, "cold")) ||
	                   json_is_true(json_object_get(n, "always_cold")),
		.timeout_ms = (uint64_t)json_integer_value(json_object_get(n, "timeout_ms")),
		.started_us = (uint64_t)json_integer_value(json_object_get(n, "started_us")),
	};
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

void notes_add_token(struct sandbox *s, struct keyring *ring, const struct key *key)
{
	struct notes n;
	struct err err;

	notes_read(s, &n);
	if (!n.tokens.first || key_tokens_of(&n.tokens, key))
		return;
	if (notes_set(s, "tokens", key_tokens_add(&n.tokens, ring, key), &err) < 0)
		log_warn("e2b.token_not_saved", "sandbox=%s error='%s'", sandbox_id(s),
		         err.message);
}

static const json_t *clients_of(const struct sandbox *s)
{
	return json_object_get(json_object_get(sandbox_notes(s), "e2b"), "clients");
}

json_t *notes_client(const struct key *key, uint64_t network)
{
	return json_pack("[{s:I, s:s}]", "network", (json_int_t)network, "key", key_id(key));
}

/* Rows of earlier versions have only the network: it is the creator's. */
static bool is_client(const struct sandbox *s, const json_t *row, uint64_t network,
                      const char **ret_key_id)
{
	const json_t *number = json_is_object(row) ? json_object_get(row, "network") : row;
	const char *id = json_string_value(json_object_get(row, "key"));

	*ret_key_id = id ? id : sandbox_key_id(s);
	return (uint64_t)json_integer_value(number) == network;
}

const struct key *notes_client_key(const struct sandbox *s, struct keyring *ring, uint64_t network)
{
	const json_t *clients = clients_of(s);
	const struct key *key = NULL;
	const char *id;

	for (size_t i = 0; !key && i < json_array_size(clients); i++)
		if (is_client(s, json_array_get(clients, i), network, &id))
			key = key_tokens_key(ring, sandbox_project_id(s), id);
	return key;
}

static bool has_client(const struct sandbox *s, const struct key *key, uint64_t network)
{
	const json_t *clients = clients_of(s);
	const char *id;

	for (size_t i = 0; i < json_array_size(clients); i++)
		if (is_client(s, json_array_get(clients, i), network, &id) &&
		    strcmp(id, key_id(key)) == 0)
			return true;
	return false;
}

/* Without tokens there is nothing to remember. If it cannot be saved, the client has to show its
 * token again. */
void notes_add_client(struct sandbox *s, const struct key *key, uint64_t network)
{
	auto_json json_t *one = NULL;
	json_t *clients;
	struct notes n;
	struct err err;

	notes_read(s, &n);
	if (!n.tokens.first || has_client(s, key, network))
		return;
	one = notes_client(key, network);
	clients = clients_of(s) ? json_deep_copy(clients_of(s)) : json_array();
	if (json_array_size(clients) >= CLIENTS_MAX)
		(void)json_array_remove(clients, 0);
	(void)json_array_extend(clients, one);
	if (notes_set(s, "clients", clients, &err) < 0)
		log_warn("e2b.client_not_saved", "sandbox=%s error='%s'", sandbox_id(s),
		         err.message);
}

json_t *notes_of_copy(const struct sandbox *s)
{
	json_t *notes = json_deep_copy(sandbox_notes(s)), *ours = json_object_get(notes, "e2b");

	(void)json_object_del(ours, "tokens");
	(void)json_object_del(ours, "clients");
	return notes;
}
