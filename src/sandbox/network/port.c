// SPDX-License-Identifier: Apache-2.0
/*
 * Ports are stored in the sandbox's row. A token is an id of 130 random bits; only its hash is
 * kept, and it is compared in constant time.
 */
#include "sandbox/network/port.h"

#include "base/clock.h"
#include "base/parse.h"
#include "sandbox/model/registry.h"
#include "sandbox/model/sandbox_events.h"
#include "sandbox/model/sandbox_private.h"
#include "sandbox/network/ports.h"

#include <openssl/crypto.h>

#define TOKEN_KIND    "pt"
#define HASH_TEXT_LEN 44 /* of 32 bytes in base64 */

static struct port *find_row(const struct sandbox *s, uint16_t number)
{
	for (size_t i = 0; i < s->n_ports; i++)
		if (s->ports[i].number == number)
			return &s->ports[i];
	return NULL;
}

static void hash_token(const char *token, unsigned char ret[SHA256_DIGEST_LENGTH])
{
	(void)SHA256((const unsigned char *)token, strlen(token), ret);
}

static int by_number(const void *a, const void *b)
{
	return (int)((const struct port *)a)->number - (int)((const struct port *)b)->number;
}

static int put_row(struct sandbox *s, const struct port *row, struct err *err)
{
	struct port *known = find_row(s, row->number);

	if (!known && s->n_ports == PORTS_MAX)
		return err_set(err, ERR_LIMIT, 0, "a sandbox has up to %d open ports", PORTS_MAX);
	if (!known) {
		s->ports = xrealloc(s->ports, (s->n_ports + 1) * sizeof(*s->ports));
		known = &s->ports[s->n_ports++];
	}
	*known = *row;
	qsort(s->ports, s->n_ports, sizeof(*s->ports), by_number);
	return 0;
}

int port_open(struct sandbox *s, const struct port_spec *spec, char token[ID_SIZE],
              struct port *ret, struct err *err)
{
	struct port row = {.number = (uint16_t)spec->number, .is_public = spec->is_public};
	int r;

	if (!sandbox_is_alive(s) && !s->is_kept)
		return err_set(err, ERR_GONE, 0, "sandbox %s has ended", s->id);
	row.created_us = clock_wall_us();
	if (spec->expires_in_ms > 0)
		row.expires_us = row.created_us + spec->expires_in_ms * 1000;
	id_make(token, TOKEN_KIND);
	hash_token(token, row.hash);
	r = put_row(s, &row, err);
	if (r == 0)
		r = s->fleet->lifecycle->save(s, err);
	if (r < 0)
		return r;
	emit_changed(s, "ports");
	port_connection_cut_visits(s, row.number); /* they came by a token that is none any more */
	*ret = row;
	return 0;
}

uint64_t port_expires_us(const struct sandbox *s, uint16_t number)
{
	const struct port *row = find_row(s, number);

	return row ? row->expires_us : 0;
}

int port_close(struct sandbox *s, uint16_t number, struct port *ret, struct err *err)
{
	struct port *row = find_row(s, number);
	int r;

	if (!row)
		return err_set(err, ERR_NOT_FOUND, 0, "port %u of sandbox '%s' is not open", number,
		               s->id);
	*ret = *row;
	s->n_ports--;
	memmove(row, row + 1, (size_t)(s->ports + s->n_ports - row) * sizeof(*row));
	port_connection_cut_all(s, number);
	r = s->fleet->lifecycle->save(s, err);
	if (r == 0)
		emit_changed(s, "ports");
	return r;
}

const struct port *port_at(const struct sandbox *s, size_t i)
{
	return i < s->n_ports ? &s->ports[i] : NULL;
}

struct sandbox *port_find(struct fleet *fleet, const char *id, uint16_t number, const char *token)
{
	unsigned char hash[SHA256_DIGEST_LENGTH];
	struct sandbox *s = id_is_valid(id, "sb") ? fleet_find_id(fleet, id) : NULL;
	const struct port *row = s && !s->spare ? find_row(s, number) : NULL;

	if (!row || (row->expires_us > 0 && clock_wall_us() >= row->expires_us))
		return NULL;
	if (row->is_public)
		return s;
	if (!token || !id_is_valid(token, TOKEN_KIND))
		return NULL;
	hash_token(token, hash);
	return CRYPTO_memcmp(hash, row->hash, sizeof(hash)) == 0 ? s : NULL;
}

void port_rows_to_json(const struct sandbox *s, struct json_writer *w)
{
	if (s->n_ports == 0)
		return;
	json_open_array(w, "ports");
	for (size_t i = 0; i < s->n_ports; i++) {
		const struct port *row = &s->ports[i];

		json_open_object(w, NULL);
		json_put_u64(w, "number", row->number);
		json_put_bool(w, "is_public", row->is_public);
		json_put_base64(w, "hash", row->hash, sizeof(row->hash));
		json_put_u64(w, "created_us", row->created_us);
		json_put_u64(w, "expires_us", row->expires_us);
		json_close_object(w);
	}
	json_close_array(w);
}

static int read_row(struct sandbox *s, const json_t *object)
{
	unsigned char bytes[SHA256_DIGEST_LENGTH + 2];
	struct port row = {0};
	const char *hash = "";
	uint64_t number = 0;
	const struct json_field fields[] = {
		{"number", JSON_FIELD_U64, &number, true, .min = 1, .max = UINT16_MAX},
		{"is_public", JSON_FIELD_BOOL, &row.is_public, true},
		{"hash", JSON_FIELD_STRING, &hash, true, .min = HASH_TEXT_LEN,
	         .max = HASH_TEXT_LEN},
		{"created_us", JSON_FIELD_U64, &row.created_us, true},
		{"expires_us", JSON_FIELD_U64, &row.expires_us, true},
	};
	int r = json_read(object, "ports.", fields, ARRAY_SIZE(fields), NULL);

	if (r < 0 || base64_decode(hash, HASH_TEXT_LEN, bytes) != SHA256_DIGEST_LENGTH)
		return -EBADMSG;
	row.number = (uint16_t)number;
	memcpy(row.hash, bytes, sizeof(row.hash));
	return put_row(s, &row, NULL);
}

int port_rows_load(struct sandbox *s, const json_t *rows)
{
	const json_t *row;
	size_t i;

	json_array_foreach(rows, i, row)
	{
		int r = read_row(s, row);

		if (r < 0)
			return r;
	}
	return 0;
}
