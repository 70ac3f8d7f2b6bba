// SPDX-License-Identifier: Apache-2.0
#include "member/gateway_calls.h"

#include "base/json/json.h"
#include "base/log.h"
#include "cluster/message.h"
#include "member/database/answer_rows.h"
#include "member/gateway_link.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define VALUES_MAX 20000 /* of one call */
#define TEXT_MAX   24
#define FIELDS_MAX 8

enum field_type { FIELD_TEXT, FIELD_NUMBER, FIELD_BOOL, FIELD_JSON };

struct call_row {
	const char *name, *sql;
	bool has_epoch;  /* it writes: only with the right, and with the epoch behind the secret */
	bool has_number; /* behind the epoch */
	struct {
		const char *name;
		enum field_type type;
	} fields[FIELDS_MAX];
};

static const struct call_row rows[] = {
	{"put_record",
         "SELECT cluster.put_record($1::int, $2, $3::bigint, $4, $5, $6, $7, $8::jsonb, "
         "$9::boolean) AS answer, cluster.wrote($1::int, $2)",
         true,
         false,
         {{"kind", FIELD_TEXT},
          {"id", FIELD_TEXT},
          {"project_id", FIELD_TEXT},
          {"unique", FIELD_TEXT},
          {"record", FIELD_JSON},
          {"is_gone", FIELD_BOOL}}},
	{"changed",
         "SELECT cluster.changed($1::int, $2, $3::bigint) AS answer",
         false,
         false,
         {{"after", FIELD_NUMBER}}},
	{"take_create",
         "SELECT cluster.take_create($1::int, $2, $3::bigint, $4::bigint, $5, $6, $7, $8, $9) AS "
         "answer, cluster.wrote($1::int, $2)",
         true,
         true,
         {{"project_id", FIELD_TEXT},
          {"sandbox_id", FIELD_TEXT},
          {"name", FIELD_TEXT},
          {"key", FIELD_TEXT},
          {"digest", FIELD_TEXT}}},
	{"free_create",
         "SELECT cluster.free_create($1::int, $2, $3::bigint, $4::bigint, $5, $6::boolean) AS "
         "answer, cluster.wrote($1::int, $2)",
         true,
         true,
         {{"sandbox_id", FIELD_TEXT}, {"with_key", FIELD_BOOL}}},
	{"taken",
         "SELECT cluster.taken($1::int, $2, $3) AS answer",
         false,
         false,
         {{"after", FIELD_TEXT}}},
	{"named",
         "SELECT cluster.named($1::int, $2, $3, $4) AS answer",
         false,
         false,
         {{"project_id", FIELD_TEXT}, {"name", FIELD_TEXT}}},
	{"tell",
         "SELECT cluster.tell_batch($1::int, $2, $3::bigint, $4::bigint, $5::bigint, $6::jsonb, "
         "$7::jsonb, $8::boolean) AS answer, "
         "set_config('synchronous_commit', 'off', true)", /* as beats.c says */
         true,
         false,
         {{"round", FIELD_NUMBER},
          {"number", FIELD_NUMBER},
          {"rows", FIELD_JSON},
          {"gone", FIELD_JSON},
          {"is_whole", FIELD_BOOL}}},
	{"once_of",
         "SELECT cluster.once_of($1::int, $2, $3, $4) AS answer",
         false,
         false,
         {{"project_id", FIELD_TEXT}, {"key", FIELD_TEXT}}},
	{"publish_template",
         "SELECT cluster.publish_template($1::int, $2, $3::bigint, $4, $5, $6, $7::jsonb) AS "
         "answer, cluster.wrote($1::int, $2)",
         true,
         false,
         {{"id", FIELD_TEXT},
          {"project_id", FIELD_TEXT},
          {"replaces", FIELD_TEXT},
          {"record", FIELD_JSON}}},
	{"remove_template",
         "SELECT cluster.remove_template($1::int, $2, $3::bigint, $4, $5) AS answer, "
         "cluster.wrote($1::int, $2)",
         true,
         false,
         {{"id", FIELD_TEXT}, {"template_id", FIELD_TEXT}}},
	{"publish_snapshot",
         "SELECT cluster.publish_snapshot($1::int, $2, $3::bigint, $4, $5, $6, $7::bigint, "
         "$8::jsonb) AS answer, cluster.wrote($1::int, $2)",
         true,
         false,
         {{"id", FIELD_TEXT},
          {"project_id", FIELD_TEXT},
          {"source_id", FIELD_TEXT},
          {"expires_us", FIELD_NUMBER},
          {"record", FIELD_JSON}}},
	{"put_sealed",
         "SELECT cluster.put_sealed($1::int, $2, $3::bigint, $4, $5, $6, $7::bigint, $8::bigint, "
         "$9::boolean, $10::boolean, $11) AS answer, cluster.wrote($1::int, $2)",
         true,
         false,
         {{"kind", FIELD_TEXT},
          {"id", FIELD_TEXT},
          {"project_id", FIELD_TEXT},
          {"version", FIELD_NUMBER},
          {"changed_us", FIELD_NUMBER},
          {"is_gone", FIELD_BOOL},
          {"is_said", FIELD_BOOL},
          {"sealed", FIELD_TEXT}}},
	{"tell_usage",
         "SELECT cluster.tell_usage($1::int, $2, $3::bigint, $4::jsonb) AS answer, "
         "set_config('synchronous_commit', 'off', true)", /* as beats.c says */
         true,
         false,
         {{"rows", FIELD_JSON}}},
	{"usage_of",
         "SELECT cluster.usage_of($1::int, $2, $3, $4::jsonb, $5::int, $6::int, $7::boolean, $8, "
         "$9::int) AS answer",
         false,
         false,
         {{"project_id", FIELD_TEXT},
          {"but", FIELD_JSON},
          {"from_day", FIELD_NUMBER},
          {"to_day", FIELD_NUMBER},
          {"by_day", FIELD_BOOL},
          {"after_project", FIELD_TEXT},
          {"after_day", FIELD_NUMBER}}},
	{"snapshot_of",
         "SELECT cluster.snapshot_of($1::int, $2, $3) AS answer",
         false,
         false,
         {{"id", FIELD_TEXT}}},
	{"seen_snapshots",
         "SELECT cluster.seen_snapshots($1::int, $2, $3::jsonb) AS answer",
         false,
         false,
         {{"ids", FIELD_JSON}}},
	{"remove_snapshot",
         "SELECT cluster.remove_snapshot($1::int, $2, $3::bigint, $4, $5) AS answer, "
         "cluster.wrote($1::int, $2)",
         true,
         false,
         {{"id", FIELD_TEXT}, {"project_id", FIELD_TEXT}}},
	{"own",
         "SELECT cluster.own($1::int, $2, $3::bigint, $4, $5, $6::bigint, $7, $8::bigint, $9) AS "
         "answer, cluster.wrote($1::int, $2)",
         true,
         false,
         {{"sandbox_id", FIELD_TEXT},
          {"project_id", FIELD_TEXT},
          {"term", FIELD_NUMBER},
          {"generation", FIELD_TEXT},
          {"age_ms", FIELD_NUMBER},
          {"sealed", FIELD_TEXT}}},
	{"disown",
         "SELECT cluster.disown($1::int, $2, $3::bigint, $4, $5) AS answer, "
         "cluster.wrote($1::int, $2)",
         true,
         false,
         {{"sandbox_id", FIELD_TEXT}, {"project_id", FIELD_TEXT}}},
	{"take_over",
         "SELECT cluster.take_over($1::int, $2, $3::bigint, $4::bigint) AS answer, "
         "cluster.wrote($1::int, $2)",
         true,
         false,
         {{"most", FIELD_NUMBER}}},
	{"owned_rows",
         "SELECT cluster.owned_rows($1::int, $2, $3) AS answer",
         false,
         false,
         {{"after", FIELD_TEXT}}},
	{"owned_row",
         "SELECT cluster.owned_row($1::int, $2, $3) AS answer",
         false,
         false,
         {{"sandbox_id", FIELD_TEXT}}},
	{"owner_of",
         "SELECT cluster.owner_of($1::int, $2, $3) AS answer",
         false,
         false,
         {{"sandbox_id", FIELD_TEXT}}},
	{"moved_rows",
         "SELECT cluster.moved_rows($1::int, $2, $3) AS answer",
         false,
         false,
         {{"after", FIELD_TEXT}}},
	{"lease_many",
         "SELECT cluster.lease_many($1::int, $2, $3::bigint, $4::jsonb) AS answer, "
         "cluster.wrote($1::int, $2)",
         true,
         false,
         {{"calls", FIELD_JSON}}},
	{"own_leases",
         "SELECT cluster.own_leases($1::int, $2, $3::bigint, $4, $5) AS answer, "
         "cluster.wrote($1::int, $2)",
         true,
         false,
         {{"after_owner", FIELD_TEXT}, {"after_what", FIELD_TEXT}}},
	{"wanted",
         "SELECT cluster.wanted($1::int, $2) AS answer",
         false,
         false,
         {{NULL, FIELD_TEXT}}},
	{"take_rate",
         "SELECT cluster.take_rate($1::int, $2, $3::bigint, $4, $5::int, $6::bigint) AS answer, "
         "cluster.wrote($1::int, $2)",
         true,
         false,
         {{"owner", FIELD_TEXT}, {"n", FIELD_NUMBER}, {"usual", FIELD_NUMBER}}},
	{"where",
         "SELECT cluster.where_is($1::int, $2, $3, $4::int) AS answer",
         false,
         false,
         {{"id", FIELD_TEXT}, {"tagged", FIELD_NUMBER}}},
	{"list_of",
         "SELECT cluster.list_of($1::int, $2, $3, $4::jsonb, $5::bigint, $6, $7::int, $8::jsonb) "
         "AS answer",
         false,
         false,
         {{"project_id", FIELD_TEXT},
          {"nodes", FIELD_JSON},
          {"before_us", FIELD_NUMBER},
          {"before_id", FIELD_TEXT},
          {"most", FIELD_NUMBER},
          {"filter", FIELD_JSON}}},
};

