// SPDX-License-Identifier: Apache-2.0
#include "tenant/quota_fields.h"

#include "base/text/decimal.h"
#include "base/units.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define UNLIMITED         "unlimited"
#define COUNT_MAX         UINT64_C(1000000)
#define MIB_MAX           (UINT64_C(1) << 40)
#define VCPUS_MAX         1e6
#define CREATES_MAX       UINT64_C(1000000)
#define WEIGHT_MAX        10000
#define EVENTS_AGE_MS_MIN 1000
#define EVENTS_AGE_MS_MAX INT64_C(315360000000) /* ten years */

static const char *const names[] = {
	[QUOTA_SANDBOXES] = "sandboxes",
	[QUOTA_CPU_MILLI] = "vcpus",
	[QUOTA_MEMORY_BYTES] = "memory_mib",
	[QUOTA_DISK_BYTES] = "disk_mib",
	[QUOTA_CREATES_PER_MINUTE] = "creates_per_minute",
	[QUOTA_BUDGET_NANO] = "budget",
};
static_assert(ARRAY_SIZE(names) == QUOTA_COUNT, "a quota has no name");

const char *quota_field_name(enum quota_what what)
{
	return names[what];
}

void quota_field_format(enum quota_what what, uint64_t value, char *text, size_t size)
{
	char decimal[DECIMAL_SIZE];

	switch (what) {
	case QUOTA_SANDBOXES:
	case QUOTA_CREATES_PER_MINUTE:
	case QUOTA_COUNT:
		(void)snprintf(text, size, "%" PRIu64, value);
		break;
	case QUOTA_CPU_MILLI:
		(void)snprintf(text, size, "%" PRIu64 ".%03" PRIu64, value / 1000, value % 1000);
		break;
	case QUOTA_MEMORY_BYTES:
	case QUOTA_DISK_BYTES:
		(void)snprintf(text, size, "%" PRIu64, value / MIB);
		break;
	case QUOTA_BUDGET_NANO:
		decimal_format(value, decimal);
		(void)snprintf(text, size, "%s", decimal);
		break;
	}
}

void quota_field_put_as(struct json_writer *w, const char *name, enum quota_what what,
                        uint64_t value)
{
	char text[DECIMAL_SIZE];

	quota_field_format(what, value, text, sizeof(text));
	if (value == QUOTA_UNLIMITED)
		json_put_str(w, name, UNLIMITED);
	else if (what == QUOTA_BUDGET_NANO)
		json_put_str(w, name, text);
	else if (what == QUOTA_CPU_MILLI)
		json_put_double(w, name, (double)value / 1000);
	else
		json_put_raw(w, name, text, strlen(text));
}

void quota_field_put(struct json_writer *w, enum quota_what what, uint64_t value)
{
	quota_field_put_as(w, names[what], what, value);
}

static int read_whole(const json_t *value, enum quota_what what, uint64_t max, uint64_t unit,
                      uint64_t *ret, struct err *err)
{
	json_int_t n = json_integer_value(value);

	if (!json_is_integer(value) || n < 0 || (uint64_t)n > max)
		return err_field(err, names[what],
		                 "must be a whole number up to %" PRIu64 ", or \"" UNLIMITED "\"",
		                 max);
	*ret = (uint64_t)n * unit;
	return 0;
}

static int read_vcpus(const json_t *value, uint64_t *ret, struct err *err)
{
	double n = json_number_value(value);

	if (!json_is_number(value) || !(n >= 0 && n <= VCPUS_MAX))
		return err_field(err, names[QUOTA_CPU_MILLI],
		                 "must be a number of CPUs, or \"" UNLIMITED "\"");
	*ret = (uint64_t)llround(n * 1000);
	return 0;
}

static int read_budget(const json_t *value, uint64_t *ret, struct err *err)
{
	if (json_is_string(value) && decimal_parse(json_string_value(value), ret) == 0)
		return 0;
	return err_field(err, names[QUOTA_BUDGET_NANO],
	                 "must be an amount as text, such as \"25.50\", or \"" UNLIMITED "\"");
}

