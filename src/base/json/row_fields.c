// SPDX-License-Identifier: Apache-2.0
#include "base/json/row_fields.h"

#include <stdio.h>
#include <string.h>

static void put_one(const struct row_field *f, const char *at, struct json_writer *w)
{
	switch (f->kind) {
	case ROW_U64:
		json_put_u64(w, f->name, *(const uint64_t *)at);
		break;
	case ROW_U32:
		json_put_u64(w, f->name, *(const uint32_t *)at);
		break;
	case ROW_BOOL:
		json_put_bool(w, f->name, *(const bool *)at);
		break;
	case ROW_TEXT:
		json_put_strn(w, f->name, at, strlen(at));
		break;
	case ROW_STRING:
		json_put_str(w, f->name, *(char *const *)at);
		break;
	case ROW_OBJECT:
	case ROW_ARRAY:
		if (*(json_t *const *)at)
			json_put_value(w, f->name, *(json_t *const *)at);
		break;
	}
}

void row_fields_put(const struct row_field *fields, size_t n, const void *from,
                    struct json_writer *w)
{
	for (size_t i = 0; i < n; i++)
		put_one(&fields[i], (const char *)from + fields[i].offset, w);
}

static const enum json_kind kinds[] = {
	[ROW_U64] = JSON_FIELD_U64,       [ROW_U32] = JSON_FIELD_U64,
	[ROW_BOOL] = JSON_FIELD_BOOL,     [ROW_TEXT] = JSON_FIELD_STRING,
	[ROW_STRING] = JSON_FIELD_STRING, [ROW_OBJECT] = JSON_FIELD_OBJECT,
	[ROW_ARRAY] = JSON_FIELD_ARRAY,
};

union value { /* as json_read() gives it */
	uint64_t number;
	bool yes;
	const char *text;
	json_t *json;
};

static void take_one(const struct row_field *f, const union value *v, char *at)
{
	switch (f->kind) {
	case ROW_U64:
		*(uint64_t *)at = v->number;
		break;
	case ROW_U32:
		*(uint32_t *)at = (uint32_t)v->number;
		break;
	case ROW_BOOL:
		*(bool *)at = v->yes;
		break;
	case ROW_TEXT:
		(void)snprintf(at, f->size, "%s", v->text);
		break;
	case ROW_STRING:
		*(char **)at = xstrdup(v->text);
		break;
	case ROW_OBJECT:
	case ROW_ARRAY:
		*(json_t **)at = json_incref(v->json);
		break;
	}
}

int row_fields_read(const struct row_field *fields, size_t n, const struct json_field *others,
                    size_t n_others, const json_t *object, void *ret)
{
	auto_free struct json_field *all = xnew0n(struct json_field, n + n_others);
	auto_free union value *values = xnew0n(union value, n);
	auto_free bool *given = xnew0n(bool, n);
	int r;

	for (size_t i = 0; i < n; i++) {
		const struct row_field *f = &fields[i];

		all[i] = (struct json_field){
			f->name,
			kinds[f->kind],
			&values[i],
			f->is_required,
			.ret_given = &given[i],
			.max = f->kind == ROW_U32 && !f->max ? UINT32_MAX : f->max};
	}
	if (n_others)
		memcpy(all + n, others, n_others * sizeof(*others));
	r = json_read(object, "", all, n + n_others, NULL);
	for (size_t i = 0; r == 0 && i < n; i++)
		if (given[i])
			take_one(&fields[i], &values[i], (char *)ret + fields[i].offset);
	return r;
}
