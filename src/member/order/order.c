// SPDX-License-Identifier: Apache-2.0
#include "member/order/order.h"

int order_parse(const json_t *all, struct order *ret, struct err *err)
{
	const struct json_field fields[] = {
		{"command", JSON_FIELD_STRING, &ret->command, true},
		{"data_dir", JSON_FIELD_STRING, &ret->data_dir, true},
		{"run_dir", JSON_FIELD_STRING, &ret->run_dir, true},
		{"postgres", JSON_FIELD_STRING, &ret->postgres},
		{"address", JSON_FIELD_STRING, &ret->address},
		{"objects", JSON_FIELD_STRING, &ret->objects},
		{"objects_endpoint", JSON_FIELD_STRING, &ret->objects_endpoint},
		{"objects_region", JSON_FIELD_STRING, &ret->objects_region},
		{"objects_credentials", JSON_FIELD_STRING, &ret->objects_credentials},
		{"objects_ca", JSON_FIELD_STRING, &ret->objects_ca},
		{"objects_collect_s", JSON_FIELD_U64, &ret->objects_collect_s, .max = INT32_MAX},
		{"objects_collect_most", JSON_FIELD_U64, &ret->objects_collect_most, .max = 100},
		{"owner", JSON_FIELD_STRING, &ret->owner},
		{"name", JSON_FIELD_STRING, &ret->name},
		{"node", JSON_FIELD_STRING, &ret->node},
		{"token", JSON_FIELD_STRING, &ret->token},
		{"lifetime_s", JSON_FIELD_U64, &ret->lifetime_s, .max = INT32_MAX},
		{"fence_after_ms", JSON_FIELD_U64, &ret->fence_after_ms, .max = INT32_MAX},
		{"lost_after_ms", JSON_FIELD_U64, &ret->lost_after_ms, .max = INT32_MAX},
		{"certificate_s", JSON_FIELD_U64, &ret->certificate_s, .max = INT32_MAX},
		{"beat_ms", JSON_FIELD_U64, &ret->beat_ms, .max = INT32_MAX},
		{"log_level", JSON_FIELD_U64, &ret->log_level, .max = 3},
		{"link_fd", JSON_FIELD_U64, &ret->link_fd, .max = INT32_MAX},
		{"control_fd", JSON_FIELD_U64, &ret->control_fd, .max = INT32_MAX},
		{"replace", JSON_FIELD_BOOL, &ret->is_replacing},
	};

	return json_read(all, "", fields, ARRAY_SIZE(fields), err);
}
