// SPDX-License-Identifier: Apache-2.0
#include "sandbox/model/limits_json.h"

void limits_to_row(const struct guest_limits *limits, struct json_writer *w)
{
	json_open_object(w, "limits");
	for (size_t i = 0; i < GUEST_LIMITS_COUNT; i++)
		json_put_u64(w, limit_table[i].row_name, limit_get(&limit_table[i], limits));
	json_close_object(w);
}

int limits_read_row(const json_t *object, struct guest_limits *ret)
{
	struct json_field fields[GUEST_LIMITS_COUNT + 1];
	uint64_t values[GUEST_LIMITS_COUNT] = {0};
	int r;

	for (size_t i = 0; i < GUEST_LIMITS_COUNT; i++)
		fields[i] = (struct json_field){limit_table[i].row_name, JSON_FIELD_U64, &values[i],
		                                .max = limit_most(&limit_table[i])};
	/* The old name of open_files, in rows up to schema version 12. */
	fields[GUEST_LIMITS_COUNT] = (struct json_field){
		"nofile", JSON_FIELD_U64, &values[LIMIT_AT_open_files], .max = UINT32_MAX};
	r = json_read(object, "limits.", fields, ARRAY_SIZE(fields), NULL);
	for (size_t i = 0; r == 0 && i < GUEST_LIMITS_COUNT; i++)
		limit_set(&limit_table[i], ret, values[i] ? values[i] : limit_table[i].usual);
	return r;
}

static void put_one(const struct limit *l, const void *limits, struct json_writer *w)
{
	uint64_t value = limit_get(l, limits);

	if (l->kind == LIMIT_CPUS)
		json_put_double(w, l->name, (double)value / (double)l->unit);
	else
		json_put_u64(w, l->name, value / l->unit);
}

void limits_to_json(const struct guest_limits *limits, const struct exec_limits *of_execs,
                    struct json_writer *w)
{
	json_open_object(w, "limits");
	for (size_t i = 0; i < GUEST_LIMITS_COUNT; i++)
		put_one(&limit_table[i], limits, w);
	for (size_t i = GUEST_LIMITS_COUNT; of_execs && i < LIMITS_COUNT; i++)
		put_one(&limit_table[i], of_execs, w);
	json_close_object(w);
}