static int read_field(const json_t *value, enum quota_what what, uint64_t *ret, struct err *err)
{
	if (json_is_string(value) && strcmp(json_string_value(value), UNLIMITED) == 0) {
		*ret = QUOTA_UNLIMITED;
		return 0;
	}
	switch (what) {
	case QUOTA_SANDBOXES:
		return read_whole(value, what, COUNT_MAX, 1, ret, err);
	case QUOTA_CPU_MILLI:
		return read_vcpus(value, ret, err);
	case QUOTA_MEMORY_BYTES:
	case QUOTA_DISK_BYTES:
		return read_whole(value, what, MIB_MAX, MIB, ret, err);
	case QUOTA_CREATES_PER_MINUTE:
		return read_whole(value, what, CREATES_MAX, 1, ret, err);
	case QUOTA_BUDGET_NANO:
		return read_budget(value, ret, err);
	case QUOTA_COUNT:
		break;
	}
	return -EINVAL;
}

static int read_weight(const json_t *value, uint32_t *ret, struct err *err)
{
	json_int_t n = json_integer_value(value);

	if (!value || json_is_null(value))
		return 0;
	if (!json_is_integer(value) || n < 1 || n > WEIGHT_MAX)
		return err_field(err, "weight",
		                 "must be a whole number from 1 to %d; 100 is the usual",
		                 WEIGHT_MAX);
	*ret = (uint32_t)n;
	return 0;
}

static int read_events_age(const json_t *value, uint64_t *ret, struct err *err)
{
	json_int_t n = json_integer_value(value);

	if (!value || json_is_null(value))
		return 0;
	if (!json_is_integer(value) || n < EVENTS_AGE_MS_MIN || n > EVENTS_AGE_MS_MAX)
		return err_field(err, "events_age_ms",
		                 "must be a whole number of milliseconds from 1000 (a second) to "
		                 "315360000000 (ten years)");
	*ret = (uint64_t)n;
	return 0;
}

int quota_setting_read(const json_t *object, struct quota_setting *ret, struct err *err)
{
	json_t *values[QUOTA_COUNT] = {NULL};
	json_t *max_limits = NULL, *max_timeout_ms = NULL, *weight = NULL, *age = NULL;
	struct json_field fields[QUOTA_COUNT + 4];
	int r;

	*ret = (struct quota_setting){0};

	for (unsigned i = 0; i < QUOTA_COUNT; i++)
		fields[i] = (struct json_field){names[i], JSON_FIELD_ANY, &values[i], false,
		                                &ret->is_set[i]};
	fields[QUOTA_COUNT] = (struct json_field){"max_limits", JSON_FIELD_OBJECT, &max_limits};
	fields[QUOTA_COUNT + 1] =
		(struct json_field){"max_timeout_ms", JSON_FIELD_ANY, &max_timeout_ms};
	fields[QUOTA_COUNT + 2] = (struct json_field){"weight", JSON_FIELD_ANY, &weight};
	fields[QUOTA_COUNT + 3] = (struct json_field){"events_age_ms", JSON_FIELD_ANY, &age};
	r = json_read(object, "", fields, ARRAY_SIZE(fields), err);
	for (unsigned i = 0; r == 0 && i < QUOTA_COUNT; i++)
		if (ret->is_set[i])
			r = read_field(values[i], (enum quota_what)i, &ret->limits.of[i], err);
	if (r == 0)
		r = read_weight(weight, &ret->weight, err);
	if (r == 0)
		r = read_events_age(age, &ret->events_age_ms, err);
	return r < 0 ? r : ceilings_read(max_limits, max_timeout_ms, &ret->ceilings, err);
}

int quota_setting_write(const struct quota_setting *setting, struct buf *out)
{
	struct json_writer w;

	json_writer_init(&w, out);
	json_open_object(&w, NULL);
	for (unsigned i = 0; i < QUOTA_COUNT; i++)
		if (setting->is_set[i])
			quota_field_put(&w, (enum quota_what)i, setting->limits.of[i]);
	if (!ceilings_is_empty(&setting->ceilings))
		ceilings_put(&setting->ceilings, &w);
	if (setting->weight > 0)
		json_put_u64(&w, "weight", setting->weight);
	if (setting->events_age_ms > 0)
		json_put_u64(&w, "events_age_ms", setting->events_age_ms);
	json_close_object(&w);
	return json_writer_end(&w);
}
