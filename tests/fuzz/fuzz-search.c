// SPDX-License-Identifier: Apache-2.0
/*
 * Searches of the event log, and the times in them. The input is lines: who, address, text, since
 * and until as a query has them, then what an entry says of its type, key, person, client and
 * facts. A search that is refused must name its field. An entry that has the word as its type must
 * be found by it, and a time that is read must be one between its neighbours.
 */
#include "base/text/wall_time.h"
#include "event/search.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define INPUT_MAX 8192
#define LINES     10
#define DAY_US    (UINT64_C(86400) * 1000000)

static const struct {
	const char *name;
	int (*set)(struct event_search *search, const char *text, struct err *err);
} fields[] = {
	{"who", event_search_set_who},     {"address", event_search_set_address},
	{"text", event_search_set_text},   {"since", event_search_set_since},
	{"until", event_search_set_until},
};

/* Returns whether the search may be used. */
static bool set_all(struct event_search *search, char *const lines[LINES])
{
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		struct err err = {0};

		if (!*lines[i])
			continue;
		if (fields[i].set(search, lines[i], &err) == 0)
			continue;
		assert(err.code == ERR_INVALID_FIELD && strcmp(err.field, fields[i].name) == 0);
		return false;
	}
	return true;
}

/* The same moment, written by its clock in the world's zone, is the same number. */
static void try_time(const char *text)
{
	struct tm tm;
	char again[64];
	uint64_t us, same_us;
	time_t s;
	size_t n;

	if (wall_time_parse(text, &us) < 0)
		return;
	s = (time_t)(us / 1000000);
	assert(gmtime_r(&s, &tm));
	n = strftime(again, sizeof(again), "%Y-%m-%dT%H:%M:%S", &tm);
	(void)snprintf(again + n, sizeof(again) - n, ".%06uZ", (unsigned)(us % 1000000));
	if (tm.tm_year + 1900 > 9999)
		return; /* only behind a zone can the last day of the last year be another one */
	assert(wall_time_parse(again, &same_us) == 0 && same_us == us);
}

static void search_entry(char *const lines[LINES])
{
	struct event_search *search = event_search_new();
	struct event_row row = {
		.at_us = 20000 * DAY_US,
		.type = lines[5],
		.key_id = lines[6],
		.person = lines[7],
		.client = lines[8],
		.data = lines[9],
		.project_id = "",
		.sandbox_id = "",
		.exec_id = "",
		.request_id = "",
		.agent = "",
	};

	if (set_all(search, lines)) {
		(void)event_search_finds(search, &row);
		event_search_add_key(search, lines[6]);
		event_search_end_keys(search);
		(void)event_search_finds(search, &row);
	}
	event_search_free(search);
}

static void find_itself(const char *text)
{
	struct event_search *search = event_search_new();
	const struct event_row row = {.type = text, .data = "{}", .sandbox_id = ""};
	struct err err;

	if (event_search_set_text(search, text, &err) == 0)
		assert(event_search_finds(search, &row));
	event_search_free(search);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	auto_free char *text = NULL;
	char *lines[LINES], *at;

	if (size > INPUT_MAX)
		return 0;
	text = xcalloc(size + 1, 1);
	if (size > 0)
		memcpy(text, data, size);
	at = text;
	for (size_t i = 0; i < LINES; i++) {
		char *end = at + strcspn(at, i + 1 < LINES ? "\n" : "");

		lines[i] = at;
		at = *end ? end + 1 : end;
		*end = '\0';
	}
	try_time(lines[3]);
	try_time(lines[4]);
	find_itself(lines[2]);
	search_entry(lines);
	return 0;
}
