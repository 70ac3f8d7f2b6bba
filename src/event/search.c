// SPDX-License-Identifier: Apache-2.0
/*
 * A search looks at many entries and finds few, so what is cheap is looked at first. The facts of
 * an entry are JSON. They are parsed only where the word stands somewhere in their bytes, in the
 * form that JSON gives it: then the question is whether it stands in a value or in the name of one.
 */
#include "event/search.h"

#include "base/json/json.h"
#include "base/parse.h"
#include "base/text/decimal.h"
#include "base/text/wall_time.h"
#include "event/event.h"
#include "net/match/address.h"

#include <stdlib.h>
#include <string.h>

#define UNIX_WORD "unix"

struct word {
	char *plain;
	char *in_json; /* as it stands between the quotes of a JSON text */
};

struct event_search {
	uint64_t since_us, until_us; /* until_us: 0 = no end */
	struct word who, text;
	char (*keys)[ID_SIZE]; /* ids; in order, once all are known */
	size_t n_keys, keys_size;
	enum { FROM_ANYWHERE, FROM_RANGE, FROM_UNIX } from;
	struct cidr range;
	char client[EVENT_CLIENT_SIZE]; /* "unix" or "unix:UID" */
};

struct event_search *event_search_new(void)
{
	return xnew0(struct event_search);
}

static void word_done(struct word *w)
{
	free(w->plain);
	free(w->in_json);
}

void event_search_free(struct event_search *search)
{
	if (!search)
		return;
	word_done(&search->who);
	word_done(&search->text);
	free(search->keys);
	free(search);
}

static int word_set(struct word *w, const char *field, const char *text, struct err *err)
{
	auto_call(buf_done) struct buf json = BUF_INIT(8 * EVENT_SEARCH_BYTES_MAX);
	const size_t len = strlen(text);
	struct json_writer writer;
	bool is_good = len >= 1 && len <= EVENT_SEARCH_BYTES_MAX && utf8_is_valid(text, len);

	for (const char *p = text; is_good && *p; p++)
		is_good = (unsigned char)*p >= ' ' && *p != 0x7f;
	if (!is_good)
		return err_field(err, field,
		                 "must have 1 to %d bytes of UTF-8 and no control characters",
		                 EVENT_SEARCH_BYTES_MAX);
	json_writer_init(&writer, &json);
	json_put_str(&writer, NULL, text);
	if (json_writer_end(&writer) < 0)
		return err_field(err, field, "is too long");
	w->plain = xstrdup(text);
	w->in_json = xstrndup(json.data + 1, json.len - 2);
	return 0;
}

int event_search_set_who(struct event_search *search, const char *who, struct err *err)
{
	return word_set(&search->who, "who", who, err);
}

void event_search_add_key(struct event_search *search, const char *key_id)
{
	if (search->n_keys == search->keys_size) {
		search->keys_size = MAX(2 * search->keys_size, (size_t)16);
		search->keys = xrealloc(search->keys, search->keys_size * ID_SIZE);
	}
	(void)snprintf(search->keys[search->n_keys++], ID_SIZE, "%s", key_id);
}

static int compare_ids(const void *a, const void *b)
{
	return strcmp(a, b);
}

void event_search_end_keys(struct event_search *search)
{
	if (search->n_keys > 0)
		qsort(search->keys, search->n_keys, ID_SIZE, compare_ids);
}

int event_search_set_address(struct event_search *search, const char *address, struct err *err)
{
	const char *rest = address + MIN(strlen(address), strlen(UNIX_WORD));
	const char *why;
	uint64_t uid;

	if (strncmp(address, UNIX_WORD, strlen(UNIX_WORD)) == 0) {
		if (*rest && (*rest != ':' || parse_u64(rest + 1, UINT32_MAX, &uid) < 0))
			return err_field(err, "address", "must be 'unix' or 'unix:UID'");
		(void)snprintf(search->client, sizeof(search->client), "%s", address);
		search->from = FROM_UNIX;
		return 0;
	}
	if (cidr_parse(address, strlen(address), &search->range, &why) < 0)
		return err_field(err, "address",
		                 "must be an address, a range such as 10.0.0.0/8, or 'unix': %s",
		                 why);
	search->from = FROM_RANGE;
	return 0;
}