struct open_call { /* one that the database has */
	struct gateway_calls *calls;
	uint32_t seq;
};

/* Calls are made one after the other, and each counts. */
static void note_write(struct gateway_calls *c, int64_t wrote)
{
	const uint64_t before = c->written;

	if (wrote < 0)
		return;
	c->written = (uint64_t)wrote;
	if (c->written <= before)
		c->rewound(c->arg);
}

static void on_answer(const struct database_answer *answer, void *arg)
{
	auto_free struct open_call *open = arg;
	struct gateway_calls *c = open->calls;
	auto_json json_t *all = NULL;
	const char *text;
	struct err err;

	if (!answer->rows) {
		/* What PostgreSQL refuses, it refuses again; all else may be tried again. */
		gateway_link_refuse(c->link, open->seq,
		                    answer->trouble == TROUBLE_DATABASE ? "refused" : "unavailable",
		                    answer->message);
		return;
	}
	if (PQntuples(answer->rows) != 1 || PQnfields(answer->rows) < 1 ||
	    PQgetisnull(answer->rows, 0, 0)) {
		gateway_link_refuse(c->link, open->seq, "refused",
		                    "the database has answered with another shape");
		return;
	}
	note_write(c, rows_number(answer->rows, "wrote"));
	text = PQgetvalue(answer->rows, 0, 0);
	if (strlen(text) > CLUSTER_MESSAGE_MAX ||
	    json_parse_up_to(text, strlen(text), VALUES_MAX, &all, &err) < 0 ||
	    !json_is_object(all))
		gateway_link_refuse(c->link, open->seq, "refused",
		                    "the database's answer is too long, or no object");
	else
		gateway_link_answer(c->link, open->seq, all);
}

