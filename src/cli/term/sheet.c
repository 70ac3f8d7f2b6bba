// SPDX-License-Identifier: Apache-2.0
#include "cli/term/sheet.h"

#include "cli/term/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define EPOCH_YEAR_US (UINT64_C(31536000) * 1000000)

static bool has_suffix(const char *name, const char *suffix)
{
	size_t n = strlen(name), m = strlen(suffix);

	return n >= m && strcmp(name + n - m, suffix) == 0;
}

/* A moment, or where it would be in the first year of the epoch, a stretch of time. */
static void print_time(uint64_t us)
{
	time_t s = (time_t)(us / 1000000);
	struct tm tm;
	char text[32];

	if (us < EPOCH_YEAR_US)
		printf("%.1f ms\n", (double)us / 1000);
	else if (gmtime_r(&s, &tm) &&
	         strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S UTC", &tm) > 0)
		printf("%s\n", text);
	else
		printf("%" PRIu64 "\n", us);
}

static void print_scalar(const char *name, const json_t *value)
{
	auto_free char *text = NULL;

	if (json_is_string(value)) {
		text = text_escaped(json_string_value(value));
		printf("%s\n", text);
	} else if (json_is_integer(value) && has_suffix(name, "_us")) {
		print_time((uint64_t)json_integer_value(value));
	} else if (json_is_null(value)) {
		printf("-\n");
	} else {
		text = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(6));
		printf("%s\n", text ? text : "");
	}
}

static void print_object(const json_t *object, int indent)
{
	const char *name;
	json_t *value;

	json_object_foreach (unconst(object), name, value) {
		auto_free char *label = text_escaped(name);
		size_t i;
		const json_t *item;

		printf("%*s%s:", indent, "", label);
		if (json_is_object(value) && json_object_size(value) > 0) {
			printf("\n");
			print_object(value, indent + 2);
		} else if (json_is_array(value) && json_array_size(value) > 0) {
			printf("\n");
			json_array_foreach(value, i, item)
			{
				printf("%*s- ", indent + 2, "");
				print_scalar("", item);
			}
		} else if (json_is_object(value) || json_is_array(value)) {
			printf(" -\n");
		} else {
			printf(" ");
			print_scalar(name, value);
		}
	}
}

void sheet_print(const json_t *object)
{
	print_object(object, 0);
}
