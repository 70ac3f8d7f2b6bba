// SPDX-License-Identifier: Apache-2.0
#pragma once
/* A quota's limits as JSON, the same in the API and in the store. */
#include "tenant/quota.h"

const char *quota_field_name(enum quota_what what); /* "memory_mib" */
/* A value in the field's unit, as a decimal number. */
void quota_field_format(enum quota_what what, uint64_t value, char *text, size_t size);
void quota_field_put(struct json_writer *w, enum quota_what what, uint64_t value);
must_check int quota_setting_write(const struct quota_setting *setting, struct buf *out);
void quota_field_put_as(struct json_writer *w, const char *name, enum quota_what what,
                        uint64_t value);
