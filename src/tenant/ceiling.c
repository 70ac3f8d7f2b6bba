// SPDX-License-Identifier: Apache-2.0
#include "tenant/ceiling.h"

#include <math.h>
#include <stdio.h>

#define NAME_SIZE 48
#define CPUS_MAX  1e6
#define MIB_MAX   (UINT64_C(1) << 40)

static const struct limit lifetime = {.name = "max_timeout_ms", .kind = LIMIT_COUNT64, .unit = 1};

static const struct limit *limit_of(size_t i)
{
	return i < LIMITS_COUNT ? &limit_table[i] : &lifetime;
}

static uint64_t most_of(const struct limit *l)
{
	if (l == &lifetime)
		return INT64_MAX / 2000;
	return l->kind == LIMIT_SIZE ? MIB_MAX : UINT32_MAX;
}

static int read_cpus(const json_t *value, const char *field, uint64_t *ret, struct err *err)
{
	double n = json_number_value(value);

	if (!json_is_number(value) || !(n >= 0.01 && n <= CPUS_MAX))
		return err_field(err, field, "must be a number of CPUs from 0.01");
	*ret = (uint64_t)llround(n * 1000);
	return 0;
}

static int read_one(const json_t *value, const struct limit *l, uint64_t *ret, struct err *err)
{
	json_int_t n = json_integer_value(value);
	char field[NAME_SIZE];

	if (!value || json_is_null(value))
		return 0;
	(void)snprintf(field, sizeof(field), "%s%s", l == &lifetime ? "" : "max_limits.", l->name);
	if (l->kind == LIMIT_CPUS)
		return read_cpus(value, field, ret, err);
	if (!json_is_integer(value) || n < 1 || (uint64_t)n > most_of(l))
		return err_field(err, field, "must be a whole number from 1");
	*ret = (uint64_t)n * l->unit;
	return 0;
}

int ceilings_read(const json_t *max_limits, const json_t *max_timeout_ms, struct ceilings *ret,
                  struct err *err)
{
	json_t *values[LIMITS_COUNT] = {NULL};
	struct json_field fields[LIMITS_COUNT];
	int r = 0;

	*ret = (struct ceilings){0};
	for (size_t i = 0; i < LIMITS_COUNT; i++)
		fields[i] = (struct json_field){limit_table[i].name, JSON_FIELD_ANY, &values[i]};
	if (max_limits)
		r = json_read(max_limits, "max_limits.", fields, ARRAY_SIZE(fields), err);
	for (size_t i = 0; r == 0 && i < LIMITS_COUNT; i++)
		r = read_one(values[i], &limit_table[i], &ret->of[i], err);
	return r < 0 ? r : read_one(max_timeout_ms, &lifetime, &ret->of[CEILING_TIMEOUT_MS], err);
}

bool ceilings_is_empty(const struct ceilings *c)
{
	for (size_t i = 0; i < CEILING_COUNT; i++)
		if (c->of[i] > 0)
			return false;
	return true;
}

static void put_one(const struct ceilings *c, size_t i, struct json_writer *w)
{
	const struct limit *l = limit_of(i);

	if (c->of[i] == 0)
		json_put_null(w, l->name);
	else if (l->kind == LIMIT_CPUS)
		json_put_double(w, l->name, (double)c->of[i] / (double)l->unit);
	else
		json_put_u64(w, l->name, c->of[i] / l->unit);
}

void ceilings_put(const struct ceilings *c, struct json_writer *w)
{
	json_open_object(w, "max_limits");
	for (size_t i = 0; i < LIMITS_COUNT; i++)
		put_one(c, i, w);
	json_close_object(w);
	put_one(c, CEILING_TIMEOUT_MS, w);
}

int ceilings_check(const struct ceilings *c, const struct ceilings *asked, const char *whose,
                   struct err *err)
{
	for (size_t i = 0; i < CEILING_COUNT; i++) {
		const struct limit *l = limit_of(i);
		char field[NAME_SIZE] = "timeout_ms";

		if (c->of[i] == 0 || asked->of[i] <= c->of[i])
			continue;
		if (l != &lifetime)
			(void)snprintf(field, sizeof(field), "limits.%s", l->name);
		(void)err_field(err, field,
		                "%.15g is asked for, and a sandbox of this %s may have up to %.15g",
		                (double)asked->of[i] / (double)l->unit, whose,
		                (double)c->of[i] / (double)l->unit);
		return err_hint(err, "ask for less, or an admin for a higher ceiling");
	}
	return 0;
}

void ceilings_lower(const struct ceilings *c, struct ceilings *values)
{
	for (size_t i = 0; i < CEILING_COUNT; i++)
		if (c->of[i] > 0)
			values->of[i] = MIN(values->of[i], c->of[i]);
}