/* The parameter's text; NULL is SQL's. -EINVAL: it is of another type. */
static int read_field(const json_t *value, enum field_type type, char **ret)
{
	*ret = NULL;
	if (!value || json_is_null(value))
		return type == FIELD_TEXT ? 0 : -EINVAL;
	switch (type) {
	case FIELD_TEXT:
		*ret = json_is_string(value) ? xstrdup(json_string_value(value)) : NULL;
		break;
	case FIELD_NUMBER:
		*ret = json_is_integer(value)
		               ? xasprintf("%" JSON_INTEGER_FORMAT, json_integer_value(value))
		               : NULL;
		break;
	case FIELD_BOOL:
		*ret = json_is_boolean(value) ? xstrdup(json_is_true(value) ? "t" : "f") : NULL;
		break;
	case FIELD_JSON:
		*ret = json_dumps(value, JSON_COMPACT);
		break;
	}
	return *ret ? 0 : -EINVAL;
}

static int send_call(struct gateway_calls *c, const struct call_row *row, uint32_t seq,
                     const json_t *call, uint64_t epoch)
{
	const char *params[DATABASE_PARAMS_MAX] = {c->node_text, c->node->secret};
	char *texts[FIELDS_MAX] = {NULL};
	char epoch_text[TEXT_MAX], number_text[TEXT_MAX];
	struct open_call *open;
	size_t n = 2, n_texts = 0;
	int r = 0;

	if (row->has_epoch) {
		(void)snprintf(epoch_text, sizeof(epoch_text), "%" PRIu64, epoch);
		params[n++] = epoch_text;
	}
	if (row->has_number) {
		(void)snprintf(number_text, sizeof(number_text), "%" PRIu64, ++c->number);
		params[n++] = number_text;
	}
	for (; r == 0 && n_texts < FIELDS_MAX && row->fields[n_texts].name; n_texts++) {
		r = read_field(json_object_get(call, row->fields[n_texts].name),
		               row->fields[n_texts].type, &texts[n_texts]);
		params[n++] = texts[n_texts];
	}
	if (r == 0) {
		open = xnew0(struct open_call);
		*open = (struct open_call){.calls = c, .seq = seq};
		r = database_call(c->work, row->sql, params, n, on_answer, open);
		if (r < 0)
			free(open);
	}
	for (size_t i = 0; i < n_texts; i++)
		free(texts[i]);
	return r;
}

static const struct call_row *find_row(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (strcmp(rows[i].name, name) == 0)
			return &rows[i];
	return NULL;
}

void gateway_calls_take(struct gateway_calls *c, uint32_t seq, const char *name, const json_t *call,
                        enum fence_state state, uint64_t epoch)
{
	const struct call_row *row = find_row(name);
	int r;

	if (!row) {
		gateway_link_refuse(c->link, seq, "unsupported", "there is no such call");
		return;
	}
	if (!c->node || (row->has_epoch && !fence_allows(state, FENCE_AGREE))) {
		gateway_link_refuse(c->link, seq, "unavailable",
		                    c->node ? "this node is fenced: PostgreSQL does not answer it"
		                            : "this node is in no cluster");
		return;
	}
	r = send_call(c, row, seq, call, epoch);
	if (r == -EINVAL)
		gateway_link_refuse(c->link, seq, "refused",
		                    "a field of the call is of another type");
	else if (r < 0)
		gateway_link_refuse(c->link, seq, "unavailable",
		                    r == -EAGAIN ? "too many calls wait for PostgreSQL"
		                                 : "PostgreSQL is not reached");
}
