// SPDX-License-Identifier: Apache-2.0
#include "tenant/ceiling.h"

#include "base/units.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>

#define VCPUS_MAX 1e6

static const struct {
	const char *name, *field; /* of the ceiling, and of what is held against it */
	uint64_t unit, max;       /* unit 0: thousandths, told with their decimals */
} rows[] = {
	[CEILING_CPU_MILLI] = {"vcpus", "limits.vcpus", 0, 0},
	[CEILING_MEMORY_BYTES] = {"memory_mib", "limits.memory_mib", MIB, UINT64_C(1) << 40},
	[CEILING_DISK_BYTES] = {"disk_mib", "limits.disk_mib", MIB, UINT64_C(1) << 40},
	[CEILING_INODES] = {"inodes", "limits.inodes", 1, UINT32_MAX},
	[CEILING_PIDS] = {"pids", "limits.pids", 1, UINT32_MAX},
	[CEILING_OPEN_FILES] = {"open_files", "limits.open_files", 1, UINT32_MAX},
	[CEILING_OUTPUT_BYTES] = {"output_mib", "limits.output_mib", MIB, UINT64_C(1) << 40},
	[CEILING_EXECS] = {"execs", "limits.execs", 1, UINT32_MAX},
	[CEILING_TIMEOUT_MS] = {"max_timeout_ms", "timeout_ms", 1, INT64_MAX / 2000},
};
static_assert(ARRAY_SIZE(rows) == CEILING_COUNT, "a ceiling has no row");

static int read_vcpus(const json_t *value, uint64_t *ret, struct err *err)
{
	double n = json_number_value(value);

	if (!json_is_number(value) || !(n >= 0.01 && n <= VCPUS_MAX))
		return err_field(err, "max_limits.vcpus", "must be a number of CPUs from 0.01");
	*ret = (uint64_t)llround(n * 1000);
	return 0;
}

static int read_one(const json_t *value, enum ceiling i, uint64_t *ret, struct err *err)
{
	json_int_t n = json_integer_value(value);
	char field[48];

	if (!value || json_is_null(value))
		return 0;
	if (rows[i].unit == 0)
		return read_vcpus(value, ret, err);
	(void)snprintf(field, sizeof(field), "%s%s", i < CEILING_LIMIT_COUNT ? "max_limits." : "",
	               rows[i].name);
	if (!json_is_integer(value) || n < 1 || (uint64_t)n > rows[i].max)
		return err_field(err, field, "must be a whole number from 1");
	*ret = (uint64_t)n * rows[i].unit;
	return 0;
}

int ceilings_read(const json_t *max_limits, const json_t *max_timeout_ms, struct ceilings *ret,
                  struct err *err)
{
	json_t *values[CEILING_LIMIT_COUNT] = {NULL};
	struct json_field fields[CEILING_LIMIT_COUNT];
	int r = 0;

	*ret = (struct ceilings){0};
	for (unsigned i = 0; i < CEILING_LIMIT_COUNT; i++)
		fields[i] = (struct json_field){rows[i].name, JSON_FIELD_ANY, &values[i]};
	if (max_limits)
		r = json_read(max_limits, "max_limits.", fields, ARRAY_SIZE(fields), err);
	for (unsigned i = 0; r == 0 && i < CEILING_LIMIT_COUNT; i++)
		r = read_one(values[i], (enum ceiling)i, &ret->of[i], err);
	return r < 0 ? r
	             : read_one(max_timeout_ms, CEILING_TIMEOUT_MS, &ret->of[CEILING_TIMEOUT_MS],
	                        err);
}

bool ceilings_is_empty(const struct ceilings *c)
{
	for (unsigned i = 0; i < CEILING_COUNT; i++)
		if (c->of[i] > 0)
			return false;
	return true;
}

static void put_one(const struct ceilings *c, enum ceiling i, struct json_writer *w)
{
	if (c->of[i] == 0)
		json_put_null(w, rows[i].name);
	else if (rows[i].unit == 0)
		json_put_double(w, rows[i].name, (double)c->of[i] / 1000);
	else
		json_put_u64(w, rows[i].name, c->of[i] / rows[i].unit);
}

void ceilings_put(const struct ceilings *c, struct json_writer *w)
{
	json_open_object(w, "max_limits");
	for (unsigned i = 0; i < CEILING_LIMIT_COUNT; i++)
		put_one(c, (enum ceiling)i, w);
	json_close_object(w);
	put_one(c, CEILING_TIMEOUT_MS, w);
}

int ceilings_check(const struct ceilings *c, const struct ceilings *asked, const char *whose,
                   struct err *err)
{
	for (unsigned i = 0; i < CEILING_COUNT; i++) {
		double unit = rows[i].unit ? (double)rows[i].unit : 1000;

		if (c->of[i] == 0 || asked->of[i] <= c->of[i])
			continue;
		(void)err_field(err, rows[i].field,
		                "%.15g is asked for, and a sandbox of this %s may have up to %.15g",
		                (double)asked->of[i] / unit, whose, (double)c->of[i] / unit);
		return err_hint(err, "ask for less, or an admin for a higher ceiling");
	}
	return 0;
}

void ceilings_lower(const struct ceilings *c, struct ceilings *values)
{
	for (unsigned i = 0; i < CEILING_COUNT; i++)
		if (c->of[i] > 0)
			values->of[i] = MIN(values->of[i], c->of[i]);
}