int event_search_set_text(struct event_search *search, const char *text, struct err *err)
{
	return word_set(&search->text, "text", text, err);
}

static int read_moment(const char *field, const char *text, uint64_t *ret_us, struct err *err)
{
	uint64_t nano;

	if (wall_time_parse(text, ret_us) == 0)
		return 0;
	if (decimal_parse(text, &nano) < 0)
		return err_field(err, field,
		                 "must be a time such as 2026-01-31T09:30:00Z (RFC 3339; a + is "
		                 "written %%2B in a URL), or seconds since 1970");
	*ret_us = nano / 1000;
	return 0;
}

int event_search_set_since(struct event_search *search, const char *text, struct err *err)
{
	return read_moment("since", text, &search->since_us, err);
}

int event_search_set_until(struct event_search *search, const char *text, struct err *err)
{
	int r = read_moment("until", text, &search->until_us, err);

	if (r == 0 && search->until_us <= search->since_us)
		r = err_field(err, "until", "must be later than since");
	return r;
}

static bool is_from(const struct event_search *search, const char *client)
{
	const size_t len = strlen(search->client);
	struct address a;
	const char *why;

	if (search->from == FROM_UNIX)
		return strncmp(client, search->client, len) == 0 &&
		       (client[len] == '\0' ||
		        (client[len] == ':' && !strchr(search->client, ':')));
	return address_parse(client, strlen(client), &a, &why) == 0 && cidr_has(&search->range, &a);
}

static bool is_person(const struct word *who, const char *person)
{
	static const char *const names[] = {"subject", "email", "name"};
	auto_json json_t *object = NULL;

	if (!person || !strcasestr(person, who->in_json))
		return false;
	object = json_loads(person, 0, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		const char *text = json_string_value(json_object_get(object, names[i]));

		if (text && strcasecmp(text, who->plain) == 0)
			return true;
	}
	return false;
}

static bool is_by(const struct event_search *search, const struct event_row *row)
{
	if (strcmp(row->key_id, search->who.plain) == 0)
		return true;
	if (search->n_keys > 0 && row->key_id[0] &&
	    bsearch(row->key_id, search->keys, search->n_keys, ID_SIZE, compare_ids))
		return true;
	return is_person(&search->who, row->person);
}

/* Entries are as deep as the daemon has written them; whoever has altered one in the database finds
 * json_loads() before this, which takes no deep one. */
static bool has_text(const json_t *value, const char *text)
{
	const char *name;
	json_t *inner;
	size_t i;

	if (json_is_string(value))
		return strcasestr(json_string_value(value), text) != NULL;
	json_array_foreach(value, i, inner)
	{
		if (has_text(inner, text))
			return true;
	}
	json_object_foreach (unconst(value), name, inner) {
		if (has_text(inner, text))
			return true;
	}
	return false;
}

static bool has_words(const struct word *w, const struct event_row *row)
{
	const char *const plain[] = {row->type, row->sandbox_id, row->exec_id, row->request_id,
	                             row->agent};
	auto_json json_t *data = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(plain); i++)
		if (plain[i] && strcasestr(plain[i], w->plain))
			return true;
	if (!strcasestr(row->data, w->in_json))
		return false;
	data = json_loads(row->data, 0, NULL);
	return has_text(data, w->plain);
}

bool event_search_finds(const struct event_search *search, const struct event_row *row)
{
	if (row->at_us < search->since_us)
		return false;
	if (search->until_us > 0 && row->at_us >= search->until_us)
		return false;
	if (search->from != FROM_ANYWHERE && !(row->client && is_from(search, row->client)))
		return false;
	if (search->who.plain && !is_by(search, row))
		return false;
	return !search->text.plain || has_words(&search->text, row);
}
